package postmortem

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"watershed.example/suite/wirelog"
)

// replica is one folder of a partition.
type replica struct {
	side      int
	folder    string
	topic     string
	partition int32
	log       *wirelog.Log
	size      int64
	// watermark is the high watermark of the last checkpoint, -1 where there is none.
	watermark int64
	topicID   string
}

// found is what lies in the folders of all sides.
type found struct {
	replicas   []*replica
	clusterIDs []map[string]string // of each side: id to the file that says so
	unread     []Finding
	internal   int // replicas of internal topics, which no mirror copies
}

const (
	metaFile       = "meta.properties"
	watermarkFile  = "replication-offset-checkpoint"
	topicIDFile    = "partition.metadata"
	maxFolderDepth = 6
)

var (
	partitionName = regexp.MustCompile(`^([a-zA-Z0-9._-]{1,249})-(\d{1,10})$`)
	movedName     = regexp.MustCompile(`^.+\.[0-9a-zA-Z_-]+-(delete|future|stray)$`)
)

// find looks for partitions below the sides' folders. A folder without any is
// refused: with it a mistake in a name would read as if all was well.
func find(sides []Side) (*found, error) {
	roots, err := resolve(sides)
	if err != nil {
		return nil, err
	}
	f := &found{}
	for range sides {
		f.clusterIDs = append(f.clusterIDs, map[string]string{})
	}
	for _, r := range roots {
		name := sides[r.side].Name
		before, unread := len(f.replicas)+f.internal, len(f.unread)
		if err := f.walk(r.side, name, r.folder, r.at); err != nil {
			return nil, fmt.Errorf("side %s: %w", name, err)
		}
		if len(f.replicas)+f.internal > before {
			continue
		}
		err := fmt.Errorf("side %s: %s has no TOPIC-PARTITION folder with segments (00000000000000000000.log)", name, r.folder)
		if len(f.unread) > unread {
			err = fmt.Errorf("%w: %s %s", err, f.unread[unread].Folder, f.unread[unread].What)
		}
		return nil, err
	}
	if err := f.comparable(sides); err != nil {
		return nil, err
	}
	slices.SortStableFunc(f.replicas, func(a, b *replica) int {
		return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition), cmp.Compare(a.side, b.side), strings.Compare(a.folder, b.folder))
	})
	return f, nil
}

func (f *found) say(side, folder, what, do string) {
	f.unread = append(f.unread, Finding{
		Kind: Unread, Sure: Measured, Side: side, Folder: folder, Offset: -1, LastOffset: -1, Times: 1, Requirements: []string{},
		What: what, Why: "it was not read", Do: do,
	})
}

// walk takes what lies below root, which is reached at the path at.
func (f *found) walk(side int, name, root, at string) error {
	watermarks := map[string]map[string]int64{} // by folder
	return filepath.WalkDir(at, func(path string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(at, path)
		shown := filepath.Join(root, rel)
		if err != nil || relErr != nil {
			f.say(name, shown, "can't be read: "+errors.Join(err, relErr).Error(), "check the rights of the copy")
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !d.IsDir() {
			if d.Name() == metaFile {
				f.meta(side, name, path, shown)
			}
			return nil
		}
		if strings.Count(rel, string(filepath.Separator)) > maxFolderDepth {
			return fs.SkipDir
		}
		segments, foreign, err := segmentsIn(path)
		if err != nil {
			f.say(name, shown, "can't be read: "+err.Error(), "check the rights of the copy")
			return fs.SkipDir
		}
		base := filepath.Base(path)
		if movedName.MatchString(base) {
			f.say(name, shown, "is a folder that the broker had given up (deleted, moved or stray)", "nothing, unless its partition is missing elsewhere")
			return fs.SkipDir
		}
		if len(segments) == 0 {
			if foreign > 0 && path != at {
				f.say(name, shown, fmt.Sprintf("holds %d files .log, none with the name of a segment (20 digits)", foreign), "nothing, if they are no logs of a partition")
			}
			return nil
		}
		m := partitionName.FindStringSubmatch(base)
		if m == nil {
			f.say(name, shown, "holds segments, and its name is no TOPIC-PARTITION", "give the folder the name that it had on the broker")
			return nil
		}
		number, err := strconv.ParseInt(m[2], 10, 32)
		if err != nil {
			f.say(name, shown, "has a partition number that is none", "give the folder the name that it had on the broker")
			return fs.SkipDir
		}
		if strings.HasPrefix(m[1], "__") {
			f.internal++
			return fs.SkipDir
		}
		r := &replica{side: side, folder: shown, topic: m[1], partition: int32(number), watermark: -1, log: &wirelog.Log{Dir: path, Segments: segments}}
		if r.size, err = r.log.Size(); err != nil {
			f.say(name, shown, "can't be read: "+err.Error(), "check the copy")
			return fs.SkipDir
		}
		above := filepath.Dir(path)
		if watermarks[above] == nil {
			watermarks[above] = readWatermarks(filepath.Join(above, watermarkFile))
		}
		if w, ok := watermarks[above][base]; ok {
			r.watermark = w
		}
		r.topicID = property(filepath.Join(path, topicIDFile), "topic_id", ":")
		f.replicas = append(f.replicas, r)
		if path == at { // one partition's folder was given, what lies beside it tells more
			f.meta(side, name, filepath.Join(above, metaFile), filepath.Join(filepath.Dir(root), metaFile))
		}
		return fs.SkipDir
	})
}

// segmentsIn lists the segments in a folder, and counts other files that end in .log.
func segmentsIn(dir string) (names []string, foreign int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range entries {
		switch {
		case e.IsDir() || !strings.HasSuffix(e.Name(), ".log"):
		case wirelog.IsSegment(e.Name()):
			names = append(names, e.Name())
		default:
			foreign++
		}
	}
	return names, foreign, nil // sorted, and so by offset
}

func (f *found) meta(side int, name, path, shown string) {
	id := property(path, "cluster.id", "=")
	if id == "" {
		return
	}
	f.clusterIDs[side][id] = shown
	if len(f.clusterIDs[side]) > 1 {
		f.say(name, shown, "is of another cluster than the other folders of this side: "+id, "give each cluster a side of its own")
	}
}

// property reads one value of a small file of lines KEY SEPARATOR VALUE, empty
// where it is not there.
func property(path, key, separator string) string {
	data, err := readSmall(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		k, v, ok := strings.Cut(line, separator)
		if ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// readWatermarks reads a checkpoint of high watermarks: a version, how many
// lines follow, and so many lines TOPIC PARTITION OFFSET.
func readWatermarks(path string) map[string]int64 {
	all := map[string]int64{}
	data, err := readSmall(path)
	if err != nil {
		return all
	}
	s := bufio.NewScanner(strings.NewReader(string(data)))
	for s.Scan() {
		fields := strings.Fields(s.Text())
		if len(fields) != 3 {
			continue
		}
		if offset, err := strconv.ParseInt(fields[2], 10, 64); err == nil {
			all[fields[0]+"-"+fields[1]] = offset
		}
	}
	return all
}

const maxSmall = 16 << 20

// readSmall reads a file that is small unless it is not what its name says.
func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSmall {
		return nil, fmt.Errorf("%s: no file of less than %d bytes", path, maxSmall)
	}
	return os.ReadFile(path)
}
