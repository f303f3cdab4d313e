package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"watershed.example/refbroker/internal/broker"
	"watershed.example/refbroker/internal/host"
)

// serveOperations serves health and metrics, from before the node's start on,
// until the function that it returns is called.
func serveOperations(ctx context.Context, h host.Host, address string) (o *broker.Operations, at string, end func(), err error) {
	l, err := h.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, "", nil, fmt.Errorf("--http: %w", err)
	}
	o = broker.NewOperations()
	s := &http.Server{
		Handler: o, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10,
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			_ = l.Close()
		}
	}()
	return o, l.Addr().String(), func() {
		// Who asks while the node stops is answered; who is slow is not waited for.
		grace, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s.Shutdown(grace) != nil {
			_ = s.Close()
		}
		<-ended
	}, nil
}
