// Command bench-kafka measures refbroker against Apache Kafka on one machine:
// the same client program, the same loads, in turns. See docs/performance.md.
//
// It ends with 1 when -strict is given and a target is missed, with 2 when it
// could not measure.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"syscall"
)

type options struct {
	refbroker, kafkaLib, dir, jsonFile string
	rounds                             int
	strict, mirror                     bool
	only                               *regexp.Regexp
	scale                              float64
}

func main() {
	o := options{}
	only := ""
	flag.StringVar(&o.refbroker, "refbroker", "", "the refbroker `BINARY`")
	flag.StringVar(&o.kafkaLib, "kafka-lib", "", "`FOLDER` of Apache Kafka's jars; without it only what needs no comparison is judged")
	flag.StringVar(&o.dir, "dir", "", "`FOLDER` for the brokers' data (default a temporary one)")
	flag.StringVar(&o.jsonFile, "json", "", "write all results to `FILE` too")
	flag.IntVar(&o.rounds, "rounds", 5, "how often everything is measured, in turns")
	flag.BoolVar(&o.strict, "strict", false, "fail when a target is missed")
	flag.StringVar(&only, "only", "", "measure only what has a name that matches `REGEXP`")
	flag.BoolVar(&o.mirror, "mirror", false, "measure mirroring from one refbroker to another instead")
	flag.Float64Var(&o.scale, "scale", 1, "multiply the bytes and seconds of each load by `FACTOR`")
	flag.Parse()
	// The load shares the processors with the broker, and is to take few of them.
	debug.SetGCPercent(400)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, o, only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-kafka:", err)
		code = 2
	}
	os.Exit(code)
}

func run(ctx context.Context, o options, only string) (code int, err error) {
	if o.only, err = regexp.Compile(only); err != nil {
		return 2, fmt.Errorf("-only: %w", err)
	}
	if o.refbroker == "" || o.rounds < 1 || o.scale <= 0 || flag.NArg() > 0 {
		flag.Usage()
		return 2, nil
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "bench-kafka-"); err != nil {
			return 2, err
		}
		defer func() { _ = os.RemoveAll(o.dir) }()
	}
	if o.mirror {
		return runMirroring(ctx, o)
	}
	res := newResults(o)
	if err := measureStarts(ctx, o, res); err != nil {
		return 2, err
	}
	if err := measureLoads(ctx, o, res); err != nil {
		return 2, err
	}
	res.print(os.Stdout)
	return o.end(res.report(), res.met())
}

func runMirroring(ctx context.Context, o options) (code int, err error) {
	rows, err := measureMirroring(ctx, o)
	if err != nil {
		return 2, err
	}
	return o.end(rows, printMirroring(os.Stdout, o, rows))
}

// end writes the results down, and gives the code to end with.
func (o options) end(results any, met bool) (code int, err error) {
	if o.jsonFile != "" {
		raw, err := json.MarshalIndent(results, "", "  ")
		if err == nil {
			err = os.WriteFile(o.jsonFile, append(raw, '\n'), 0o644)
		}
		if err != nil {
			return 2, fmt.Errorf("-json: %w", err)
		}
	}
	if o.strict && !met {
		return 1, nil
	}
	return 0, nil
}
