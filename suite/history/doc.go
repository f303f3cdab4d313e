// Package history holds what a run asked of its clusters and what they
// answered: one file of JSON lines for one run, written while the run goes on
// and closed (synced to disk) before anything is judged.
//
// The first line is a [Header], every other line an [Event]. Numbers of 64
// bits, such as offsets, producer ids and times, are JSON strings, since many
// readers hold JSON numbers as doubles and round them (field case FA-24).
//
// Two rules keep a history honest. A begin event is written before its request
// is sent, and its result after the answer came, so an operation without a
// result is one whose outcome the client does not know. And an outcome the
// client can't know is [Unknown]: it is never counted as failed.
package history
