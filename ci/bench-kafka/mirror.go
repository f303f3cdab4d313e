package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/mirrorrpc"
)

// Who reads a source while it is written at full speed.
const (
	readNobody   = "nobody"
	readConsumer = "consumer" // franz-go with its defaults
	readMirror   = "mirror"   // another refbroker
)

// Targets of mirroring. A tenth is for what the clock of processor time, and the
// order in which three runs meet a disk, make of equal costs.
const (
	keepsUp     = 0.9 // of what a consumer does
	costsNoMore = 1.1 // of what a consumer costs the source
)

// mirrorSample is one run.
type mirrorSample struct {
	MBPerSecond float64 `json:"producedMBPerSecond"`
	// CPU is the source's processor time, for each GB that was produced, until the
	// reader has all of it; Reader that of the mirror.
	CPU    float64 `json:"sourceCpuSecondsPerGB"`
	Reader float64 `json:"mirrorCpuSecondsPerGB,omitempty"`
	// Behind is the share of the records that the reader lacked at the last
	// acknowledgement, and CaughtUp when it had them, in seconds.
	Behind   float64 `json:"behindShare"`
	CaughtUp float64 `json:"caughtUpSeconds"`
	// KeptUp is the share of writing in the time of writing and catching up.
	KeptUp float64 `json:"keptUp"`
	Others float64 `json:"othersShare"`
}

// mirrorRow is what came of one size of records: medians by reader.
type mirrorRow struct {
	Size    int                       `json:"recordBytes"`
	Samples map[string][]mirrorSample `json:"samples"`
}

func (r mirrorRow) median(reader string, of func(mirrorSample) float64) float64 {
	var all []sample
	for _, s := range r.Samples[reader] {
		all = append(all, sample{Value: of(s)})
	}
	return median(all, value)
}

func (r mirrorRow) cpuRatio() float64 {
	cpu := func(s mirrorSample) float64 { return s.CPU }
	return r.median(readMirror, cpu) / r.median(readConsumer, cpu)
}

func (r mirrorRow) keptUp(reader string) float64 {
	return r.median(reader, func(s mirrorSample) float64 { return s.KeptUp })
}

// measureMirroring writes to one broker at full speed while nobody reads, a
// consumer does, and another broker mirrors it, in turns.
func measureMirroring(ctx context.Context, o options) (rows []mirrorRow, err error) {
	source, err := startRefbroker(ctx, o, filepath.Join(o.dir, "source"))
	if err != nil {
		return nil, err
	}
	defer source.kill()
	mirror, err := startRefbroker(ctx, o, filepath.Join(o.dir, "mirror"))
	if err != nil {
		return nil, err
	}
	defer mirror.kill()
	rows = []mirrorRow{{1024, map[string][]mirrorSample{}}, {100, map[string][]mirrorSample{}}}
	bytes := map[int]float64{1024: 600e6, 100: 300e6}
	readers := []string{readNobody, readConsumer, readMirror}
	for round := -1; round < o.rounds; round++ { // the one before the first warms up
		for _, row := range rows {
			for i := range readers {
				reader := readers[(i+max(round, 0))%len(readers)]
				s, err := mirrorRun(ctx, source, mirror, reader, row.Size, int(bytes[row.Size]*o.scale)/row.Size)
				if err != nil {
					return nil, fmt.Errorf("%d bytes, read by %s: %w", row.Size, reader, err)
				}
				fmt.Fprintf(os.Stderr, "round %d  %4d B  %-8s %5.0f MB/s  behind %3.0f %%  caught up after %.2f s  source %.2f s/GB  mirror %.2f s/GB  others %2.0f %%\n",
					round+1, row.Size, reader, s.MBPerSecond, 100*s.Behind, s.CaughtUp, s.CPU, s.Reader, 100*s.Others)
				if round >= 0 {
					row.Samples[reader] = append(row.Samples[reader], s)
				}
			}
		}
	}
	return rows, nil
}

// reading is a reader at work.
type reading struct {
	// has is how many records it has.
	has func() (int, error)
	end func() error
}

func mirrorRun(ctx context.Context, source, mirror *broker, reader string, size, n int) (s mirrorSample, err error) {
	err = withTopic(ctx, source.addr, partitions, func(topic string) error {
		r, err := read(ctx, source, mirror, reader, topic, n)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.end()) }()
		runtime.GC()
		ticks, cpu, by := readTicks(source, mirror), source.cpuSeconds(), mirror.cpuSeconds()
		took, err := produce(ctx, source.addr, topic, size, n)
		if err != nil {
			return err
		}
		ended := time.Now()
		for has := -1; has < n; {
			if has, err = r.has(); err != nil {
				return err
			}
			if s.Behind == 0 && has < n {
				s.Behind = float64(n-has) / float64(n)
			}
			if has < n {
				select {
				case <-time.After(2 * time.Millisecond):
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		}
		gb := float64(n) * float64(size) / 1e9
		s.CaughtUp = time.Since(ended).Seconds()
		s.KeptUp = took.Seconds() / (took.Seconds() + s.CaughtUp)
		s.MBPerSecond = gb * 1000 / took.Seconds()
		s.CPU, s.Reader = (source.cpuSeconds()-cpu)/gb, (mirror.cpuSeconds()-by)/gb
		s.Others = ticks.others(readTicks(source, mirror))
		return nil
	})
	return s, err
}

