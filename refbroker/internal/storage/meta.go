package storage

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"
)

// Names of the files of a log that are not of one segment.
const (
	fileEpochs   = "leader-epoch-checkpoint"
	fileMetadata = "partition.metadata"
	fileStops    = "mirror-stops.json"
)

// ReadTopicID reads the topic id of the log in dir from partition.metadata;
// ok is false when the file is not there.
func ReadTopicID(fsys afero.Fs, dir string) (id [16]byte, ok bool, err error) {
	name := filepath.Join(dir, fileMetadata)
	raw, err := readFileIfAny(fsys, name)
	if err != nil || raw == nil {
		return id, false, err
	}
	for _, line := range strings.Split(string(raw), "\n") {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "version":
			if value != "0" {
				return id, false, fmt.Errorf("%s: version %q, want 0", name, value)
			}
		case "topic_id":
			b, err := base64.RawURLEncoding.DecodeString(value)
			if err != nil || len(b) != len(id) {
				return id, false, fmt.Errorf("%s: topic id %q is no UUID", name, value)
			}
			return [16]byte(b), true, nil
		}
	}
	return id, false, fmt.Errorf("%s: no topic id", name)
}

// FormatTopicID is Kafka's way to write a UUID.
func FormatTopicID(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

func writeTopicID(fsys afero.Fs, dir string, id [16]byte) error {
	return WriteFileAtomic(fsys, filepath.Join(dir, fileMetadata),
		fmt.Appendf(nil, "version: 0\ntopic_id: %s", FormatTopicID(id)))
}
