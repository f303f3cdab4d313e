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
	if !wirelog.IsSegment(filepath.Base(at)) {
		return nil, nil
	}
	wanted := p.offsetsIn(rel)
	if len(wanted) == 0 {
		return nil, nil
	}
	s := (&wirelog.Log{Dir: filepath.Dir(at), Segments: []string{filepath.Base(at)}}).Stream()
	var parts []Part
	var window []int64  // where the batches before begin
	var from, end int64 // of the part that is being gathered: batches lie one behind the other
	left := int64(-1)   // bytes that are still to come, -1 outside a part
	finish := func() error {
		left = -1
		e := entry{File: File{Path: fmt.Sprintf("%s.part-%020d", path.Join(RunDir, rel), from), Size: end - from}, disk: at, from: from}
		if err := e.seal(nil); err != nil {
			return err
		}
		p.entries = append(p.entries, e)
		parts = append(parts, Part{Path: e.Path, Position: from})
		return nil
	}
	for {
		b, err := s.Next()
		var problem *wirelog.Problem
		switch {
		case errors.Is(err, io.EOF), errors.As(err, &problem):
			if err = s.Close(); left >= 0 {
				err = errors.Join(err, finish())
			}
			return parts, err
		case err != nil:
			return parts, errors.Join(err, s.Close())
		}
		hit := false
		for o := range wanted {
			hit = hit || o >= b.BaseOffset && o <= b.LastOffset()
		}
		if hit && left < 0 {
			from, left = append(window, b.Position)[0], 0
		}
		end = b.Position + b.Size()
		switch {
		case hit:
			left, window = aroundBytes, nil
		case left >= 0:
			if left -= b.Size(); left <= 0 {
				if err := finish(); err != nil {
					return parts, errors.Join(err, s.Close())
				}
			}
		default:
			window = append(window, b.Position)
			for len(window) > 1 && end-window[0] > aroundBytes {
				window = window[1:]
			}
		}
	}
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
