package quorum

import (
	"context"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// hclogOf makes raft log into ours.
func hclogOf(log *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Off, Output: io.Discard})
	l.RegisterSink(hclogSink{log})
	return l
}

type hclogSink struct{ log *slog.Logger }

// Accept takes one message. Raft's "info" is news for its own developers, so
// everything below a warning is debug here.
func (s hclogSink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	switch level {
	case hclog.Error:
		to = slog.LevelError
	case hclog.Warn:
		to = slog.LevelWarn
	}
	s.log.Log(context.Background(), to, "raft: "+msg, args...)
}
