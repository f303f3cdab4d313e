package mirror

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/auth"
	"watershed.example/refbroker/internal/host"
)

// Way is how the brokers of a source are reached: in plain text or by TLS, and as
// whom.
type Way struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	who  *auth.Client
	err  error
	// client is the client id of requests.
	client string
}

// WayTo reads the way to a mirror's source from the mirror's configs. What is wrong
// with them (a file of certificates that this node has not, say) is the error of
// each connection.
func WayTo(h host.Host, configs map[string]string) Way {
	w := Way{dial: h.Dial, client: clientID}
	w.who, w.err = auth.ReadClient(configs)
	return w
}

// fetching is the way as it is gone for the records of a mirror: who runs the source is
// told by the client id which mirror of which cluster asks for what.
func (w Way) fetching(cluster, mirror string) Way {
	w.client = strings.Join([]string{clientID, cluster, mirror}, "-")
	return w
}

// IsFetching says whether a client id is one by which a mirror fetches records.
func IsFetching(client string) bool { return strings.HasPrefix(client, clientID+"-") }

// CheckWay refuses configs by which no source can be reached from this node.
func CheckWay(configs map[string]string) error {
	for name := range configs {
		if strings.HasPrefix(name, "ssl.") || strings.HasPrefix(name, "sasl.") || strings.HasPrefix(name, "security.") {
			if !auth.Known(name) {
				return fmt.Errorf("config %s: not known: %w", name, kerr.InvalidConfig)
			}
		}
	}
	if _, err := auth.ReadClient(configs); err != nil {
		return fmt.Errorf("%w: %w", err, kerr.InvalidConfig)
	}
	return nil
}

// sameWay says whether two mirrors' configs are of one way to their source.
func sameWay(a, b map[string]string) bool {
	return !slices.ContainsFunc(auth.ClientConfigs(), func(name string) bool { return a[name] != b[name] })
}

// connect connects to a broker, as far as TLS.
func (w Way) connect(ctx context.Context, addr string) (net.Conn, error) {
	if w.err != nil {
		return nil, w.err
	}
	return w.who.Dial(ctx, w.dial, "tcp", addr)
}

// authenticate says who this broker is, where the mirror's configs tell.
func (c *conn) authenticate(ctx context.Context, w Way, addr string) error {
	if w.who == nil || w.who.SASL == nil {
		return nil
	}
	choose := kmsg.NewPtrSASLHandshakeRequest()
	choose.Mechanism = w.who.SASL.Name()
	chosen, err := askAtMost[*kmsg.SASLHandshakeResponse](ctx, c, choose, 1)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(chosen.ErrorCode); err != nil {
		return fmt.Errorf("SASL mechanism %s: %w (it takes %s)", choose.Mechanism, err, strings.Join(chosen.SupportedMechanisms, ", "))
	}
	session, say, err := w.who.SASL.Authenticate(ctx, addr)
	if err != nil {
		return fmt.Errorf("SASL %s: %w", choose.Mechanism, err)
	}
	for done := false; !done; {
		step := kmsg.NewPtrSASLAuthenticateRequest()
		step.SASLAuthBytes = say
		resp, err := ask[*kmsg.SASLAuthenticateResponse](ctx, c, step)
		if err != nil {
			return err
		}
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			if resp.ErrorMessage != nil {
				err = fmt.Errorf("%w (%s)", err, *resp.ErrorMessage)
			}
			return fmt.Errorf("SASL %s: %w", choose.Mechanism, err)
		}
		if done, say, err = session.Challenge(resp.SASLAuthBytes); err != nil {
			return fmt.Errorf("SASL %s: %w", choose.Mechanism, err)
		}
		if !done && len(say) == 0 {
			return errors.New("SASL " + choose.Mechanism + ": nothing more to say, and not done")
		}
	}
	return nil
}
