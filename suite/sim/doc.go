// Package sim holds the tests that keep virtual time possible: two clusters, and
// one of three brokers, in a testing/synctest bubble, over connections in
// memory, where every timeout of a failover passes in milliseconds. Run it with ci/virtual-time: franz-go
// needs its build tag synctests there.
package sim
