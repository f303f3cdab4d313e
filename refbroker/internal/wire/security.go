package wire

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/auth"
)

// Security is what a listener asks of its clients. The zero value is nothing.
type Security struct {
	TLS  *tls.Config
	SASL *auth.Server
}

// maxStranger bounds the requests of who has not said yet who it is, in bytes
// (sasl.server.max.receive.size).
const maxStranger = 512 << 10

// ErrStranger is a request that only those may make of whom is known who they
// are. As in Kafka it ends the connection without an answer.
var ErrStranger = errors.New("not authenticated yet")

// encrypt shakes hands where the listener asks for TLS.
func (c *conn) encrypt() error {
	t, ok := c.c.(*tls.Conn)
	if !ok {
		return nil
	}
	within := c.s.cfg.FrameTimeout
	if err := c.unlessClosing(func() error { return t.SetDeadline(time.Now().Add(within)) }); err != nil {
		return nil // closing
	}
	if err := t.HandshakeContext(c.s.ctx); err != nil {
		if c.s.ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("TLS handshake: %w", err)
	}
	return nil
}

// stranger says whether the client has still to say who it is.
func (c *conn) stranger() bool { return c.session != nil && c.session.Principal() == "" }

func (c *conn) maxFrame() int {
	if c.stranger() {
		return min(maxStranger, c.s.cfg.MaxFrame)
	}
	return c.s.cfg.MaxFrame
}

// admits refuses a stranger's request, but for those by which it says who it is.
func (c *conn) admits(key int16) error {
	if !c.stranger() {
		return nil
	}
	switch kmsg.Key(key) {
	case kmsg.ApiVersions, kmsg.SASLHandshake, kmsg.SASLAuthenticate:
		return nil
	}
	return fmt.Errorf("%s: %w", kmsg.NameForKey(key), ErrStranger)
}
