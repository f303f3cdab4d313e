// Package sim holds the test that keeps virtual time possible: two brokers in
// one testing/synctest bubble, over connections in memory, where every timeout
// of a failover passes in milliseconds. Run it with ci/virtual-time: franz-go
// needs its build tag synctests there.
package sim
