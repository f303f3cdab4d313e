package suite_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"watershed.example/fixtures"
	"watershed.example/suite/engine"
	"watershed.example/suite/report"
)

// settings are what the person chose.
var settings engine.Settings

// run is what all scenarios of this test binary share.
var run struct {
	ctx    context.Context
	folder string // of this run's evidence
	leave  func() // gives it free
	module string // the module's root

	mu      sync.Mutex
	results []*engine.Result
}

func TestMain(m *testing.M) {
	fixtures.MaybeBroker() // this binary is also the broker that it starts
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	settings.Register(flag.CommandLine, os.Getenv)
	flag.Usage = func() { settings.Usage(flag.CommandLine.Output()) }
	flag.Parse()
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "watershed:", err)
		return 2
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	stopSignals := onSignal(cancel)
	defer stopSignals()
	if err := settings.Resolve(ctx, engine.KnownDefects()); err != nil {
		return fail(err)
	}
	if !settings.SeedGiven {
		settings.Seed = uint64(time.Now().UnixNano() / int64(time.Millisecond))
	}
	if flag.Lookup("test.list").Value.String() != "" {
		return m.Run()
	}
	if err := enoughTime(); err != nil {
		return fail(err)
	}
	// Scenarios wait more than they compute; what runs at once is limited by
	// their weight, not by go test's idea of it.
	if !given("test.parallel") {
		if err := flag.Set("test.parallel", "64"); err != nil {
			return fail(err)
		}
	}
	stopOrphan := onOrphan(cancel)
	defer stopOrphan()
	if d := timeout(); d > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, d-min(d/5, 10*time.Second),
			fmt.Errorf("the test's own time limit (-timeout=%s) is near", d))
		defer stop()
	}
	run.ctx = ctx
	if err := makeFolders(); err != nil {
		return fail(err)
	}
	defer run.leave()
	if settings.KnownFile != "" {
		var err error
		if settings.Known, err = report.LoadKnown(inModule(settings.KnownFile)); err != nil {
			return fail(fmt.Errorf("-known: %w", err))
		}
	}
	if settings.TargetFile != "" && !given("test.run") {
		// Whoever names a target wants that certified, and no cluster started.
		if err := flag.Set("test.run", "^TestTarget$"); err != nil {
			return fail(err)
		}
	}
	say("seed %d, launcher %s, evidence in %s", settings.Seed, settings.LaunchedBy(), run.folder)
	if err := fixtures.Prepare(ctx, settings.Launcher); err != nil {
		return fail(err)
	}
	code := m.Run()
	if err := fixtures.Finish(); err != nil {
		fmt.Fprintln(os.Stderr, "watershed:", err)
		code = max(code, 1)
	}
	if err := finish(); err != nil {
		fmt.Fprintln(os.Stderr, "watershed:", err)
		code = max(code, 1)
	}
	if err := context.Cause(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "watershed: stopped early:", err)
		code = max(code, 1)
	}
	return code
}

func given(name string) bool {
	found := false
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// timeout is go test's limit for this binary; 0 for none.
func timeout() time.Duration {
	d, err := time.ParseDuration(flag.Lookup("test.timeout").Value.String())
	if err != nil {
		return 0
	}
	return d
}

// enoughTime says, before anything starts, when a long mode can't end in time.
func enoughTime() error {
	// A round that began in time ends after it.
	if need := settings.Duration + engine.Estimate(engine.Scenarios(selection())); settings.Duration > 0 && timeout() > 0 && timeout() < need {
		return fmt.Errorf("-duration=%s needs about %s: give go test -timeout=%s", settings.Duration, need.Round(time.Minute), (need + 10*time.Minute).Round(time.Minute))
	}
	if d := timeout(); settings.Explore > 0 && d > 0 && d < settings.Explore+engine.LeastRoom {
		return fmt.Errorf("-explore=%s: give go test a -timeout=%s", settings.Explore, (settings.Explore + 5*time.Minute).Round(time.Minute))
	}
	if !settings.Full {
		return nil
	}
	need := engine.Estimate(engine.Scenarios(engine.Full)) + engine.EstimateDefects()
	if named("TestCrashMatrix") {
		need = engine.Estimate(engine.CrashMatrix())
	}
	if named("TestMatrix") {
		need = engine.Estimate(engine.ScenariosOf(engine.FaultMatrix()))
	}
	if d := timeout(); d > 0 && d < need {
		return fmt.Errorf("-full needs about %s here: give go test -timeout=%s", need.Round(time.Minute), (2 * need).Round(time.Minute))
	}
	return nil
}

var errInterrupted = errors.New("interrupted")

// onSignal ends the run at the first Ctrl-C or SIGTERM: scenarios then end
// their brokers and fail. A second signal ends the process at once; the brokers
// notice that, since a pipe that they inherited closes.
func onSignal(cancel context.CancelCauseFunc) (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case s := <-signals:
				if n > 0 {
					os.Exit(1)
				}
				cancel(fmt.Errorf("%w by %s", errInterrupted, s))
			case <-done:
				return
			}
		}
	})
	return func() { signal.Stop(signals); close(done); wg.Wait() }
}

