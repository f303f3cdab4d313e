package host

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/spf13/afero"
	"go.etcd.io/bbolt"
)

// ErrInUse is a data folder that another process has open; its message ends a
// sentence about the folder.
var ErrInUse = errors.New("in use by another process")

// Real is the machine itself: its network, its files, its clock. The stores of
// the metadata quorum are a bolt file, whose lock also keeps a second process
// out of the data folder.
func Real() Host {
	var dialer net.Dialer
	var listen net.ListenConfig
	return Host{
		Dial:       dialer.DialContext,
		Listen:     listen.Listen,
		FS:         afero.NewOsFs(),
		Now:        time.Now,
		RaftStores: boltStores,
	}
}

// lockWait is how long the lock of a process that is just ending is waited
// for.
const lockWait = 500 * time.Millisecond

func boltStores(dir string) (RaftStores, error) {
	path := filepath.Join(dir, "raft.db")
	store, err := raftboltdb.New(raftboltdb.Options{
		Path:                    path,
		BoltOptions:             &bbolt.Options{Timeout: lockWait, NoFreelistSync: true},
		MsgpackUseNewTimeFormat: true,
	})
	switch {
	case errors.Is(err, bbolt.ErrTimeout):
		return RaftStores{}, fmt.Errorf("%w (lock on %s)", ErrInUse, path)
	case err != nil:
		return RaftStores{}, fmt.Errorf("open %s: %w", path, err)
	}
	return RaftStores{Log: store, Stable: store, Close: store}, nil
}
