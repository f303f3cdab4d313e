// Package replication keeps the replicas of this node in step with their
// leaders, as Kafka does: a fetcher for each leading broker, and, where this
// node leads, an eye on who is in sync.
package replication
