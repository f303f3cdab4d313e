package quorum

import (
	"context"
	"errors"
	"time"
)

// ErrClosed is returned to who waits for an image of a member that has left
// the quorum.
var ErrClosed = errors.New("the metadata quorum's member is closed")

// installRetry is the pause before an image that could not be installed whole
// (a full disk, say) is tried again.
const installRetry = time.Second

// installation asks for a function that puts images in force.
type installation struct {
	install func(*Image) error
	done    chan struct{}
}

// Install has every image put in force on this node by install before anybody
// sees it: from then on Image, Changed and Apply never run ahead of what the
// node's partitions do. Images come in their order, and some are passed over.
// What install could not do is told to the log and tried again; the image is
// shown all the same. Install returns once the current image was installed.
func (n *Node) Install(ctx context.Context, install func(*Image) error) error {
	i := installation{install, make(chan struct{})}
	select {
	case n.installs <- i:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-n.closing:
		return ErrClosed
	}
	<-i.done
	return nil
}

// follow shows what the state machine publishes, until the member closes.
func (n *Node) follow() {
	defer close(n.followed)
	install := func(*Image) error { return nil }
	for {
		v := n.fsm.current.Load()
		var retry <-chan time.Time
		if err := install(v.img); err != nil {
			n.cfg.Log.Error("metadata is not in force on this node", "index", v.img.Index, "error", err)
			retry = time.After(installRetry)
		}
		n.show(v.img)
		select {
		case <-v.next:
		case <-retry:
		case i := <-n.installs:
			install = i.install
			if err := install(v.img); err != nil {
				n.cfg.Log.Error("metadata is not in force on this node", "index", v.img.Index, "error", err)
			}
			close(i.done)
		case <-n.closing:
			return
		}
	}
}

// show makes img the one that everybody sees, and wakes who waits for it.
func (n *Node) show(img *Image) {
	old := n.shown.Swap(&version{img: img, next: make(chan struct{})})
	close(old.next)
}

// Image is the current metadata. To wait for what comes after it, take
// Changed first.
func (n *Node) Image() *Image { return n.shown.Load().img }

// Changed returns a channel that the next image closes.
func (n *Node) Changed() <-chan struct{} { return n.shown.Load().next }

// Err is set once this node can't follow the metadata any further; the node
// must stop then. Changed is closed when it is set.
func (n *Node) Err() error {
	if e := n.fsm.broken.Load(); e != nil {
		return *e
	}
	return nil
}

// Wait returns the first image, from the current one on, for which ok holds.
func (n *Node) Wait(ctx context.Context, ok func(*Image) bool) (*Image, error) {
	for {
		v := n.shown.Load()
		if ok(v.img) {
			return v.img, nil
		}
		if err := n.Err(); err != nil {
			return nil, err
		}
		select {
		case <-v.next:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-n.closing:
			return nil, ErrClosed
		}
	}
}

// WaitIndex waits until the image has reached a raft index.
func (n *Node) WaitIndex(ctx context.Context, index uint64) (*Image, error) {
	return n.Wait(ctx, func(img *Image) bool { return img.Index >= index })
}
