package certify_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"golang.org/x/sys/unix"

	"watershed.example/fixtures/target"
	"watershed.example/suite/engine"
)

// change rewrites the target's file.
func (s *site) change(old, replacement string) {
	s.t.Helper()
	text, err := os.ReadFile(s.file)
	require.NoError(s.t, err)
	changed := strings.Replace(string(text), old, replacement, 1)
	require.NotEqual(s.t, string(text), changed)
	require.NoError(s.t, os.WriteFile(s.file, []byte(changed), 0o600))
}

// TestWhatCantBegin has one clear line for each, and nothing is left.
func TestWhatCantBegin(t *testing.T) {
	s := build(t, "kip1279-v42", target.KIP1279, true, 1)
	whole, err := os.ReadFile(s.file)
	require.NoError(t, err)
	east, west := s.load().Clusters[0], s.load().Clusters[1]
	wrong := filepath.Join(t.TempDir(), "wrong")
	require.NoError(t, os.WriteFile(wrong, []byte("another"), 0o600))
	nobody := nobodys(t)
	full := filepath.Join(t.TempDir(), "file", "folder")
	require.NoError(t, os.WriteFile(filepath.Dir(full), nil, 0o600))
	for _, test := range []struct{ name, old, new, folder, want string }{
		{"a wrong password", "password-file: ", "password-file: " + wrong + "}\n    #", "", "cluster east at " + east.Bootstrap[0] + ": the broker refuses this user name or password"},
		{"another mechanism", "SCRAM-SHA-512", "SCRAM-SHA-256", "", "cluster east at " + east.Bootstrap[0] + ": the broker does not offer this sasl mechanism"},
		{"nobody there", west.Bootstrap[0], "127.0.0.1:" + itoa(nobody), "", "cluster west at 127.0.0.1:" + itoa(nobody) + ": nobody listens there (connection refused)"},
		{"no TLS", "    tls: {ca: " + east.TLS.CA + "}\n", "", "", "cluster east at " + east.Bootstrap[0] + ": it ends the connection at the first request: does this listener want TLS or SASL?"},
		{"a certificate for another name", "    tls: {ca: " + east.TLS.CA + "}", "    tls: {ca: " + east.TLS.CA + ", server-name: brokers.example}", "", "its certificate is for another name"},
		{"a folder that can't be", "", "", full, "make the folder for evidence: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(s.file, whole, 0o600))
			if test.old != "" {
				s.change(test.old, test.new)
			}
			folder := test.folder
			if folder == "" {
				folder = t.TempDir()
			}
			_, err := engine.Certify(t.Context(), engine.Certification{Target: s.load(), Folder: folder})
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, err.Error(), "\n", "one line")
			require.NotContains(t, err.Error(), "s3cret")
		})
	}
	require.NoError(t, os.WriteFile(s.file, whole, 0o600))

	t.Run("one cluster by two names", func(t *testing.T) {
		twice := s.load()
		other := *twice.Clusters[0]
		other.Name = "west"
		twice.Clusters[1] = &other
		_, err := engine.Certify(t.Context(), engine.Certification{Target: twice, Folder: t.TempDir()})
		require.EqualError(t, err, "clusters east and west are one, given twice: both have cluster id "+clusterID("east"))
	})
	t.Run("a pattern of nothing", func(t *testing.T) {
		_, _, err := s.certify(t.Context(), "nowhere/none")
		require.EqualError(t, err, "no scenario has such a name (watershed list)")
	})
	t.Run("a scenario that it can't play", func(t *testing.T) {
		_, _, err := s.certify(t.Context(), "active-passive/no-fault/every-gate")
		require.EqualError(t, err, "the target can play none of these scenarios: no step of a stop can be held from outside: that needs the test hooks of the bundled broker")
	})
	s.nothingLeft()

	t.Run("called off half-way", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		off := errors.New("called off")
		var cert *engine.Certificate
		watched := make(chan error, 1)
		go func() { watched <- s.awaitTopic(ctx, func() { cancel(off) }) }()
		cert, _, err := s.certify(ctx, failedOver)
		require.NoError(t, err)
		require.NoError(t, <-watched)
		require.ErrorIs(t, cert.Trouble, off)
		require.Len(t, cert.Results, 1, "it was called off while it was played")
		require.NoError(t, cert.Left)
		s.nothingLeft()
	})
}

// nobodys is a port that is taken, and that nobody listens on.
func nobodys(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, err := unix.Getsockname(fd)
	require.NoError(t, err)
	return at.(*unix.SockaddrInet4).Port
}

func itoa(n int) string { return strconv.Itoa(n) }

// awaitTopic waits until a mirrored topic is there, and then does it.
func (s *site) awaitTopic(ctx context.Context, then func()) error {
	defer then() // whatever comes: nobody is to wait for it in vain
	cl := s.admin(s.load().Clusters[1])
	defer cl.Close()
	for {
		topics, err := kadm.NewClient(cl).ListTopics(ctx)
		if err != nil {
			return err
		}
		for _, name := range topics.Names() {
			if strings.HasSuffix(name, "-orders") {
				return nil
			}
		}
		time.Sleep(10 * time.Millisecond) // what the client has cached is that old
	}
}
