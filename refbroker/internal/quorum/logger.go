package quorum

import (
	"context"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// hclogOf makes raft log into ours. A lone voter is warned of nothing but its
// own elections, which are no news.
func hclogOf(log *slog.Logger, alone bool) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Off, Output: io.Discard})
	l.RegisterSink(hclogSink{log, alone})
	return l
}

type hclogSink struct {
	log   *slog.Logger
	alone bool
}

// Accept takes one message. Raft's "info" is news for its own developers, so
// everything below a warning is debug here.
func (s hclogSink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	switch {
	case level == hclog.Error:
		to = slog.LevelError
	case level == hclog.Warn && !s.alone:
		to = slog.LevelWarn
	}
	// In a group: raft has a "node" of its own, which would hide ours in JSON.
	s.log.WithGroup("raft").Log(context.Background(), to, "raft: "+msg, args...)
}
