package check

import (
	"strings"

	"watershed.example/suite/history"
)

// stem is all of a tag but its index, which counts a writer's records: many
// records have one in common. There is one of each in a trial, so that pointers
// can be compared.
type stem struct {
	history.Tag        // with index 0
	writer      string // cluster/writer
}

// tag is the tag of the record with the index; the stem must not be nil.
func (s *stem) tag(index int64) history.Tag {
	t := s.Tag
	t.Index = index
	return t
}

// stems holds each stem of a run once.
type stems struct {
	known map[history.Tag]*stem
	// byText finds a stem by the text of a tag without the digits of its index.
	byText  map[string]stemText
	writers map[[2]string]string
	key     []byte
	last    stemText // the next tag most often differs in its index only
}

// stemText is the text of a tag around its index.
type stemText struct {
	stem         *stem
	before, back string
	own          bool // it is what [history.Tag.String] writes
}

func newStems() *stems {
	return &stems{known: map[history.Tag]*stem{}, byText: map[string]stemText{}, writers: map[[2]string]string{}}
}

// of is the stem of a tag.
func (s *stems) of(t history.Tag) *stem {
	t.Index = 0
	known := s.known[t]
	if known == nil {
		name := [2]string{t.Cluster, t.Writer}
		writer, ok := s.writers[name]
		if !ok {
			writer = t.Cluster + "/" + t.Writer
			s.writers[name] = writer
		}
		known = &stem{t, writer}
		s.known[t] = known
	}
	return known
}

// find is the stem of a tag, nil where the run has none such.
func (s *stems) find(t history.Tag) *stem {
	t.Index = 0
	return s.known[t]
}

// slashes within the text of a tag: five lie before its index, one behind.
const (
	slashesBefore = 5
	slashes       = 6
)

// parseTag reads the text of a tag as [history.ParseTag] does. own says that it
// is the text that the tag itself has. Nothing of the text is kept.
func parseTag[T string | []byte](s *stems, text T) (st *stem, index int64, own bool, err error) {
	if n, m := len(s.last.before), len(text)-len(s.last.back); s.last.stem != nil && n < m && string(text[:n]) == s.last.before && string(text[m:]) == s.last.back {
		if index, ok := digits(text[n:m]); ok {
			return s.last.stem, index, s.last.own, nil
		}
	}
	before, back, ok := around(text)
	if ok {
		index, ok = digits(text[before:back])
	}
	if !ok {
		own := strings.Clone(string(text))
		tag, err := history.ParseTag(own)
		if err != nil {
			return nil, 0, false, err
		}
		return s.of(tag), tag.Index, tag.String() == own, nil
	}
	s.key = append(append(append(s.key[:0], text[:before]...), 0), text[back:]...)
	known, ok := s.byText[string(s.key)]
	if !ok {
		own := strings.Clone(string(text)) // the caller's text may lie in a buffer that is used again
		tag, err := history.ParseTag(own)
		if err != nil {
			return nil, 0, false, err
		}
		known = stemText{s.of(tag), own[:before], own[back:], tag.String() == own}
		s.byText[string(s.key)] = known
	}
	s.last = known
	return known.stem, index, known.own, nil
}

// around finds a tag's index in its text. A text with a byte that could end it
// within a record's value is not looked at.
func around[T string | []byte](text T) (before, back int, ok bool) {
	n := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\n' || c == 0:
			return 0, 0, false
		case c != '/':
			continue
		}
		switch n++; n {
		case slashesBefore:
			before = i + 1
		case slashes:
			back = i
		}
	}
	return before, back, n == slashes
}

// digits reads a number without a sign and without leading zeroes.
func digits[T string | []byte](text T) (n int64, ok bool) {
	if len(text) == 0 || len(text) > 18 || text[0] == '0' && len(text) > 1 {
		return 0, false
	}
	for i := range len(text) {
		c := text[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}