func read(ctx context.Context, source, mirror *broker, reader, topic string, n int) (reading, error) {
	switch reader {
	case readConsumer:
		return readByConsumer(ctx, source, topic)
	case readMirror:
		return readByMirror(ctx, source, mirror, topic)
	}
	return reading{has: func() (int, error) { return n, nil }, end: func() error { return nil }}, nil
}

func readByConsumer(ctx context.Context, source *broker, topic string) (reading, error) {
	cl, err := client(source.addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return reading{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var got atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			fs := cl.PollFetches(ctx)
			got.Add(int64(fs.NumRecords()))
		}
	}()
	return reading{
		has: func() (int, error) { return int(got.Load()) - 1, nil }, // produce writes one record more, before it begins
		end: func() error {
			cancel()
			<-done
			cl.Close()
			return nil
		},
	}, nil
}

func readByMirror(ctx context.Context, source, mirror *broker, topic string) (reading, error) {
	cl, err := client(mirror.addr, kgo.MaxVersions(nil))
	if err != nil {
		return reading{}, err
	}
	adm, mirrors := kadm.NewClient(cl), mirrorrpc.Client{R: cl}
	has := func() (int, error) {
		ends, err := adm.ListEndOffsets(ctx, topic)
		if err == nil {
			err = ends.Error()
		}
		all := int64(0)
		ends.Each(func(o kadm.ListedOffset) { all += o.Offset })
		return int(all) - 1, err
	}
	r := reading{has: has, end: func() error {
		defer cl.Close()
		err := mirrors.Stop(ctx, topic, topic)
		for err == nil {
			if _, err = adm.DeleteTopics(ctx, topic); err == nil {
				break
			}
			if err = sleep(ctx, 20*time.Millisecond); err != nil {
				break
			}
		}
		return err
	}}
	// One mirror for each run, named as its topic.
	err = mirrors.Create(ctx, topic, map[string]string{mirrorrpc.ConfigBootstrap: source.addr})
	if err == nil {
		err = mirrors.Start(ctx, topic, topic)
	}
	for err == nil {
		var all []mirrorrpc.DescribedMirror
		if all, err = mirrors.Describe(ctx, topic); err == nil && mirroring(all) == partitions {
			return r, nil
		}
		if err == nil {
			err = sleep(ctx, 10*time.Millisecond)
		}
	}
	cl.Close()
	return r, err
}

// mirroring counts the partitions that mirror.
func mirroring(all []mirrorrpc.DescribedMirror) (n int) {
	for _, m := range all {
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				if p.StateValue == "MIRRORING" {
					n++
				}
			}
		}
	}
	return n
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func printMirroring(w io.Writer, o options, rows []mirrorRow) (met bool) {
	fmt.Fprintf(w, "\nMedians of %d rounds in turns, %d processors, which load, source and reader share. \"others\": what other processes took of them meanwhile.\n", o.rounds, runtime.NumCPU())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "records\tread by\tproduced\tbehind at the end\tcaught up after\tsource's processor time\tothers")
	for _, r := range rows {
		for _, reader := range []string{readNobody, readConsumer, readMirror} {
			of := func(f func(mirrorSample) float64) float64 { return r.median(reader, f) }
			fmt.Fprintf(t, "%d B\t%s\t%.0f MB/s\t%.1f %%\t%.3f s\t%.2f s/GB\t%.0f %%\n", r.Size, reader,
				of(func(s mirrorSample) float64 { return s.MBPerSecond }), 100*of(func(s mirrorSample) float64 { return s.Behind }),
				of(func(s mirrorSample) float64 { return s.CaughtUp }), of(func(s mirrorSample) float64 { return s.CPU }),
				100*of(func(s mirrorSample) float64 { return s.Others }))
		}
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "measure\tratio\ttarget\t")
	met = true
	verdict := func(ok bool) string {
		met = met && ok
		if ok {
			return "met"
		}
		return "MISSED"
	}
	for _, r := range rows {
		up := keepsUp * r.keptUp(readConsumer)
		fmt.Fprintf(t, "%d B: mirrored as fast as written\t%.2f\t≥ %.2f\t%s\n", r.Size, r.keptUp(readMirror), up, verdict(r.keptUp(readMirror) >= up))
		fmt.Fprintf(t, "%d B: source's processor time, mirror/consumer\t%.2f\t≤ %.1f\t%s\n", r.Size, r.cpuRatio(), costsNoMore, verdict(r.cpuRatio() <= costsNoMore))
		rate := func(s mirrorSample) float64 { return s.MBPerSecond }
		fmt.Fprintf(t, "%d B: rate of producing, mirror/consumer\t%.2f\t-\t-\n", r.Size, r.median(readMirror, rate)/r.median(readConsumer, rate))
	}
	_ = t.Flush()
	return met
}
