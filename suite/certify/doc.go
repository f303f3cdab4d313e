// Package certify has the tests of certifying clusters that run already, as an
// operator has them: brokers that were started apart, known by their addresses
// alone, with TLS and SASL, killed and started by the operator's own commands.
package certify
