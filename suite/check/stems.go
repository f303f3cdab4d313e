package check

import (
	"bytes"

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
	byText  map[string]*stem
	writers map[[2]string]string
	key     []byte

	// The last tag that was read: the next one most often differs in its index only.
	last         *stem
	before, back []byte // its text before and behind the index
}

func newStems() *stems {
	return &stems{known: map[history.Tag]*stem{}, byText: map[string]*stem{}, writers: map[[2]string]string{}}
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

// parse reads the text of a tag as [history.ParseTag] does.
func (s *stems) parse(text []byte) (*stem, int64, error) {
	if s.last != nil && len(text) > len(s.before)+len(s.back) && bytes.HasPrefix(text, s.before) && bytes.HasSuffix(text, s.back) {
		if index, ok := digits(text[len(s.before) : len(text)-len(s.back)]); ok {
			return s.last, index, nil
		}
	}
	before, back, ok := around(text)
	if !ok {
		return s.slowly(text)
	}
	index, ok := digits(text[before:back])
	if !ok {
		return s.slowly(text)
	}
	s.key = append(append(append(s.key[:0], text[:before]...), 0), text[back:]...)
	known := s.byText[string(s.key)]
	if known == nil {
		var err error
		if known, _, err = s.slowly(text); err != nil {
			return nil, 0, err
		}
		s.byText[string(s.key)] = known
	}
	s.last = known
	s.before = append(s.before[:0], text[:before]...)
	s.back = append(s.back[:0], text[back:]...)
	return known, index, nil
}

func (s *stems) slowly(text []byte) (*stem, int64, error) {
	tag, err := history.ParseTag(string(text))
	if err != nil {
		return nil, 0, err
	}
	return s.of(tag), tag.Index, nil
}

// around finds a tag's index in its text. A text with a byte that could end it
// within a record's value is not looked at.
func around(text []byte) (before, back int, ok bool) {
	n := 0
	for i, c := range text {
		switch {
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
func digits(text []byte) (n int64, ok bool) {
	if len(text) == 0 || len(text) > 18 || text[0] == '0' && len(text) > 1 {
		return 0, false
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// parseOwn is [stems.parse] for a text that is a tag's own, as [history.Tag.String]
// writes it; ok is false for another one, which names no record.
func (s *stems) parseOwn(text string) (st *stem, index int64, ok bool) {
	st, index, err := s.parse([]byte(text))
	if err != nil || st.tag(index).String() != text {
		return nil, 0, false
	}
	return st, index, true
}
