package main

import (
	"context"
	"io"
	"os"
	"sync"
)

// interruptedError is why a command is called off.
type interruptedError struct{}

func (interruptedError) Error() string { return "interrupted" }

func (interruptedError) Is(target error) bool { return target == context.Canceled }

// hear calls off at the first signal, and quits at the second, whatever goes on then.
func hear(signals <-chan os.Signal, callOff context.CancelCauseFunc, quit func()) {
	<-signals
	callOff(interruptedError{})
	<-signals
	quit()
}

// notice is what is said when a command is called off: it may take a while until it ends.
type notice struct {
	mu   sync.Mutex
	text string
}

type noticeKey struct{}

// atInterrupt sets what is said at the first interrupt from now on.
func atInterrupt(ctx context.Context, text string) {
	if n, ok := ctx.Value(noticeKey{}).(*notice); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.text = text
	}
}

// noticed runs do, and says at once when it is called off.
func noticed(ctx context.Context, say func(line string), do func(context.Context) error) error {
	n := &notice{text: "interrupted; a second Ctrl-C quits at once"}
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		select {
		case <-ctx.Done():
		case <-done:
			if ctx.Err() == nil {
				return
			}
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		say(n.text)
	})
	err := do(context.WithValue(ctx, noticeKey{}, n))
	close(done)
	wg.Wait()
	return err
}

// lockedWriter takes one line after the other from whoever writes.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
