package cli

import (
	"fmt"
	"strconv"
	"time"

	"watershed.example/mirrorrpc"
)

// listedRow is one mirror in "mirrors list --output json".
type listedRow struct {
	Mirror          string   `json:"mirror"`
	Topics          []string `json:"topics"`
	SourceClusterID string   `json:"sourceClusterId"`
	SourceBootstrap string   `json:"sourceBootstrap"`
}

type listedTable []listedRow

func listed(mirrors []mirrorrpc.ListedMirror) listedTable {
	t := listedTable{}
	for _, m := range mirrors {
		t = append(t, listedRow{m.MirrorName, append([]string{}, m.TopicNames...), m.SourceClusterID, m.SourceBootstrap})
	}
	return t
}

func (listedTable) none() string { return "No mirrors found" }

func (t listedTable) rows() [][]string {
	rows := [][]string{{"MIRROR", "TOPICS", "SOURCE-CLUSTER-ID", "SOURCE-BOOTSTRAP-SERVER"}}
	for _, r := range t {
		rows = append(rows, []string{r.Mirror, strconv.Itoa(len(r.Topics)), r.SourceClusterID, r.SourceBootstrap})
	}
	return rows
}

// describedRow is one partition in "mirrors describe --output json"; -1 stands
// for what is not known.
type describedRow struct {
	Mirror            string `json:"mirror"`
	Topic             string `json:"topic"`
	Partition         int32  `json:"partition"`
	SourceOffset      int64  `json:"sourceOffset"`
	DestinationOffset int64  `json:"destinationOffset"`
	Lag               int64  `json:"lag"`
	State             string `json:"state"`
	RetryAttempt      int16  `json:"retryAttempt"`
	ErrorMessage      string `json:"errorMessage"`

	Phase            string `json:"phase"`
	StopOffset       int64  `json:"stopOffset"`
	BarrierOffset    int64  `json:"barrierOffset"`
	LeaderEpoch      int32  `json:"leaderEpoch"`
	SourceClusterID  string `json:"sourceClusterId"`
	AlignedAt        int64  `json:"alignedAt"`
	LastStableOffset int64  `json:"lastStableOffset"`
	HighWatermark    int64  `json:"highWatermark"`
	NonStable        int64  `json:"nonStable"`

	AlignmentCut       cutRow   `json:"alignmentCut"`
	StopCut            cutRow   `json:"stopCut"`
	UpstreamClusterIDs []string `json:"upstreamClusterIds"`
	// WouldCut is what a stop now would cut, OldestOpen the open transaction that
	// began first, null for none.
	WouldCut   cutRow   `json:"wouldCut"`
	OldestOpen *openRow `json:"oldestOpenTransaction"`
	// Profile is the text of KIP-1279 that the cluster follows.
	Profile string `json:"profile"`
}

// openRow is an open transaction.
type openRow struct {
	ProducerID    int64  `json:"producerId,string"`
	ProducerEpoch int16  `json:"producerEpoch"`
	FirstOffset   int64  `json:"firstOffset"`
	Since         string `json:"since"`
}

func openOf(o mirrorrpc.OpenTransaction) *openRow {
	if o.FirstOffset < 0 {
		return nil
	}
	return &openRow{o.ProducerID, o.ProducerEpoch, o.FirstOffset, time.UnixMilli(o.StartMs).UTC().Format(time.RFC3339)}
}

func (o *openRow) String() string {
	if o == nil {
		return "-"
	}
	return fmt.Sprintf("producer %d at %d since %s", o.ProducerID, o.FirstOffset, o.Since)
}

// cutRow is what was cut off a log: the recovery point.
type cutRow struct {
	From    int64 `json:"from"`
	To      int64 `json:"to"`
	Records int64 `json:"records"`
}

type describedTable []describedRow

func described(rows []describedRow) describedTable { return append(describedTable{}, rows...) }

func rowsOf(mirrors []mirrorrpc.DescribedMirror) []describedRow {
	var rows []describedRow
	for _, m := range mirrors {
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				r := describedRow{
					Mirror: m.MirrorName, Topic: t.TopicName, Partition: p.PartitionIndex,
					SourceOffset: p.SourceOffset, DestinationOffset: p.DestinationOffset, Lag: p.Lag,
					State: p.StateValue, RetryAttempt: p.RetryAttempt,
					Phase: p.Phase, StopOffset: p.StopOffset, BarrierOffset: p.BarrierOffset,
					LeaderEpoch: p.LeaderEpoch, SourceClusterID: p.SourceClusterID, AlignedAt: p.AlignedAt,
					LastStableOffset: p.LastStableOffset, HighWatermark: p.HighWatermark, NonStable: p.NonStable,
					AlignmentCut: cutRow(p.AlignmentCut), StopCut: cutRow(p.StopCut),
					UpstreamClusterIDs: append([]string{}, p.UpstreamClusterIDs...),
					WouldCut:           cutRow(p.WouldCut), OldestOpen: openOf(p.OldestOpen), Profile: m.Profile,
				}
				if p.ErrorMessage != nil {
					r.ErrorMessage = *p.ErrorMessage
				}
				rows = append(rows, r)
			}
		}
	}
	return rows
}

func (describedTable) none() string { return "No mirror partitions found" }

func (t describedTable) rows() [][]string {
	rows := [][]string{{"MIRROR", "TOPIC", "PARTITION", "SOURCE-OFFSET", "DESTINATION-OFFSET", "LAG", "STATE", "STEP", "STOP-OFFSET", "WOULD-CUT", "OLDEST-OPEN", "PROFILE", "ERROR"}}
	for _, r := range t {
		cut := r.WouldCut.Records
		if r.WouldCut.From < 0 && r.State == "STOPPED" {
			cut = -1
		}
		rows = append(rows, []string{
			r.Mirror, r.Topic, strconv.Itoa(int(r.Partition)), number(r.SourceOffset), number(r.DestinationOffset),
			number(r.Lag), r.State, dash(r.Phase), number(r.StopOffset), number(cut), r.OldestOpen.String(), dash(r.Profile), dash(r.ErrorMessage),
		})
	}
	return rows
}

func number(n int64) string {
	if n < 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
