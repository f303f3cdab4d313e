// Package report tells people and machines what a run came to: a story for each
// violation, a verdict table for a terminal, JUnit XML and JSON.
package report
