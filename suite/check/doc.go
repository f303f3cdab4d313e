// Package check turns the saved evidence of a run into verdicts, one for each
// requirement of the contract that the run's scenario declares. Checks are pure
// functions: they look at [Evidence] and nothing else, so that a run can be
// judged again at any time, without any cluster.
//
// The judge shares no code with a broker. It knows the true writer of each
// batch from the provenance tag in its records (history.Tag), never from the
// producer id, since ids collide on purpose.
//
// An outcome that a client can't know stays unknown. A requirement that the run
// did not exercise is inconclusive, which is never a pass.
package check
