package certify_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"watershed.example/fixtures/target"
	"watershed.example/suite/check"
)

// proxied is an operator's own toxiproxy before the addresses by which a cluster is
// mirrored, with its HTTP API as it is.
type proxied struct {
	server           *toxiproxy.ApiServer
	api              string
	names, addresses []string
}

// proxy puts a proxy before each upstream.
func proxy(t testing.TB, cluster string, upstreams []string) proxied {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	routes := mux.NewRouter()
	routes.HandleFunc("/proxies/{proxy}", server.ProxyShow).Methods("GET")
	routes.HandleFunc("/proxies/{proxy}/toxics", server.ToxicCreate).Methods("POST")
	routes.HandleFunc("/proxies/{proxy}/toxics/{toxic}", server.ToxicDelete).Methods("DELETE")
	web := httptest.NewServer(routes)
	t.Cleanup(web.Close)
	t.Cleanup(func() { require.NoError(t, server.Collection.Clear()) })
	p := proxied{server: server, api: web.URL}
	for i, upstream := range upstreams {
		one := toxiproxy.NewProxy(server, fmt.Sprintf("%s-%d", cluster, i+1), "127.0.0.1:0", upstream)
		require.NoError(t, server.Collection.Add(one, true))
		p.names, p.addresses = append(p.names, one.Name), append(p.addresses, one.Listen)
	}
	return p
}

func (p proxied) host() string { return strings.TrimPrefix(p.api, "http://") }

// first is the first proxy.
func (p proxied) first(t testing.TB) *toxiproxy.Proxy {
	t.Helper()
	one, err := p.server.Collection.Get(p.names[0])
	require.NoError(t, err)
	return one
}

// wall puts a wall on the way, or takes it away.
func (p proxied) wall(up bool) error {
	for _, one := range p.server.Collection.Proxies() {
		for _, stream := range []string{"upstream", "downstream"} {
			err := one.Toxics.RemoveToxic(context.Background(), "wall-"+stream)
			if up {
				_, err = one.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"name": "wall-%s", "stream": %q, "type": "timeout"}`, stream, stream)))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// requireWhole says that nothing is in the way of any proxy.
func (p proxied) requireWhole(t testing.TB) {
	t.Helper()
	for name, one := range p.server.Collection.Proxies() {
		require.Empty(t, one.Toxics.GetToxicArray(), "toxics of proxy %s", name)
	}
}

const cutOff = "active-passive/outside/source-cut-off"

// TestTheSourceIsCutOff has the operator's proxies cut the mirror off for a whole stop.
func TestTheSourceIsCutOff(t *testing.T) {
	s := build(t, "kip1279-v42", target.KIP1279, true, 1)
	cert, _, err := s.certify(t.Context(), cutOff)
	require.NoError(t, err)
	allHeld(t, cert, notOutside...)
	require.Len(t, cert.Results, 1)
	got := outcomes(cert.Results[0])
	for _, id := range []string{"LINK-2", "LINK-3", "TXN-5"} {
		require.Equal(t, check.Held, got[id], id)
	}
	s.nothingLeft()
	s.before["east"].requireWhole(t)
}

// TestACutThatCutsNothing has one clear line for each way in which the file may be wrong
// about proxies, and leaves nothing.
func TestACutThatCutsNothing(t *testing.T) {
	s := build(t, "kip1279-v42", target.KIP1279, false, 1)
	east, west := s.before["east"], s.before["west"]
	whole, err := os.ReadFile(s.file)
	require.NoError(t, err)
	s.change("toxiproxy: http://", "toxiproxy: http://admin:s3cret@")
	s.change("names: [east-1]", "names: [nobody]")
	certify := func() error {
		cert, _, err := s.certify(t.Context(), cutOff)
		if err == nil {
			err = cert.Trouble
		}
		return err
	}

	require.EqualError(t, certify(), "cluster east: proxy nobody of toxiproxy at "+east.host()+": there is none")
	require.NoError(t, os.WriteFile(s.file, whole, 0o600))

	s.change("{toxiproxy: "+east.api, "{toxiproxy: "+west.api)
	require.EqualError(t, certify(), "cluster east: proxy east-1 of toxiproxy at "+west.host()+": there is none")
	require.NoError(t, os.WriteFile(s.file, whole, 0o600))

	s.change("names: [east-1]", "names: [other]")
	other := toxiproxy.NewProxy(east.server, "other", "127.0.0.1:0", "127.0.0.1:1")
	require.NoError(t, east.server.Collection.Add(other, true))
	require.ErrorContains(t, certify(), "the mirror takes another way than by the target's proxies")
	east.requireWhole(t)
	require.NoError(t, os.WriteFile(s.file, whole, 0o600))

	_, err = east.first(t).Toxics.AddToxicJson(strings.NewReader(`{"name": "watershed-cut-up", "type": "timeout"}`))
	require.NoError(t, err)
	require.EqualError(t, certify(), "cluster east: proxy east-1 of toxiproxy at "+east.host()+
		": an earlier run has left it cut: delete its toxics watershed-cut-up and watershed-cut-down")
	require.NoError(t, east.first(t).Toxics.RemoveToxic(t.Context(), "watershed-cut-up"))

	east.first(t).Stop()
	require.EqualError(t, certify(), "cluster east: proxy east-1 of toxiproxy at "+east.host()+": it is not enabled, so that no mirror gets through")
	s.nothingLeft()
}

// TestACutIsHealedWhenCalledOff ends a certification while the way is cut.
func TestACutIsHealedWhenCalledOff(t *testing.T) {
	s := build(t, "kip1279-v42", target.KIP1279, false, 1)
	east := s.before["east"]
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	off := errors.New("called off")
	first := east.first(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil && len(first.Toxics.GetToxicArray()) < 2 {
			time.Sleep(time.Millisecond) // nothing tells of a toxic
		}
		cancel(off)
	})
	cert, _, err := s.certify(ctx, cutOff)
	cancel(nil)
	wg.Wait()
	require.NoError(t, err)
	require.ErrorIs(t, cert.Trouble, off)
	east.requireWhole(t)
	s.nothingLeft()
}

// TestStoppingIsHeldOpen kills the leader while STOPPING waits for a follower that is
// paused.
func TestStoppingIsHeldOpen(t *testing.T) {
	s := plan{profile: "kip1279-v42", adapter: target.KIP1279, clusters: 2, nodes: 3, flags: patient}.build(t)
	cert, _, err := s.certify(t.Context(), heldOpen)
	require.NoError(t, err)
	allHeld(t, cert, notOutside...)
	require.Len(t, cert.Results, 1)
	s.nothingLeft()
}

// patient are flags of brokers that believe in one another for as long as Kafka's do.
var patient = []string{"--session-timeout", "9s"}

const heldOpen = "active-passive-on-3/outside/kill-leader-in-stopping"
