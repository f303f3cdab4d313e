// Package suite is the tests that a person runs:
//
//	go test -v ./suite
//
// Each scenario launches clusters, fails a mirror over under traffic while a
// fault strikes, saves what was asked, answered and stored, and then judges it.
// go test ./suite -args -h shows the suite's own flags.
package suite
