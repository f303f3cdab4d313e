// Package chaos strikes: what (a [Kind] of fault) × when (a point of STOPPING)
// × whom (the link of a mirror), as a [Plan] that prints as one line and parses
// back. A [Strike] carries a plan out and proves that it bit: what it held,
// lost, delayed or reset is counted by the link itself, between the moment the
// strike began and its heal.
//
// After STOPPING's first step the source link is silent by itself, so a fault
// that only began at a later point would meet nothing. There a strike begins
// before the stop is requested: it holds something in flight on the link (a
// response with records, or for faults towards the source the next request) and
// lets the fault happen to it at the named point. See [Kind] for what that is.
package chaos
