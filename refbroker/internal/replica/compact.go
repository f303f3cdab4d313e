package replica

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/refbroker/internal/storage"
)

// compactAll compacts every log that has enough to gain.
func (m *Manager) compactAll(ctx context.Context) {
	for _, p := range m.All() {
		done, err := p.compact(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			m.cfg.Logger.Warn("compaction failed", "partition", p.Name(), "error", err)
		case done.To > 0:
			m.cfg.Logger.Info("log was compacted", "partition", p.Name(), "from", done.From, "to", done.To, "before", done.Before, "after", done.After)
		}
	}
}

// compact removes what the topic's compaction need not keep. Each replica does
// it for itself, as in Kafka. A log that mirrors is left alone: it is to be the
// source's, byte for byte, and what was cut away when mirroring began could not
// be told from what was compacted (RO-3, LOG-1). It follows once the partition
// is writable.
func (p *Partition) compact(ctx context.Context) (storage.Compacted, error) {
	p.mu.Lock()
	r, closed := p.role, p.closed
	p.mu.Unlock()
	if closed || r.readOnly || r.compaction == nil || p.log.Marks().LogEnd == 0 {
		return storage.Compacted{}, nil
	}
	done, err := p.log.Compact(ctx, *r.compaction, p.mayCompact)
	return done, storageError(err)
}

// mayCompact says so until a mirror starts.
func (p *Partition) mayCompact() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.role.readOnly
}

// CleanedUpTo is the offset below which this replica's cleaner may have removed
// records. A log that is to be cut below it must be copied anew (AL-1).
func (p *Partition) CleanedUpTo() int64 { return p.log.CleanedUpTo() }

// ForgottenUpTo is the offset below which this replica's cleaner may have removed
// tombstones and markers.
func (p *Partition) ForgottenUpTo() int64 { return p.log.ForgottenUpTo() }

// NoteForgotten notes what the cleaner of the source has forgotten: it is not in
// this log either.
func (p *Partition) NoteForgotten(offset int64) error {
	if err := p.log.NoteForgotten(offset); err != nil {
		return fmt.Errorf("%s: note what the source's cleaner has forgotten: %w", p.Name(), storageError(err))
	}
	return nil
}

// deflate compresses records with a codec of Kafka's.
func deflate() storage.Compress {
	codecs := map[int8]func() kgo.Compressor{}
	for codec, c := range map[int8]kgo.CompressionCodec{
		1: kgo.GzipCompression(), 2: kgo.SnappyCompression(), 3: kgo.Lz4Compression(), 4: kgo.ZstdCompression(),
	} {
		codecs[codec] = sync.OnceValue(func() kgo.Compressor {
			made, _ := kgo.DefaultCompressor(c) // fails for an unknown codec only
			return made
		})
	}
	return func(src []byte, codec int8) ([]byte, error) {
		codecOf, ok := codecs[codec]
		if !ok {
			return nil, fmt.Errorf("codec %d is unknown", codec)
		}
		out, used := codecOf().Compress(new(bytes.Buffer), src)
		if int8(used) != codec {
			return nil, fmt.Errorf("codec %d was used for %d", used, codec)
		}
		return out, nil
	}
}
