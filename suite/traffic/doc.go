// Package traffic is what the suite does to clusters: it writes with
// transactional, idempotent and plain producers, forges batches whose header a
// mirrored producer used, reads in both isolation levels, and samples what
// brokers say about their partitions.
//
// Every record carries its provenance (see [history.Tag]), and everything that
// was asked and answered goes into a history as it happens. Every load is
// bounded, and one seed decides what is written. Nothing here judges.
package traffic
