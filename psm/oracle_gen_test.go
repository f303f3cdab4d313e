//go:build oracle

package psm_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/psm"
)

// rawBatch is b in bytes. A data batch has a header only: nobody reads more.
func rawBatch(b *psm.Batch) []byte {
	switch {
	case b.IsBarrier():
		return psm.Barrier{BaseOffset: b.BaseOffset, LeaderEpoch: b.LeaderEpoch, Timestamp: b.MaxTimestamp, SourceClusterID: b.Control.SourceClusterID}.Append(nil)
	case b.IsControl():
		return psm.EndTxnMarker{
			BaseOffset: b.BaseOffset, LeaderEpoch: b.LeaderEpoch, Timestamp: b.MaxTimestamp, ProducerID: b.ProducerID, ProducerEpoch: b.ProducerEpoch,
			CoordinatorEpoch: b.Control.CoordinatorEpoch, Commit: b.Control.Type == psm.ControlCommit,
		}.Append(nil)
	}
	p := make([]byte, psm.HeaderSize)
	be := binary.BigEndian
	psm.SetOffsets(p, b.BaseOffset, b.LeaderEpoch)
	be.PutUint32(p[8:], psm.HeaderSize-12)
	p[16] = 2
	be.PutUint16(p[21:], uint16(b.Attributes))
	be.PutUint32(p[23:], uint32(b.LastOffset-b.BaseOffset))
	be.PutUint64(p[27:], uint64(b.BaseTimestamp))
	be.PutUint64(p[35:], uint64(b.MaxTimestamp))
	be.PutUint64(p[43:], uint64(b.ProducerID))
	be.PutUint16(p[51:], uint16(b.ProducerEpoch))
	be.PutUint32(p[53:], uint32(b.BaseSequence))
	be.PutUint32(p[57:], uint32(b.Count))
	return p
}

// differential draws requests and makes them of both sides.
type differential struct {
	*subject
	g    *gen
	rt   *rapid.T
	kafk func(request string) string
	done func(request, answer string)
}

func (d *differential) ask(request string) {
	want := d.kafk(request)
	if d.done != nil {
		d.done(request, want)
	}
	d.compare(request, want)
}

// batch draws one that the two sides treat alike.
func (d *differential) batch(m *model, o psm.Origin, offset int64) *psm.Batch {
	for {
		b := d.g.batch(m, offset)
		b.BaseTimestamp = b.MaxTimestamp
		isMarker := b.IsControl() && (b.Control.Type == psm.ControlAbort || b.Control.Type == psm.ControlCommit)
		switch {
		case o == psm.Client && (b.IsControl() || b.HasProducerID() && b.BaseSequence < 0):
		case b.IsControl() && !b.IsBarrier() && !isMarker:
		default:
			return b
		}
	}
}

func (d *differential) appendOf(o psm.Origin, name string, n int) {
	a := psm.Append{Origin: o, TransactionVersion: int8(1 + d.g.intn(2))}
	guard := 0
	if len(d.guards) > 1 && d.g.intn(3) > 0 {
		guard = len(d.guards) - 1 - d.g.intn(min(3, len(d.guards)-1))
	}
	a.Guard = d.guards[guard]
	mode := []string{"b", "c"}[d.g.intn(2)]
	// m follows the append, so that all batches of it make sense.
	m := hints(d.state)
	m.end = d.state.End()
	epochs := map[int64]int{}
	var parts []string
	for range n {
		offset := m.end
		if o == psm.Replication {
			offset += int64(d.g.intn(8) / 7)
		}
		b := d.batch(m, o, offset)
		own := "-"
		if b.IsBarrier() && (o == psm.Coordinator || d.g.intn(2) == 0) {
			own = "own"
			m.stops = append(m.stops, psm.Stop{BarrierOffset: b.BaseOffset, SourceClusterID: b.Control.SourceClusterID})
		}
		if m.get(b.ProducerID).epoch != b.ProducerEpoch {
			if epochs[b.ProducerID]++; epochs[b.ProducerID] > 1 {
				mode = "b"
			}
		}
		refused := m.clone().add(a, b).code != 0
		if refused && len(parts) > 0 {
			break
		}
		m.add(a, b)
		parts = append(parts, own+":"+hex.EncodeToString(rawBatch(b)))
		if refused {
			break
		}
	}
	d.ask(fmt.Sprintf("A %s %d %d %s %s", name, guard, a.TransactionVersion, mode, strings.Join(parts, " ")))
}

// boundary draws an offset at which a batch begins or the log ends.
func (d *differential) boundary(from int64) int64 {
	ends := []int64{from}
	for i := range d.log {
		if e := d.log[i].LastOffset + 1; e > from {
			ends = append(ends, e)
		}
	}
	return ends[len(ends)-1-d.g.intn(min(6, len(ends)))]
}

func (d *differential) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"client":        func(*rapid.T) { d.appendOf(psm.Client, "client", 1) },
		"client again":  func(*rapid.T) { d.appendOf(psm.Client, "client", 1) },
		"coordinator":   func(*rapid.T) { d.appendOf(psm.Coordinator, "coordinator", 1) },
		"replication":   func(*rapid.T) { d.appendOf(psm.Replication, "replication", 1+d.g.intn(6)) },
		"replication 1": func(*rapid.T) { d.appendOf(psm.Replication, "replication", 1) },
		"verify": func(*rapid.T) {
			pid := int64(d.g.intn(5))
			p := hints(d.state).get(pid)
			d.ask(fmt.Sprintf("V %d %d %d %d", pid, d.g.epoch(p), max(0, d.g.seq(p)), 1+d.g.intn(2)))
		},
		"clock": func(*rapid.T) {
			d.now = 1000 + d.g.ts + int64(d.g.intn(12))
			d.ask(fmt.Sprintf("C %d", d.now))
		},
		"expire":         func(*rapid.T) { d.ask("X") },
		"high watermark": func(*rapid.T) { d.ask(fmt.Sprintf("H %d", max(0, d.state.End()-int64(d.g.intn(6))))) },
		"snapshot": func(*rapid.T) {
			if d.state.End() > d.logStart {
				d.ask("S")
			}
		},
		"damage": func(*rapid.T) {
			if d.g.intn(4) == 0 {
				d.ask("D")
			}
		},
		"log start": func(*rapid.T) {
			offsets, err := d.snapshots.Offsets()
			require.NoError(d.rt, err)
			if o := d.boundary(d.logStart); d.g.intn(4) == 0 && !slices.Contains(offsets, o) {
				d.ask(fmt.Sprintf("L %d", o))
			}
		},
		"truncate": func(*rapid.T) {
			if o := d.boundary(d.logStart); o < d.state.End() {
				d.ask(fmt.Sprintf("T %d", o))
			}
		},
		"restart": func(*rapid.T) { d.ask("R") },
	}
}
