package check

import (
	"fmt"
	"strings"

	"watershed.example/suite/history"
)

// describe tells a batch in one line: where it lies, its header, who wrote it.
func (e *entry) describe() string {
	var s strings.Builder
	fmt.Fprintf(&s, "[%d..%d]", e.BaseOffset, e.LastOffset())
	switch {
	case e.control != nil && e.IsBarrier():
		fmt.Fprintf(&s, " %s source %q", e.control.Type, e.control.SourceClusterID)
	case e.control != nil:
		fmt.Fprintf(&s, " marker %s", e.control.Type)
	case e.IsControl():
		s.WriteString(" control batch that can't be read")
	default:
		fmt.Fprintf(&s, " data, %d records", e.Count)
	}
	fmt.Fprintf(&s, ", pid %d epoch %d seq %d", e.ProducerID, e.ProducerEpoch, e.BaseSequence)
	if e.IsTransactional() {
		s.WriteString(", transactional")
	}
	fmt.Fprintf(&s, ", leader epoch %d, crc %08x", e.LeaderEpoch, e.CRC)
	if !e.CRCValid {
		s.WriteString(" WRONG")
	}
	if e.origin != asIs {
		fmt.Fprintf(&s, ", %s", e.origin)
	}
	if tag, tagged := e.first(); tagged {
		fmt.Fprintf(&s, ", written by %s", who(tag))
	}
	if e.bad != nil {
		fmt.Fprintf(&s, ", unreadable: %v", e.bad)
	}
	return s.String()
}

// who tells a record's writer.
func who(t history.Tag) string {
	s := fmt.Sprintf("%s/%s record %d", t.Cluster, t.Writer, t.Index)
	if t.Txn != history.NoTxn {
		s += fmt.Sprintf(" in its transaction %d (meant to %s)", t.Txn, t.Intent)
	}
	return s
}

// context is how many batches a finding shows on either side.
const context = 3

// finding makes a finding about the batch with index i of a replica; i is -1
// when there is no batch, then offset says where it should be.
func (j *judge) finding(s *side, a Anomaly, i int, offset int64, expected, got string) Finding {
	f := Finding{
		Anomaly: a, Cluster: s.Cluster, Node: s.Node, Topic: s.Topic, Partition: s.Partition,
		Offset: offset, Expected: expected, Got: got, Evidence: j.ev.where(s.Dir), Episode: j.number, Mirror: j.mirror,
	}
	mid := i
	if i >= 0 {
		f.Offset = s.entries[i].BaseOffset
		if offset >= s.entries[i].BaseOffset && offset <= s.entries[i].LastOffset() {
			f.Offset = offset
		}
		f.Batch = s.entries[i].describe()
		f.Evidence = j.ev.where(s.Dir, s.entries[i].Segment)
	} else {
		for mid = 0; mid < len(s.entries) && s.entries[mid].BaseOffset < offset; mid++ {
		}
	}
	for k := max(0, mid-context); k < min(len(s.entries), mid+context+1); k++ {
		mark := "  "
		if k == i {
			mark = "> "
		}
		f.Around = append(f.Around, mark+s.entries[k].describe())
	}
	return f
}

// at makes a finding about the batch with index i.
func (j *judge) at(s *side, a Anomaly, i int, expected, got string) Finding {
	return j.finding(s, a, i, -1, expected, got)
}

// told makes a finding about what a client saw, which the history shows; the
// batches around offset come from the destination's log where there is one.
func (j *judge) told(p *part, a Anomaly, offset int64, expected, got string) Finding {
	if p.lead != nil {
		f := j.finding(p.lead, a, p.lead.at(offset), offset, expected, got)
		f.Offset = offset
		f.Evidence = j.ev.where(HistoryFile) + " and " + f.Evidence
		return f
	}
	return Finding{
		Anomaly: a, Cluster: p.Destination, Topic: p.topic, Partition: p.index, Offset: offset,
		Expected: expected, Got: got, Evidence: j.ev.where(HistoryFile), Episode: j.number, Mirror: j.mirror,
	}
}

// answer tells a result in words.
func answer(r history.Result) string {
	s := string(r.Outcome)
	if r.Code != 0 {
		s += fmt.Sprintf(", error %d", r.Code)
	}
	if r.Message != "" {
		s += fmt.Sprintf(", %q", r.Message)
	}
	return s
}
