package replica

import (
	"fmt"

	"watershed.example/psm"
)

// previewed is a preview and the marks of the log that it was made from: describe
// asks again and again.
type previewed struct {
	end, stable int64
	preview     Preview
}

// Preview implements [API].
func (p *Partition) Preview() (Preview, error) {
	o := p.Offsets()
	p.mu.Lock()
	last := p.previewed
	p.mu.Unlock()
	if last != nil && last.end == o.LogEnd && last.stable == o.LastStable {
		return last.preview, nil
	}
	v, err := p.preview(o)
	if err != nil {
		return Preview{}, fmt.Errorf("%s: what a stop would cut: %w", p.Name(), storageError(err))
	}
	p.mu.Lock()
	p.previewed = &previewed{o.LogEnd, o.LastStable, v}
	p.mu.Unlock()
	return v, nil
}

func (p *Partition) preview(o Offsets) (Preview, error) {
	v := Preview{At: o.LogEnd, LogEnd: o.LogEnd, Since: -1}
	for _, k := range p.Producers() {
		if k.CurrentTxnFirstOffset >= 0 && (v.Oldest == nil || k.CurrentTxnFirstOffset < v.Oldest.CurrentTxnFirstOffset) {
			v.Oldest = &k
		}
	}
	if v.Oldest != nil && v.Oldest.CurrentTxnFirstOffset >= o.LogStart {
		raw, err := p.log.Read(v.Oldest.CurrentTxnFirstOffset, o.LogEnd, 1, true)
		if err == nil && len(raw) > 0 {
			var b psm.Batch
			if b, err = psm.DecodeHeader(raw); err == nil {
				v.Since = b.BaseTimestamp
			}
		}
		if err != nil {
			return v, err
		}
	}
	if o.LastStable >= o.LogEnd {
		return v, nil
	}
	var err error
	if v.At, err = p.stopsAt(o); err != nil || v.At >= o.LogEnd {
		return v, err
	}
	v.Records, err = p.log.CountRecords(v.At)
	return v, err
}
