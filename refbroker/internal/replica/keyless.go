package replica

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/storage"
)

// KeylessError refuses a client's batch for a compacted topic: nothing would
// ever take the place of records without a key. It is INVALID_RECORD.
type KeylessError struct {
	Partition string
	// Records are those without a key, by their place in the batch.
	Records []int32
}

func (e *KeylessError) Error() string {
	return fmt.Sprintf("compacted topic cannot accept message without key in topic partition %s (%d records)", e.Partition, len(e.Records))
}

// Unwrap gives the code.
func (e *KeylessError) Unwrap() error { return kerr.InvalidRecord }

// checkKeys looks at a client's batch before it is appended.
func (p *Partition) checkKeys(raw []byte) error {
	p.mu.Lock()
	compacts := p.role.compaction != nil
	p.mu.Unlock()
	if !compacts {
		return nil
	}
	places, err := storage.Keyless(raw, p.inflate)
	if err != nil {
		return fmt.Errorf("%s: look for keys: %w: %w", p.Name(), err, kerr.CorruptMessage)
	}
	if len(places) > 0 {
		return &KeylessError{p.Name(), places}
	}
	return nil
}
