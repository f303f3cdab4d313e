// Package host is what a node gets from outside: how it dials, listens,
// stores files and reads the wall clock. The real ones are made by [Real];
// a simulation gives its own, so that whole clusters fit in one process and
// in a testing/synctest bubble.
package host

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/hashicorp/raft"
	"github.com/spf13/afero"
)

// Host is the world of one node. All fields are required.
type Host struct {
	// Dial opens a connection. It must honour ctx while it waits.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Listen opens a listener; an address with port 0 gets a free port.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	// FS holds everything that a node stores.
	FS afero.Fs
	// Now is the wall clock, for timestamps that users see and for nothing
	// else: timers are package time's, which a bubble makes virtual.
	Now func() time.Time
	// RaftStores opens the stores of the metadata quorum below dir.
	RaftStores func(dir string) (RaftStores, error)
}

// RaftStores are the log and the stable store of one raft member.
type RaftStores struct {
	Log    raft.LogStore
	Stable raft.StableStore
	Close  io.Closer
}
