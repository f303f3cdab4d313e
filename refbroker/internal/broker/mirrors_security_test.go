package broker

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/fixtures/authtest"
	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/auth"
	"watershed.example/refbroker/internal/quorum"
)

// A source that asks who its clients are, by TLS and SASL, is mirrored, stopped and
// written over as any other; its password is nowhere to be seen. Another password is
// refused in the answer, and one that is changed later is told, and mended, while
// the mirror runs.
func TestASourceThatAsksWhoItsClientsAreIsMirrored(t *testing.T) {
	t.Parallel()
	ca := authtest.NewAuthority(t)
	source := guarded(t, ca, "", slog.New(slog.DiscardHandler))
	_, err := kadm.NewClient(dialAs(t, source.Addrs()["client"], nil)).CreateTopic(t.Context(), 1, 1, nil, "t")
	require.NoError(t, err)
	plain := dialAs(t, source.Addrs()["client"], nil)
	send(t, plain, "a", "b")

	var log bytes.Buffer
	b := &mirrorNode{t: t, conf: startMirrorConfig(t, "BBBBBBBBBBBBBBBBBBBBBB")}
	b.conf.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b.start()
	closed := false
	t.Cleanup(func() {
		if !closed {
			require.NoError(t, b.Close())
		}
	})
	configs := func(password string) map[string]string {
		all := known(auth.SASLSSL, auth.ScramSHA512, password, "")
		delete(all, auth.ConfigTrustFile)
		all[auth.ConfigTrustType], all[auth.ConfigTrust] = "PEM", authtest.Text(t, ca.CA)
		all[mirrorrpc.ConfigBootstrap] = source.Addrs()["SASL_SSL"]
		return all
	}
	m := b.mirrors()
	err = m.Create(t.Context(), "wrong", configs("not hers"))
	require.ErrorContains(t, err, "SASL_AUTHENTICATION_FAILED")
	require.NotContains(t, err.Error(), "not hers")
	bad := configs(herSecret)
	bad["sasl.mechanisms"] = auth.Plain
	require.ErrorContains(t, m.Create(t.Context(), "bad", bad), "config sasl.mechanisms: not known")
	bad = configs(herSecret)
	bad[auth.ConfigJAAS] = "password=" + herSecret
	err = m.Create(t.Context(), "bad", bad)
	require.ErrorContains(t, err, "config sasl.jaas.config")
	require.NotContains(t, err.Error(), herSecret)

	require.NoError(t, m.Create(t.Context(), "m", configs(herSecret)))
	require.NoError(t, m.Start(t.Context(), "m", "t"))
	awaitEnd := func(end int64) {
		t.Helper()
		require.Eventually(t, func() bool {
			p, err := b.Env().Replicas.Partition("t", 0)
			return err == nil && p.Offsets().HighWatermark == end
		}, patience, 5*time.Millisecond, "offset %d mirrored", end)
	}
	awaitEnd(2)

	// The password is changed to a wrong one: what holds the mirror up is told.
	alter := func(password string) {
		t.Helper()
		login := configs(password)[auth.ConfigJAAS]
		require.NoError(t, m.Alter(t.Context(), "m", map[string]*string{auth.ConfigJAAS: &login}))
	}
	alter("not hers")
	send(t, plain, "c")
	require.Eventually(t, func() bool {
		described, err := m.Describe(t.Context(), "m")
		all, _ := json.Marshal(described)
		return err == nil && bytes.Contains(all, []byte("SASL_AUTHENTICATION_FAILED"))
	}, patience, 20*time.Millisecond, "the description tells that the source refuses this broker")
	alter(herSecret)
	awaitEnd(3)

	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: mirrorrpc.ResourceMirror, ResourceName: "m"}}
	resp, err := req.RequestWith(t.Context(), b.client())
	require.NoError(t, err)
	require.NoError(t, kerr.ErrorForCode(resp.Resources[0].ErrorCode))
	shown := map[string]*string{}
	for _, c := range resp.Resources[0].Configs {
		shown[c.Name] = c.Value
		require.Equal(t, c.Name == auth.ConfigJAAS, c.IsSensitive, c.Name)
	}
	require.Nil(t, shown[auth.ConfigJAAS])
	require.Equal(t, auth.ScramSHA512, *shown[auth.ConfigMechanism])

	require.NoError(t, m.Stop(t.Context(), "m", "t"))
	require.Eventually(t, func() bool {
		_, p, err := b.Env().Quorum.Image().Partition("t", 0)
		return err == nil && p.Mirror.State == quorum.Stopped
	}, patience, 5*time.Millisecond, "STOPPED")
	send(t, b.client(), "local")
	require.NoError(t, b.Close())
	closed = true
	for _, secret := range []string{"not hers", herSecret} {
		require.NotContains(t, log.String(), secret)
	}
}
