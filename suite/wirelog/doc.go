// Package wirelog reads the raw log of one partition of one replica, in
// Kafka's file format, with a decoder of its own: it shares no code with the
// broker that wrote the log, since it is the judge's eye (contract, "Words").
//
// Batches keep a reference to their bytes, so that logs can be compared byte
// for byte; records are decoded only when asked for. A torn tail and a bad
// checksum are reported, never an error that hides the rest.
package wirelog
