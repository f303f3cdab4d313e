package mirror

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/refbroker/internal/quorum"
)

func (d *destination) link() *link {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	return d.m.links["m"]
}

// The way to a source, with its fetchers, ends when the mirror does; one that is
// made anew under the same name has a way of its own.
func TestALinkEndsWithItsMirror(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	first := d.link()
	d.desire(quorum.Stopped)
	d.awaitState(quorum.Stopped)
	require.Same(t, first, d.link(), "a stop leaves the mirror, and its link")
	d.apply(quorum.DeleteMirror{Name: "m"})
	d.await("no link", func() bool { return d.link() == nil })
	<-first.ended

	other := newFakeSource(t, "127.0.0.1:0", sourceID)
	other.put(4, data(0, 1, 2, "from elsewhere"))
	d.create(other.addr())
	d.apply(quorum.SetMirrorTopics{Mirror: "m", Topics: []string{"t"}, Desired: quorum.Mirroring, Discard: true})
	d.await("the other's bytes", func() bool { return slices.EqualFunc(d.part.bytes(), other.log, bytes.Equal) })
	require.NotSame(t, first, d.link())
}

// A mirror that runs takes its way to the source anew when that has ended: the
// metadata came from a snapshot, say, and the mirror in it is equal, not the same.
func TestAMirrorTakesItsLinkAnew(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	first := d.link()
	d.m.mu.Lock()
	delete(d.m.links, "m")
	d.m.mu.Unlock()
	first.end()
	s.put(4, data(11, 1, 4, "later"))
	d.awaitBytes(s.log)
	require.NotSame(t, first, d.link())
	require.Equal(t, quorum.Mirroring, d.mirror().State)
}
