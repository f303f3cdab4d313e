package postmortem

import (
	"fmt"
	"slices"

	"watershed.example/suite/wirelog"
)

// Sureness is how sure a finding is.
type Sureness int

// From what is only counted to what the bytes leave no other reading for.
const (
	// Measured is no fault: something that a failover costs, such as records that
	// were not mirrored (contract, "Measured and reported, not required").
	Measured Sureness = iota
	Possible          // the bytes allow it, and harmless readings as well
	Likely            // harmless readings are far-fetched
	Certain           // the bytes leave no other reading
)

var surenessNames = []string{"measured", "possible", "likely", "certain"}

func (s Sureness) String() string {
	if s < 0 || int(s) >= len(surenessNames) {
		return fmt.Sprintf("sureness %d", int(s))
	}
	return surenessNames[s]
}

// MarshalText is the name.
func (s Sureness) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name.
func (s *Sureness) UnmarshalText(text []byte) error {
	i := slices.Index(surenessNames, string(text))
	if i < 0 {
		return fmt.Errorf("unknown sureness %q", text)
	}
	*s = Sureness(i)
	return nil
}

// Kind names what was found.
type Kind string

// The kinds of findings.
const (
	Interleaved         Kind = "interleaved"            // a batch of the source behind the barrier
	MissingBarrier      Kind = "missing-barrier"        // logs part, or a partition was stopped, without one
	LateBarrier         Kind = "late-barrier"           // written to before the barrier
	SecondBarrier       Kind = "second-barrier"         // two of one stop
	WrongSource         Kind = "wrong-source"           // a barrier that names another cluster
	BadBarrier          Kind = "bad-barrier"            // its encoding
	OpenAtBarrier       Kind = "open-at-barrier"        // a transaction that nobody ended below the barrier
	ForeignMarker       Kind = "foreign-marker"         // ends the transaction of another producer generation
	OldMarker           Kind = "old-marker"             // of an epoch that was over
	OldCoordinator      Kind = "old-coordinator"        // of a coordinator that was replaced
	StaleProducer       Kind = "stale-producer"         // a local producer goes on where a mirrored one ended
	KeptProducer        Kind = "kept-producer"          // a snapshot behind the barrier knows producers from before it
	SequenceGap         Kind = "sequence-gap"           // records of a producer are missing, or came twice
	EpochBack           Kind = "producer-epoch-back"    // a producer that was fenced wrote
	LeaderEpochBack     Kind = "leader-epoch-back"      // leader epochs decrease along the log
	OffsetBack          Kind = "offset-back"            // offsets do not increase
	Rewritten           Kind = "rewritten"              // a mirrored batch that is not the source's, byte for byte
	NegativeID          Kind = "negative-id"            // a producer id below -1
	Diverged            Kind = "diverged-replica"       // replicas of one side differ
	Missing             Kind = "missing-records"        // a gap that another log fills
	Damaged             Kind = "damaged"                // bytes that are no batch, or a bad checksum
	AbortedIndex        Kind = "aborted-index"          // a transaction index that does not say what the log says
	OpenAtEnd           Kind = "open-at-end"            // a transaction that is open at the log's end
	LostTail            Kind = "lost-tail"              // what the source had above L
	TornTransaction     Kind = "torn-transaction"       // committed, and mirrored on some partitions only
	SourceMarkerMissing Kind = "diverged-by-marker"     // logs part at a marker that only one of them has
	NoCommonHistory     Kind = "no-common-history"      // two logs of one name that have nothing in common
	Unread              Kind = "unread"                 // a folder or file that is none of a partition, or records that were not compared
	Forgotten           Kind = "more-producers-than-it" // state was bounded, so that some things can't be seen
)

// Record is one record that a finding is about.
type Record struct {
	Offset int64 `json:"offset,string"`
	// Key is the record's key in printable form, absent for null.
	Key *string `json:"key,omitempty"`
	// Control names a control record's type.
	Control string `json:"control,omitempty"`
	// Unread says why this record of a batch and those behind it were not read, so
	// that Key is absent.
	Unread string `json:"unread,omitempty"`
}

// Finding is one thing that was found.
type Finding struct {
	Kind Kind     `json:"kind"`
	Sure Sureness `json:"sure"`
	// Requirements are the contract's, those most to the point first; none where
	// nothing is required.
	Requirements []string `json:"requirements"`
	Topic        string   `json:"topic,omitempty"`
	Partition    int32    `json:"partition"`
	Side         string   `json:"side"`
	Folder       string   `json:"folder,omitempty"`
	Offset       int64    `json:"offset,string"` // -1: about no offset
	LastOffset   int64    `json:"lastOffset,string"`
	// What says what lies there, Why why it is as sure as it is said to be, and
	// Do what to do about it.
	What string `json:"what"`
	Why  string `json:"why"`
	Do   string `json:"do"`
	// Times counts places of the same kind, of which this is the first.
	Times int64 `json:"times,string"`
	// Affected counts the records that the finding is about, Records are the first
	// of them.
	Affected int64    `json:"affected,string"`
	Records  []Record `json:"records,omitempty"`
}

// Bounds of what a report holds.
const (
	maxRecords  = 5  // of one finding
	maxAlike    = 3  // findings of one kind, partition and side; more are counted
	maxKeyWidth = 64 // characters of a printed key
	// namedBytes bounds what is decompressed of a batch only to name its records, and
	// comparedBytes what is to compare them with others. Neither is held in memory.
	namedBytes    = 4 << 20
	comparedBytes = 32 << 20
)

// findings gathers what was found in a partition.
type findings struct {
	all   []*Finding
	alike map[string][]*Finding
}

// add keeps a finding, or counts it with others like it.
func (fs *findings) add(f Finding) {
	if fs.alike == nil {
		fs.alike = map[string][]*Finding{}
	}
	f.Times = max(f.Times, 1)
	f.LastOffset = max(f.LastOffset, f.Offset)
	if f.Requirements == nil {
		f.Requirements = []string{}
	}
	key := fmt.Sprint(f.Kind, f.Sure, f.Side, f.Folder, f.Requirements)
	if same := fs.alike[key]; len(same) >= maxAlike {
		last := same[len(same)-1]
		last.Times += f.Times
		last.Affected += f.Affected
		last.LastOffset = max(last.LastOffset, f.LastOffset)
		return
	}
	fs.all = append(fs.all, &f)
	fs.alike[key] = append(fs.alike[key], &f)
}

// records names the first records of a batch, and says where it could not.
func records(b *wirelog.Batch, room int) []Record {
	if room <= 0 {
		return nil
	}
	if b.IsControl() {
		name := "control record that can't be read"
		if c, err := b.Control(); err == nil {
			name = c.Type.String()
		}
		return []Record{{Offset: b.BaseOffset, Control: name}}
	}
	o := b.Outlines(namedBytes)
	defer o.Close()
	var all []Record
	next := b.BaseOffset
	for len(all) < room && o.Next() {
		r := Record{Offset: o.Offset}
		if o.Key != nil {
			key := printable(o.Key, o.KeyLen, maxKeyWidth)
			r.Key = &key
		}
		all = append(all, r)
		next = o.Offset + 1
	}
	if err := o.Err(); err != nil {
		all = append(all, Record{Offset: next, Unread: err.Error()})
	}
	return all
}

// count is how many records a batch holds, for those who count what is affected.
func count(b *wirelog.Batch) int64 { return int64(max(b.Count, 0)) }
