// Package report tells people and machines what a run came to: a story for each
// violation, for the person who has to find out at night; a verdict table for a
// terminal; JUnit XML and JSON for machines. Every function returns its write
// errors: a report that could not be written fails the run.
package report
