package bundle

import (
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"

	"watershed.example/suite/wirelog"
)

// aroundBytes is how much goes in before and behind the batch of a finding.
const aroundBytes = 64 << 10

// parts adds what lies around findings in a segment that is left out.
func (p *packer) parts(at, rel string) ([]Part, error) {
	if !segment.MatchString(filepath.Base(at)) {
		return nil, nil
	}
	wanted := p.offsetsIn(rel)
	if len(wanted) == 0 {
		return nil, nil
	}
	s := (&wirelog.Log{Dir: filepath.Dir(at), Segments: []string{filepath.Base(at)}}).Stream()
	var parts []Part
	var window []wirelog.Batch // copies of what lies before
	var open []byte            // the part that is being gathered
	var from int64
	left := -1 // bytes that are still to come, -1 outside a part
	finish := func() {
		if left < 0 {
			return
		}
		name := fmt.Sprintf("%s.part-%020d", path.Join(RunDir, rel), from)
		p.entries = append(p.entries, entry{File: File{Path: name, Size: int64(len(open)), SHA256: sumOfBytes(open)}, data: open})
		parts = append(parts, Part{Path: name, Position: from})
		open, left = nil, -1
	}
	for {
		b, err := s.Next()
		var problem *wirelog.Problem
		switch {
		case errors.Is(err, io.EOF), errors.As(err, &problem):
			finish()
			return parts, s.Close()
		case err != nil:
			return parts, err
		}
		hit := false
		for o := range wanted {
			hit = hit || o >= b.BaseOffset && o <= b.LastOffset()
		}
		switch {
		case hit && left < 0:
			from = b.Position
			for _, w := range window {
				from = min(from, w.Position)
				open = append(open, w.Raw...)
			}
			window, left = nil, aroundBytes
			open = append(open, b.Raw...)
		case left >= 0:
			open = append(open, b.Raw...)
			left -= len(b.Raw)
			if hit {
				left = aroundBytes
			}
			if left <= 0 {
				finish()
			}
		default:
			window = append(window, copied(b))
			for size := total(window); len(window) > 1 && size > aroundBytes; size = total(window) {
				window = window[1:]
			}
		}
	}
}

func copied(b wirelog.Batch) wirelog.Batch {
	b.Raw = append([]byte(nil), b.Raw...)
	return b
}

func total(all []wirelog.Batch) (n int) {
	for _, b := range all {
		n += len(b.Raw)
	}
	return n
}

// offsetsIn are the findings' offsets in the log whose segment rel is.
func (p *packer) offsetsIn(rel string) map[int64]bool {
	all := map[int64]bool{}
	for _, a := range p.o.Around {
		folder := fmt.Sprintf("/%s/%d/%s-%d/", a.Cluster, a.Node, a.Topic, a.Partition)
		if a.Offset >= 0 && strings.Contains("/"+rel, folder) {
			all[a.Offset] = true
		}
	}
	return all
}
