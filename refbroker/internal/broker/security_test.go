package broker

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/fixtures/authtest"
	"watershed.example/refbroker/internal/auth"
	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/peer"
	"watershed.example/refbroker/internal/wire"
)

const (
	somebody  = "alice"
	herSecret = "s3cret = of, hers"
)

// guarded starts a node with a listener for each protocol, by its name; the one for
// clients is in plain text.
func guarded(t *testing.T, ca *authtest.Authority, clientCA string, log *slog.Logger) *Node {
	cert, key := ca.Certificate("broker", "127.0.0.1")
	encrypt, err := auth.ServerTLS(cert, key, clientCA)
	require.NoError(t, err)
	users, err := auth.ReadUsers(strings.NewReader("# who may come in\n\n" + somebody + " = " + herSecret + "\nbob=x\n"))
	require.NoError(t, err)
	ask, err := auth.NewServer(users)
	require.NoError(t, err)
	n, err := Start(t.Context(), Config{
		Host: host.Real(), Log: log, DataDir: t.TempDir(),
		Listeners: []Listener{
			{Name: "client", Listen: "127.0.0.1:0"},
			{Name: string(auth.SSL), Listen: "127.0.0.1:0", Security: wire.Security{TLS: encrypt}},
			{Name: string(auth.SASLPlaintext), Listen: "127.0.0.1:0", Security: wire.Security{SASL: ask}},
			{Name: string(auth.SASLSSL), Listen: "127.0.0.1:0", Security: wire.Security{TLS: encrypt, SASL: ask}},
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

// known is a client's configs for a protocol.
func known(p auth.Protocol, mechanism, password, ca string) map[string]string {
	all := map[string]string{auth.ConfigProtocol: string(p), auth.ConfigTrustFile: ca}
	if p.SASL() {
		all[auth.ConfigMechanism] = mechanism
		all[auth.ConfigJAAS] = `org.apache.kafka.common.security.scram.ScramLoginModule required username="` + somebody + `" password="` + password + `";`
	}
	return all
}

func dialAs(t *testing.T, addr string, configs map[string]string) *kgo.Client {
	t.Helper()
	who, err := auth.ReadClient(configs)
	require.NoError(t, err)
	options := []kgo.Opt{
		kgo.SeedBrokers(addr), kgo.DefaultProduceTopic("t"), kgo.ConsumeTopics("t"), kgo.AllowAutoTopicCreation(),
		kgo.DisableClientMetrics(), kgo.RetryTimeout(5 * time.Second), kgo.FetchMaxPartitionBytes(4 << 20),
	}
	if who.SASL != nil {
		options = append(options, kgo.SASL(who.SASL))
	}
	if who.TLS != nil {
		options = append(options, kgo.DialTLSConfig(who.TLS))
	}
	cl, err := kgo.NewClient(options...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

// Whoever is who it says, in whatever way, writes and reads as in plain text.
func TestClientsThatAreKnownAreServed(t *testing.T) {
	ca := authtest.NewAuthority(t)
	n := guarded(t, ca, "", slog.New(slog.DiscardHandler))
	plain := dialAs(t, n.Addrs()["client"], nil)
	_, err := kadm.NewClient(plain).CreateTopic(t.Context(), 1, 1, nil, "t")
	require.NoError(t, err)
	var want []string
	for _, p := range []auth.Protocol{auth.SSL, auth.SASLPlaintext, auth.SASLSSL} {
		for _, mechanism := range auth.Mechanisms() {
			if !p.SASL() && mechanism != auth.Plain {
				continue
			}
			value := string(p) + " " + mechanism + strings.Repeat(".", 300<<10)
			want = append(want, value)
			cl := dialAs(t, n.Addrs()[string(p)], known(p, mechanism, herSecret, ca.CA))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			require.NoError(t, cl.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr(), "%s %s", p, mechanism)
			var got []string
			for len(got) < len(want) {
				fetches := cl.PollFetches(ctx)
				require.NoError(t, fetches.Err())
				fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
			}
			require.Equal(t, want, got)
		}
	}
}

// Whoever is not, is told no more than that, and so is the log.
func TestStrangersAreRefused(t *testing.T) {
	ca, other := authtest.NewAuthority(t), authtest.NewAuthority(t)
	var log bytes.Buffer
	n := guarded(t, ca, "", slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	ask := func(addr string, configs map[string]string) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return dialAs(t, addr, configs).Ping(ctx)
	}
	for _, mechanism := range auth.Mechanisms() {
		err := ask(n.Addrs()["SASL_SSL"], known(auth.SASLSSL, mechanism, "another secret", ca.CA))
		require.ErrorIs(t, err, kerr.SaslAuthenticationFailed, mechanism)
		require.NotContains(t, err.Error(), "another secret")
	}
	nobody := known(auth.SASLPlaintext, auth.ScramSHA256, herSecret, "")
	nobody[auth.ConfigJAAS] = strings.Replace(nobody[auth.ConfigJAAS], somebody, "nobody", 1)
	unknown := ask(n.Addrs()["SASL_PLAINTEXT"], nobody)
	require.ErrorIs(t, unknown, kerr.SaslAuthenticationFailed, "a name that nobody has")
	wrong := ask(n.Addrs()["SASL_PLAINTEXT"], known(auth.SASLPlaintext, auth.ScramSHA256, "wrong", ""))
	require.Equal(t, wrong.Error(), unknown.Error(), "which names there are is nobody's business")

	require.Error(t, ask(n.Addrs()["SASL_PLAINTEXT"], nil), "a client that says nothing")
	require.Error(t, ask(n.Addrs()["SSL"], nil), "a client without TLS")
	require.ErrorContains(t, ask(n.Addrs()["SSL"], known(auth.SSL, "", "", other.CA)), "certificate signed by unknown authority")

	guardedByCertificates := guarded(t, ca, ca.CA, slog.New(slog.DiscardHandler))
	require.Error(t, ask(guardedByCertificates.Addrs()["SSL"], known(auth.SSL, "", "", ca.CA)), "a client without a certificate")
	cert, key := ca.Certificate("client")
	with := known(auth.SSL, "", "", ca.CA)
	with[auth.ConfigKeyChain], with[auth.ConfigKey] = authtest.Text(t, cert), authtest.Text(t, key)
	require.NoError(t, ask(guardedByCertificates.Addrs()["SSL"], with))
	require.NoError(t, n.Close())
	for _, secret := range []string{"another secret", herSecret, "wrong"} {
		require.NotContains(t, log.String(), secret)
	}
}

// The order of requests is part of the protocol: what comes too early ends the
// connection, and who is known is not asked twice.
func TestTheOrderOfSASL(t *testing.T) {
	n := guarded(t, authtest.NewAuthority(t), "", slog.New(slog.DiscardHandler))
	dial := func(listener string) net.Conn {
		c, err := net.Dial("tcp", n.Addrs()[listener])
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	handshake := func(c net.Conn, mechanism string) *kmsg.SASLHandshakeResponse {
		req := kmsg.NewPtrSASLHandshakeRequest()
		req.Version, req.Mechanism = 1, mechanism
		resp, err := askOver[*kmsg.SASLHandshakeResponse](c, req)
		require.NoError(t, err)
		return resp
	}
	authenticate := func(c net.Conn, said string) *kmsg.SASLAuthenticateResponse {
		req := kmsg.NewPtrSASLAuthenticateRequest()
		req.Version, req.SASLAuthBytes = 2, []byte(said)
		resp, err := askOver[*kmsg.SASLAuthenticateResponse](c, req)
		require.NoError(t, err)
		return resp
	}

	c := dial("SASL_PLAINTEXT")
	require.Equal(t, kerr.IllegalSaslState.Code, authenticate(c, "\x00alice\x00"+herSecret).ErrorCode, "no mechanism yet")
	refused := handshake(c, "GSSAPI")
	require.Equal(t, kerr.UnsupportedSaslMechanism.Code, refused.ErrorCode)
	require.Equal(t, auth.Mechanisms(), refused.SupportedMechanisms)
	require.Zero(t, handshake(c, auth.Plain).ErrorCode)
	require.Zero(t, authenticate(c, "\x00alice\x00"+herSecret).ErrorCode)
	require.Equal(t, kerr.IllegalSaslState.Code, handshake(c, auth.Plain).ErrorCode, "known already")
	_, err := askOver[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest())
	require.NoError(t, err)

	c = dial("SASL_PLAINTEXT")
	_, err = askOver[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest())
	require.Error(t, err, "a stranger's request")

	c = dial("SASL_PLAINTEXT")
	require.Zero(t, handshake(c, auth.Plain).ErrorCode)
	require.Equal(t, kerr.SaslAuthenticationFailed.Code, authenticate(c, "\x00alice\x00no").ErrorCode)
	_, err = askOver[*kmsg.SASLHandshakeResponse](c, kmsg.NewPtrSASLHandshakeRequest())
	require.Error(t, err, "the connection ended")

	require.Equal(t, kerr.IllegalSaslState.Code, handshake(dial("client"), auth.Plain).ErrorCode, "nobody asks there")
}

// Nodes speak to each other in plain text.
func TestNodesNeedAListenerWithoutSecurity(t *testing.T) {
	users, err := auth.ReadUsers(strings.NewReader("a=b"))
	require.NoError(t, err)
	ask, err := auth.NewServer(users)
	require.NoError(t, err)
	cfg := Config{
		NodeID: 1, Voters: map[int32]string{1: "h:1", 2: "h:2"},
		Listeners: []Listener{{Name: "client", Listen: "127.0.0.1:0", Security: wire.Security{SASL: ask}}},
	}
	require.ErrorContains(t, cfg.complete(), `listener "client" asks for TLS or SASL`)
	cfg.Listeners = append(cfg.Listeners, Listener{Name: "replication", Listen: "127.0.0.1:0"})
	require.NoError(t, cfg.complete())
}

// askOver sends one request over a connection.
func askOver[R kmsg.Response](c net.Conn, req kmsg.Request) (R, error) {
	var none R
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return none, err
	}
	if _, err := c.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 7)); err != nil {
		return none, err
	}
	raw, _, err := peer.ReadResponse(c, 7)
	if err != nil {
		return none, err
	}
	resp := req.ResponseKind().(R)
	return resp, peer.Decode(resp, raw, req.GetVersion())
}
