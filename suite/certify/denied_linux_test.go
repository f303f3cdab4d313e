package certify_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"watershed.example/fixtures/target"
	"watershed.example/mirrorrpc"
	"watershed.example/suite/engine"
)

// TestWhatIsRefused takes a right away from the user of the destination, and has its
// disk be full: one clear line says which, before a story begins where it can be
// known, and nothing is left.
func TestWhatIsRefused(t *testing.T) {
	s := build(t, "kip1279-v42", target.KIP1279, false, 1)
	d := s.o.denyAt("west")
	for _, test := range []struct {
		name string
		key  int16
		err  *kerr.Error
		want string
	}{
		{"to create topics", int16(kmsg.CreateTopics), kerr.TopicAuthorizationFailed, "cluster west: this user may not create topic ws-test-"},
		{"to create anything", int16(kmsg.CreateTopics), kerr.ClusterAuthorizationFailed, "cluster west: this user may not create topic ws-test-"},
		{"a transactional id", int16(kmsg.InitProducerID), kerr.TransactionalIDAuthorizationFailed, "cluster west: this user may not write in a transaction"},
		{"to write", int16(kmsg.Produce), kerr.TopicAuthorizationFailed, "cluster west: this user may not write in a transaction"},
		{"to describe producers", int16(kmsg.DescribeProducers), kerr.TopicAuthorizationFailed, "cluster west: this user may not describe producers"},
		{"the broker's disk is full", int16(kmsg.Produce), kerr.KafkaStorageError, "cluster west: write in a transaction: the broker's disk takes nothing; is it full?"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d.deny(test.key, test.err.Code)
			defer d.deny(test.key, 0)
			cert, err := engine.Certify(t.Context(), engine.Certification{Target: s.load(), Folder: t.TempDir()})
			require.Positive(t, d.denied(test.key))
			require.Nil(t, cert)
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, err.Error(), "\n", "one line")
			s.nothingLeft()
		})
	}

	// What stays since nobody may remove it is named.
	t.Run("to delete topics", func(t *testing.T) {
		d.deny(int16(kmsg.DeleteTopics), kerr.TopicAuthorizationFailed.Code)
		defer d.deny(int16(kmsg.DeleteTopics), 0)
		_, err := engine.Certify(t.Context(), engine.Certification{Target: s.load(), Folder: t.TempDir()})
		require.ErrorContains(t, err, "cluster west: this user may not delete topic ws-test-")
		require.ErrorContains(t, err, "which stays")
		require.NotContains(t, err.Error(), "\n", "one line")
		d.deny(int16(kmsg.DeleteTopics), 0)
		cl := s.admin(s.load().Clusters[1])
		defer cl.Close()
		topics, lerr := kadm.NewClient(cl).ListTopics(t.Context())
		require.NoError(t, lerr)
		require.Len(t, topics.Names(), 1)
		require.ErrorContains(t, err, topics.Names()[0])
		_, lerr = kadm.NewClient(cl).DeleteTopics(t.Context(), topics.Names()...)
		require.NoError(t, lerr)
		s.nothingLeft()
	})

	// Mirrors are not tried out: that they can't be made is known when the first is.
	t.Run("to create mirrors", func(t *testing.T) {
		long(t)
		d.deny(mirrorrpc.KeyCreateClusterMirror, kerr.ClusterAuthorizationFailed.Code)
		defer d.deny(mirrorrpc.KeyCreateClusterMirror, 0)
		cert, _, err := s.certify(t.Context(), failedOver)
		require.NoError(t, err)
		require.Positive(t, d.denied(mirrorrpc.KeyCreateClusterMirror))
		require.ErrorIs(t, cert.Trouble, kerr.ClusterAuthorizationFailed)
		require.ErrorContains(t, cert.Trouble, "could not run: ")
		require.ErrorContains(t, cert.Trouble, "create mirror ")
		require.NotContains(t, cert.Trouble.Error(), "\n", "one line")
		s.nothingLeft()
	})

	t.Run("a full disk of the evidence", func(t *testing.T) {
		folder := t.TempDir()
		require.NoError(t, os.Symlink("/dev/full", filepath.Join(folder, ".writable")))
		_, err := engine.Certify(t.Context(), engine.Certification{Target: s.load(), Folder: folder})
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorContains(t, err, "the folder for evidence takes no file: ")
		require.NotContains(t, err.Error(), "\n", "one line")
		s.nothingLeft()
	})

	t.Run("a disk of the evidence that fills up half-way", func(t *testing.T) {
		long(t)
		folder := smallDisk(t)
		wanted := 0
		cert, err := engine.Certify(t.Context(), engine.Certification{
			Target: s.load(), Folder: folder, Scenarios: func(sc engine.Scenario) bool {
				if !strings.HasPrefix(sc.Name, "active-passive/") {
					return false
				}
				wanted++
				return true
			},
		})
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorContains(t, err, " could not run, and nothing more is played: the disk of the evidence, "+folder+", is full")
		require.NotContains(t, err.Error(), "\n", "one line")
		require.Less(t, len(cert.Results), wanted, "nothing more is played")
		require.Len(t, cert.Report.Scenarios, len(cert.Results), "what was found before is told")
		require.ErrorContains(t, err, cert.Results[len(cert.Results)-1].Name+" could not run")
		s.nothingLeft()
	})
}

// long leaves out what a whole story is played for.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("plays a story: not with -short")
	}
}

// smallDisk is a folder that takes what is tried before a story begins, and less than a
// story writes.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1200k"); err != nil {
		t.Skipf("a small disk can't be mounted here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}
