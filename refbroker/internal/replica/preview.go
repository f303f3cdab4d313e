package replica

import (
	"fmt"
	"time"

	"watershed.example/refbroker/internal/storage"
)

// previewed is a preview, and the marks of the log that it was made from: describe
// asks again and again.
type previewed struct {
	end, start, stable int64
	preview            storage.StopPreview
	// made is when, and took how long that took.
	made time.Time
	took time.Duration
}

// previewShare bounds what previews cost: one that took long is shown for so many
// times as long, though more was mirrored meanwhile. It reads all that lies above
// the last stable offset, and nobody may append to the log in that time. That
// nothing would be cut is not repeated: it names no offsets that would tell how
// old it is, and it was cheap to see.
const previewShare = 20

// Preview implements [API].
func (p *Partition) Preview() (storage.StopPreview, error) {
	o := p.Offsets()
	p.mu.Lock()
	last := p.previewed
	p.mu.Unlock()
	began := time.Now()
	if last != nil && (last.end == o.LogEnd && last.start == o.LogStart && last.stable == o.LastStable ||
		last.preview.At < last.preview.End && began.Sub(last.made) < previewShare*last.took) {
		return last.preview, nil
	}
	v, err := p.log.PreviewStop(p.profile.CutsAtStop())
	if err != nil {
		return v, fmt.Errorf("%s: what a stop would cut: %w", p.Name(), storageError(err))
	}
	now := time.Now()
	p.mu.Lock()
	p.previewed = &previewed{v.End, o.LogStart, o.LastStable, v, now, now.Sub(began)}
	p.mu.Unlock()
	return v, nil
}
