// Package mirror copies topics of another cluster and fails them over: a
// fetcher for each broker of the source, which acts as a consumer of it, and
// for each mirrored partition that this node leads a driver that takes it
// through the states of mirroring. STOPPING is a list of named steps, each of
// which can be done again: a driver that finds a partition in STOPPING, after
// a crash or as a new leader, goes on at the first step that is not done.
package mirror
