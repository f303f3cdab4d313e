package storage

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"watershed.example/psm"
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

// Barrier is a MIRROR_PID_RESET batch in a log.
type Barrier struct {
	Offset          int64  `json:"offset"`
	LeaderEpoch     int32  `json:"leaderEpoch"`
	CRC             uint32 `json:"crc"`
	SourceClusterID string `json:"sourceClusterId"`
}

// stopsFile is what mirror-stops.json holds: this partition's stops, by which
// own barriers are told from inherited ones (mirror-protocol.md, section 5),
// and the barriers of either kind that the log holds or has held.
type stopsFile struct {
	Version int `json:"version"`
	// CutEpoch is the leader epoch of the last cut of mirroring that the log has
	// followed.
	CutEpoch int32      `json:"cutEpoch,omitempty"`
	Stops    []stopJSON `json:"stops"`
	Barriers []Barrier  `json:"barriers"`
}

type stopJSON struct {
	L               int64  `json:"l"`
	BarrierOffset   int64  `json:"barrierOffset"`
	Epoch           int32  `json:"epoch"`
	SourceClusterID string `json:"sourceClusterId"`
}

func loadStops(fsys afero.Fs, dir string) (stops []psm.Stop, barriers []Barrier, cut int32, err error) {
	name := filepath.Join(dir, fileStops)
	raw, err := readFileIfAny(fsys, name)
	if err != nil || raw == nil {
		return nil, nil, 0, err
	}
	var f stopsFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, nil, 0, fmt.Errorf("%s: %w", name, err)
	}
	if f.Version != 1 {
		return nil, nil, 0, fmt.Errorf("%s: version %d, want 1", name, f.Version)
	}
	for _, s := range f.Stops {
		stops = append(stops, psm.Stop{L: s.L, BarrierOffset: s.BarrierOffset, Epoch: s.Epoch, SourceClusterID: s.SourceClusterID})
	}
	return stops, f.Barriers, f.CutEpoch, nil
}

func saveStops(fsys afero.Fs, dir string, stops []psm.Stop, barriers []Barrier, cut int32) error {
	f := stopsFile{Version: 1, CutEpoch: cut, Stops: []stopJSON{}, Barriers: barriers}
	if f.Barriers == nil {
		f.Barriers = []Barrier{}
	}
	for _, s := range stops {
		f.Stops = append(f.Stops, stopJSON{L: s.L, BarrierOffset: s.BarrierOffset, Epoch: s.Epoch, SourceClusterID: s.SourceClusterID})
	}
	raw, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return fmt.Errorf("encode stops: %w", err)
	}
	return WriteFileAtomic(fsys, filepath.Join(dir, fileStops), append(raw, '\n'))
}

// isOwn reports whether a barrier is the own one of one of the stops.
func isOwn(stops []psm.Stop, b Barrier) bool {
	return slices.ContainsFunc(stops, func(s psm.Stop) bool {
		return s.BarrierOffset == b.Offset && s.SourceClusterID == b.SourceClusterID && b.LeaderEpoch >= s.Epoch
	})
}
