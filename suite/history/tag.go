package history

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Intent is what a writer means to do with the transaction that a record is in.
type Intent string

// The intents.
const (
	IntentNone   Intent = "none"   // the record is in no transaction
	IntentCommit Intent = "commit" // the writer will commit
	IntentAbort  Intent = "abort"  // the writer will abort
	IntentOpen   Intent = "open"   // the writer leaves the transaction open
)

// NoTxn is the transaction number of records outside transactions.
const NoTxn int64 = -1

// HeaderKey is the key of the record header that carries the tag.
const HeaderKey = "ws"

// Tag is a record's provenance: who wrote it, in which transaction, and where
// it was to land. Every record that the suite writes carries it twice, in the
// header [HeaderKey] and at the start of its value. Checks know the true writer
// of a batch from it, never from the producer id, since ids collide.
type Tag struct {
	Cluster string `json:"cluster"` // the cluster that the writer means to write to
	Writer  string `json:"writer"`
	// Txn is the transaction's number within its writer, or [NoTxn].
	Txn    int64  `json:"txn,string"`
	Intent Intent `json:"intent"`
	// Index counts the writer's records from 0, in the order in which it
	// sends them; over all its partitions. A retry by the writer itself (not
	// by its client library) keeps it.
	Index int64 `json:"index,string"`
	// Place is the partition for which the record is meant, as "topic-0".
	Place string `json:"place"`
}

// Place names a partition as tags, folders and reports do, such as "orders-3".
func Place(topic string, partition int32) string {
	return topic + "-" + strconv.Itoa(int(partition))
}

const tagVersion = "ws1"

// valueEnd ends the tag within a record's value.
const valueEnd = '\n'

// String returns the tag's text form, which [ParseTag] reads:
// ws1/cluster/writer/txn/intent/index/place, with each text part escaped as in
// the path of a URL.
func (t Tag) String() string {
	return strings.Join([]string{
		tagVersion,
		url.PathEscape(t.Cluster), url.PathEscape(t.Writer),
		strconv.FormatInt(t.Txn, 10), url.PathEscape(string(t.Intent)),
		strconv.FormatInt(t.Index, 10), url.PathEscape(t.Place),
	}, "/")
}

// ParseTag reads the text form of a tag.
func ParseTag(s string) (Tag, error) {
	parts := strings.Split(s, "/")
	if len(parts) != 7 || parts[0] != tagVersion {
		return Tag{}, fmt.Errorf("provenance tag %q: want %s and six parts", clip(s), tagVersion)
	}
	var t Tag
	var err error
	var intent string
	for _, f := range []struct {
		to   *string
		from string
	}{{&t.Cluster, parts[1]}, {&t.Writer, parts[2]}, {&intent, parts[4]}, {&t.Place, parts[6]}} {
		if *f.to, err = url.PathUnescape(f.from); err != nil {
			return Tag{}, fmt.Errorf("provenance tag %q: %w", clip(s), err)
		}
	}
	t.Intent = Intent(intent)
	if err := oneOf("intent", t.Intent, IntentNone, IntentCommit, IntentAbort, IntentOpen); err != nil {
		return Tag{}, fmt.Errorf("provenance tag %q: %w", clip(s), err)
	}
	if t.Txn, err = strconv.ParseInt(parts[3], 10, 64); err != nil {
		return Tag{}, fmt.Errorf("provenance tag %q: transaction: %w", clip(s), err)
	}
	if t.Index, err = strconv.ParseInt(parts[5], 10, 64); err != nil {
		return Tag{}, fmt.Errorf("provenance tag %q: index: %w", clip(s), err)
	}
	if t.Cluster == "" || t.Writer == "" {
		return Tag{}, fmt.Errorf("provenance tag %q: cluster or writer is empty", clip(s))
	}
	return t, nil
}

// Value returns a record value that starts with the tag and goes on with payload.
func (t Tag) Value(payload []byte) []byte {
	s := t.String()
	v := make([]byte, 0, len(s)+1+len(payload))
	v = append(v, s...)
	v = append(v, valueEnd)
	return append(v, payload...)
}

// ErrNoTag says that a record carries no tag.
var ErrNoTag = errors.New("record carries no provenance tag")

// TagOf reads the tag of a record from its header's value (nil where the
// header is missing) and its value. It is an error when the two differ; when
// neither holds a tag the error is [ErrNoTag]. A null value (nil) has no room for
// one: the header's counts.
func TagOf(header, value []byte) (Tag, error) {
	head, _, cut := bytes.Cut(value, []byte{valueEnd})
	inValue := cut && bytes.HasPrefix(head, []byte(tagVersion+"/"))
	switch {
	case header == nil && !inValue:
		return Tag{}, ErrNoTag
	case value == nil:
		return ParseTag(string(header))
	case header == nil:
		return Tag{}, fmt.Errorf("value carries the tag %q, header %q is missing", clip(string(head)), HeaderKey)
	case !inValue:
		return Tag{}, fmt.Errorf("header carries the tag %q, the value does not", clip(string(header)))
	case !bytes.Equal(header, head):
		return Tag{}, fmt.Errorf("header carries the tag %q, the value %q", clip(string(header)), clip(string(head)))
	}
	return ParseTag(string(header))
}

// Add returns the tag of the record that is n places later in the same batch.
func (t Tag) Add(n int64) Tag {
	t.Index += n
	return t
}

func clip(s string) string {
	if len(s) > 160 {
		return s[:160] + "..."
	}
	return s
}
