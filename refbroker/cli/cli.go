// Package cli is the refbroker command: serve, and the tools beside it. It is
// a package so that a test binary can be the broker too.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"watershed.example/refbroker/internal/host"
)

// Host is the world of a command: a node's, and a process's.
type Host struct {
	host.Host
	// Getenv is where serve finds values of its flags; nil for nowhere.
	Getenv         func(string) string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Signals makes SIGINT and SIGTERM end the command cleanly. A second one
	// ends the process.
	Signals bool
	// Crash ends the process at once, as kill -9 does, when a test arms a point
	// with "crash".
	Crash func()
}

// RaftStores are what Host.RaftStores opens, for hosts of one's own.
type RaftStores = host.RaftStores

// RealHost is this process and this machine.
func RealHost() Host {
	return Host{
		Host: host.Real(), Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Signals: true, Crash: crash,
	}
}

// crash kills this process. Kill can't fail for a process of one's own, but
// takes effect a moment later, and nothing may happen in between.
func crash() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	if os.Getpid() == 1 {
		// The first process of a container can't be killed from inside. Nothing
		// of the broker runs on the way out here either.
		os.Exit(exitKilled)
	}
	select {}
}

// exitKilled is how shells tell of a process that SIGKILL ended.
const exitKilled = 128 + 9

// The exit codes of [Main].
const (
	ExitOK = 0
	// ExitFailed: it could not be done.
	ExitFailed = 1
	// ExitUsage: it was not asked for properly.
	ExitUsage = 2
)

// usageError is a mistake in how the command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Main runs the command with args, which do not include its name, and returns
// the process's exit code. What went wrong is one line on Stderr.
func Main(ctx context.Context, args []string, h Host) int {
	if h.Signals {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		// The second signal is not ours any more.
		context.AfterFunc(ctx, stop)
	}
	root := rootCommand(h)
	root.SetArgs(args)
	root.SetIn(h.Stdin)
	root.SetOut(h.Stdout)
	root.SetErr(h.Stderr)
	running := markRunning(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	_, _ = fmt.Fprintf(h.Stderr, "refbroker: %s\n", oneLine(err)) // nowhere else to say it
	// What fails before a command runs is how it was called.
	var usage usageError
	if errors.As(err, &usage) || !*running {
		return ExitUsage
	}
	return ExitFailed
}

// oneLine is an error without line breaks, which joined errors have.
func oneLine(err error) string {
	return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
}

// markRunning tells whether the checks of flags and arguments are over.
func markRunning(c *cobra.Command) *bool {
	running := new(bool)
	var mark func(*cobra.Command)
	mark = func(c *cobra.Command) {
		if run := c.RunE; run != nil {
			c.RunE = func(c *cobra.Command, args []string) error {
				*running = true
				return run(c, args)
			}
		}
		for _, sub := range c.Commands() {
			mark(sub)
		}
	}
	mark(c)
	return running
}

func rootCommand(h Host) *cobra.Command {
	root := &cobra.Command{
		Use:   "refbroker",
		Short: "A Kafka broker with cluster mirroring, made to be tested",
		Long: `refbroker is the reference broker of Watershed: a real broker that speaks the
Kafka protocol, stores segments in Kafka's format, and mirrors topics of other
clusters with producer ids kept and a MIRROR_PID_RESET barrier at a failover.

Start one and use it with any Kafka client:

  refbroker serve
  refbroker topics create orders --partitions 3

Mirror a topic from another cluster, and fail it over:

  refbroker mirrors create east --source 127.0.0.1:19092
  refbroker mirrors start east orders
  refbroker mirrors stop east orders --wait`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return c.Help()
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		serveCommand(h),
		formatCommand(h),
		topicsCommand(h),
		groupsCommand(h),
		mirrorsCommand(h.Dial),
		hooksCommand(),
		dumpLogCommand(h.FS),
		versionCommand(),
	)
	giveExamples(root)
	refuseUnknown(root)
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			version, goVersion := "unknown", "unknown"
			if info, ok := debug.ReadBuildInfo(); ok {
				version, goVersion = info.Main.Version, info.GoVersion
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "refbroker %s (%s)\n", version, goVersion)
			return err
		},
	}
}