// onOrphan ends the run when the process that started this one is gone:
// SIGTERM to go test kills go without telling the test binary.
func onOrphan(cancel context.CancelCauseFunc) (stop func()) {
	parent := os.Getppid()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if os.Getppid() != parent {
					cancel(fmt.Errorf("%w: the parent process %d is gone", errInterrupted, parent))
					return
				}
			case <-done:
				return
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// moduleRoot finds the folder that holds go.mod, from the working directory up.
func moduleRoot() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := at; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod above %s", at)
		}
	}
}

// makeFolders makes the folder of this run's evidence and points out/latest to it.
func makeFolders() error {
	var err error
	if run.module, err = moduleRoot(); err != nil {
		return err
	}
	out := inModule(cmp.Or(settings.Out, "out"))
	run.folder, run.leave, err = engine.NewRunFolder(out, settings.Seed, settings.Keep, time.Now())
	if err != nil {
		return fmt.Errorf("-out %q: %w", settings.Out, err)
	}
	return nil
}

// inModule is a path that the person gave: relative ones begin at the module's
// root, since go test runs in the package's folder.
func inModule(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(run.module, path)
}

// terminal is the person's own terminal, where there is one and go test keeps
// the output back until the end; else nil.
var terminal = sync.OnceValue(func() *os.File {
	if testing.Verbose() {
		return nil
	}
	f, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		return nil
	}
	return f
})

var sayMu sync.Mutex

// say shows progress: with -v in the test's output, else on the terminal.
func say(format string, args ...any) {
	sayMu.Lock()
	defer sayMu.Unlock()
	line := "watershed: " + fmt.Sprintf(format, args...) + "\n"
	if testing.Verbose() {
		fmt.Print(line)
	} else if t := terminal(); t != nil {
		_, _ = t.WriteString(line)
	}
}

// finish writes the reports of the whole run and shows the table.
func finish() error {
	run.mu.Lock()
	defer run.mu.Unlock()
	var errs []error
	if len(run.results) > 0 {
		table, err := engine.WriteSummary(run.folder, &settings, run.results)
		errs = append(errs, err)
		text := strings.TrimRight(table, "\n") + "\nevidence: " + run.folder + "\n"
		fmt.Print(text)
		if t := terminal(); t != nil {
			_, _ = t.WriteString(text)
		}
	}
	return errors.Join(errs...)
}

// uncached makes sure that go test never takes this run's result for a later
// one's: its cache looks at the files that a test has read in its module, and
// keeps no result that rests on one younger than two seconds. The end of a run
// may take longer, so the file is dated ahead. What is read after the last test
// does not count, so each test does it at its end.
func uncached(t *testing.T) {
	t.Cleanup(func() {
		stamp := filepath.Join(run.module, "out", "last-run")
		if err := os.MkdirAll(filepath.Dir(stamp), 0o755); err != nil {
			t.Error(err)
			return
		}
		if err := os.WriteFile(stamp, []byte(strconv.FormatInt(time.Now().UnixNano(), 10)+"\n"), 0o644); err != nil {
			t.Error(err)
			return
		}
		ahead := time.Now().Add(time.Hour)
		if err := os.Chtimes(stamp, ahead, ahead); err != nil {
			t.Error(err)
			return
		}
		if _, err := os.ReadFile(stamp); err != nil {
			t.Error(err)
		}
	})
}
