// Command watershed plays, judges and explains the suite without go test:
//
//	go run ./suite/cmd/watershed --help
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"watershed.example/fixtures"
)

// Exit codes. Scripts rely on them, so they keep their meaning.
const (
	exitHeld         = 0
	exitViolated     = 1 // a requirement is violated
	exitCould        = 2 // could not run: a wrong flag, no Docker, evidence that can't be read
	exitInconclusive = 3 // nothing violated, but something was not shown either way, or a level is not passed
)

// verdictError is how a command ends that judged, and not all is held.
type verdictError struct {
	code int
	text string
}

func (e verdictError) Error() string { return e.text }

func main() {
	fixtures.MaybeBroker() // this binary is also the broker that it starts
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, callOff := context.WithCancelCause(context.Background())
	go hear(signals, callOff, func() { os.Exit(exitCould) })
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	root := &cobra.Command{
		Use:   "watershed",
		Short: "Chaos and certification for Kafka cluster mirroring",
		Long: `Watershed fails mirrored topics over between real clusters, under live transactional traffic and faults in STOPPING,
and judges from the bytes in every replica's log whether each requirement of the contract holds.

Exit codes: 0 everything judged is held, 1 something is violated, 3 nothing is violated but something is inconclusive,
or the level that was asked for is not passed; 2 could not run.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	errs = &lockedWriter{w: errs}
	say := func(line string) { _, _ = fmt.Fprintln(errs, "watershed:", line) }
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errs)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(certifyCommand(), runCommand(), judgeCommand(), bundleCommand(), explainCommand(), listCommand(), doctorCommand(), versionCommand())
	err := noticed(ctx, say, root.ExecuteContext)
	code := exitHeld
	var verdict verdictError
	switch {
	case errors.As(err, &verdict):
		code = verdict.code
	case err != nil:
		code = exitCould
	}
	for _, line := range causes(err) {
		say(line)
	}
	return code
}
