package check

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/suite/history"
)

// Whatever texts come in whatever order, a tag is read as history reads it.
func TestTagsAreReadAsHistoryReadsThem(t *testing.T) {
	part := rapid.SampledFrom([]string{"A", "B", "w", "w/1", "%", "ä", "a b", "\n", "0"})
	rapid.Check(t, func(t *rapid.T) {
		s := newStems()
		seen := map[*stem]history.Tag{}
		buffer := make([]byte, 1<<10)
		for range 20 {
			tag := history.Tag{
				Cluster: part.Draw(t, "cluster"), Writer: part.Draw(t, "writer"), Place: part.Draw(t, "place"),
				Txn: rapid.Int64Range(-1, 2).Draw(t, "txn"), Index: rapid.Int64Range(-2, 12).Draw(t, "index"),
				Intent: rapid.SampledFrom([]history.Intent{history.IntentNone, history.IntentCommit}).Draw(t, "intent"),
			}
			text := tag.String()
			switch rapid.IntRange(0, 6).Draw(t, "change") {
			case 0:
				text = strings.ReplaceAll(text, "A", "%41")
			case 1:
				text = strings.Replace(text, "/1/", "/01/", 1)
			case 2:
				text = strings.Replace(text, "/", "", 1)
			case 3:
				text += "/"
			case 4:
				text = strings.ReplaceAll(text, "%0A", "\n")
			}
			want, wrong := history.ParseTag(text)
			for _, parse := range []func() (*stem, int64, bool, error){
				func() (*stem, int64, bool, error) { // as lines of a history are read: the next one overwrites it
					copy(buffer, text)
					return parseTag(s, unsafe.String(&buffer[0], len(text)))
				},
				func() (*stem, int64, bool, error) { return parseTag(s, text) },
				func() (*stem, int64, bool, error) { return parseTag(s, []byte(text)) },
			} {
				st, index, own, err := parse()
				if wrong != nil {
					require.EqualError(t, err, wrong.Error())
					continue
				}
				require.NoError(t, err)
				require.Equal(t, want, st.tag(index))
				require.Equal(t, want.String() == text, own)
				require.Equal(t, want.Cluster+"/"+want.Writer, st.writer)
				stem := want
				stem.Index = 0
				if before, any := seen[st]; any {
					require.Equal(t, before, stem)
				}
				seen[st] = stem
				require.Same(t, st, s.find(want))
			}
		}
		tags := map[history.Tag]bool{}
		for st, tag := range seen {
			require.Equal(t, tag, st.Tag)
			require.False(t, tags[tag], "two stems for %v", tag)
			tags[tag] = true
		}
	})
}
