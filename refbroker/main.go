// Command refbroker is the reference broker of Watershed. See
// "refbroker --help".
package main

import (
	"context"
	"os"

	"watershed.example/refbroker/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], cli.RealHost()))
}
