package main

import (
	"os"
	"strconv"
	"strings"
)

// ticks are what the machine's processors did since its start.
type ticks struct{ busy, all, ours float64 }

// readTicks counts as ours this process and the brokers that are given.
func readTicks(brokers ...*broker) ticks {
	var t ticks
	raw, _ := os.ReadFile("/proc/stat")
	first, _, _ := strings.Cut(string(raw), "\n")
	for i, f := range strings.Fields(first) {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil || i > 8 { // guests are counted as users already
			continue
		}
		t.all += v
		if i != 4 && i != 5 { // idle, waiting for a disk
			t.busy += v
		}
	}
	t.ours = processTicks(os.Getpid())
	for _, b := range brokers {
		t.ours += processTicks(b.PID())
	}
	return t
}

func processTicks(pid int) float64 {
	raw, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(raw), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(f[11], 64)
	system, _ := strconv.ParseFloat(f[12], 64)
	return user + system
}

// cpuSeconds is what the process has had of the processors.
func (b *broker) cpuSeconds() float64 {
	const ticksPerSecond = 100 // USER_HZ
	return processTicks(b.PID()) / ticksPerSecond
}

// others is the share of the machine that other processes took since t.
func (t ticks) others(now ticks) float64 {
	if now.all <= t.all {
		return 0
	}
	return max(0, (now.busy-t.busy)-(now.ours-t.ours)) / (now.all - t.all)
}
