package torture

import (
	"bytes"
	"io"
	"sync"
)

// transcript is what nodes say, each line with its time and who says it. Of a
// long run only the last part is kept.
type transcript struct {
	mu  sync.Mutex // never held while waiting
	all bytes.Buffer
}

// mostSaid is how many bytes are kept at least.
const mostSaid = 8 << 20

func (t *transcript) of(who string) io.Writer { return &speaker{t: t, who: who} }

func (t *transcript) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.all.Bytes())
}

type speaker struct {
	t    *transcript
	who  string
	rest []byte
}

// Write is called by one goroutine at a time, as slog and exec see to.
func (s *speaker) Write(p []byte) (int, error) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.rest = append(s.rest, p...)
	for {
		i := bytes.IndexByte(s.rest, '\n')
		if i < 0 {
			break
		}
		s.t.all.WriteString(s.who)
		s.t.all.Write(s.rest[:i+1])
		s.rest = s.rest[i+1:]
	}
	if s.t.all.Len() > 2*mostSaid {
		s.t.all.Next(s.t.all.Len() - mostSaid)
	}
	return len(p), nil
}
