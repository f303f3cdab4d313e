package broker

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/afero"

	"watershed.example/refbroker/internal/storage"
)

// metaFile says whose a data folder is, in Kafka's format.
const metaFile = "meta.properties"

// meta is the content of meta.properties.
type meta struct {
	clusterID string
	nodeID    int32
}

// newClusterID is a random id in Kafka's form.
func newClusterID() string {
	id := newUUID()
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// readMeta reads meta.properties; ok is false when there is none.
func readMeta(fs afero.Fs, dir string) (m meta, ok bool, err error) {
	path := filepath.Join(dir, metaFile)
	if exists, err := afero.Exists(fs, path); err != nil || !exists {
		return meta{}, false, err
	}
	raw, err := afero.ReadFile(fs, path)
	if err != nil {
		return meta{}, false, err
	}
	m.nodeID = -1
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "cluster.id":
			m.clusterID = value
		case "node.id":
			id, err := strconv.ParseInt(value, 10, 32)
			if err != nil {
				return meta{}, false, fmt.Errorf("%s: node.id %q", path, value)
			}
			m.nodeID = int32(id)
		}
	}
	if m.clusterID == "" || m.nodeID < 0 {
		return meta{}, false, fmt.Errorf("%s: cluster.id or node.id is missing", path)
	}
	return m, true, nil
}

// claimedBy checks that the folder is that of cluster and node; an empty
// cluster id means any.
func (m meta) claimedBy(dir, clusterID string, nodeID int32) error {
	if clusterID != "" && m.clusterID != clusterID {
		return fmt.Errorf("data folder %s belongs to cluster %s, not to %s", dir, m.clusterID, clusterID)
	}
	if m.nodeID != nodeID {
		return fmt.Errorf("data folder %s belongs to node %d, not to node %d", dir, m.nodeID, nodeID)
	}
	return nil
}

// write stores the file durably.
func (m meta) write(fs afero.Fs, dir string) error {
	text := fmt.Sprintf("version=1\ncluster.id=%s\nnode.id=%d\n", m.clusterID, m.nodeID)
	return storage.WriteFileAtomic(fs, filepath.Join(dir, metaFile), []byte(text))
}

// Format makes the data folder of a node before its first start, and returns
// the id of its cluster, a random one if clusterID is "". made is false where
// the folder is that node's already; another's is refused.
func Format(fs afero.Fs, dir, clusterID string, nodeID int32) (id string, made bool, err error) {
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return "", false, fmt.Errorf("data folder %s: %w", dir, err)
	}
	m, exists, err := readMeta(fs, dir)
	if err != nil {
		return "", false, fmt.Errorf("data folder %s: %w", dir, err)
	}
	if exists {
		return m.clusterID, false, m.claimedBy(dir, clusterID, nodeID)
	}
	for _, name := range []string{"logs", "quorum"} {
		there, err := afero.Exists(fs, filepath.Join(dir, name))
		if err != nil {
			return "", false, fmt.Errorf("data folder %s: %w", dir, err)
		}
		if there {
			return "", false, fmt.Errorf("data folder %s has a %s, and no %s that says whose", dir, name, metaFile)
		}
	}
	m = meta{clusterID, nodeID}
	if clusterID == "" {
		m.clusterID = newClusterID()
	}
	if err := m.write(fs, dir); err != nil {
		return "", false, fmt.Errorf("data folder %s: %w", dir, err)
	}
	return m.clusterID, true, nil
}

// claim writes the file where there is none. Beside metadata of a quorum one has
// been lost: the cluster's id stands nowhere else, and another one would make a
// new cluster of the old one's data.
func (m meta) claim(fs afero.Fs, dir string, existing bool) error {
	now, exists, err := readMeta(fs, dir)
	switch {
	case err != nil:
		return err
	case exists:
		return now.claimedBy(dir, m.clusterID, m.nodeID)
	case existing:
		return fmt.Errorf("%s is missing, and there is metadata of a cluster: put the file back (lines version=1, cluster.id=ID and node.id=%d, "+
			"with the id that the cluster's other nodes and its clients know), or empty the folder to begin anew", metaFile, m.nodeID)
	}
	return m.write(fs, dir)
}
