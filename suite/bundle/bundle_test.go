package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/fixtures/secrets"
)

// golden segments make a run's log.
const segments = "../wirelog/testdata/kip1279-segments/B/t2-0/00000000000000000000.log"

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// aRun makes the folder of a run with one scenario.
func aRun(t *testing.T, more map[string]string) string {
	t.Helper()
	log, err := os.ReadFile(segments)
	require.NoError(t, err)
	files := map[string]string{
		"result.json":                    `{"version": 1}`,
		"s/run.json":                     `{}`,
		"s/history.jsonl":                "{}\n",
		"s/logs/B/1/t2-0/" + logName:     string(log),
		"s/broker/B-1.log":               "started\n",
		"s/data/B/1/raft.db":             "the broker's own",
		"s/logs/B/1/t2-0/x.timeindex":    "",
		"watershed-old-2026.tar.gz":      "an older bundle",
		"s/logs/B/1/t2-0/empty.txnindex": "",
	}
	for name, text := range more {
		files[name] = text
	}
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, []byte(text), 0o600))
	}
	return dir
}

const logName = "00000000000000000000.log"

func written(t *testing.T, dir string, o Options) string {
	t.Helper()
	if o.Product == "" {
		o.Product = "some broker 1.2"
	}
	o.Time = noon
	file, sum, err := Write(dir, t.TempDir(), o)
	require.NoError(t, err)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, sumOfBytes(data), sum)
	return file
}

func opened(t *testing.T, file string) (*Manifest, string) {
	t.Helper()
	dir := t.TempDir()
	m, err := Open(file, dir)
	require.NoError(t, err)
	return m, dir
}

func TestABundleHoldsTheRun(t *testing.T) {
	run := aRun(t, nil)
	file := written(t, run, Options{Facts: map[string]string{"launcher": "kafka"}})
	require.Equal(t, "watershed-some-broker-1.2-20261130T120000Z.tar.gz", filepath.Base(file))
	m, dir := opened(t, file)
	var names []string
	for _, f := range m.Files {
		names = append(names, f.Path)
		want, err := os.ReadFile(filepath.Join(run, strings.TrimPrefix(f.Path, RunDir+"/")))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, f.Path))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), f.Path)
	}
	require.Equal(t, []string{
		"run/result.json", "run/s/broker/B-1.log", "run/s/history.jsonl", "run/s/logs/B/1/t2-0/" + logName, "run/s/logs/B/1/t2-0/empty.txnindex",
		"run/s/logs/B/1/t2-0/x.timeindex", "run/s/run.json",
	}, names)
	require.Equal(t, []LeftOut{{Path: "run/s/data", Why: "the brokers' own folders; what was judged of them is in the logs", Reason: Brokers}}, m.LeftOut)
	require.False(t, m.Lacks("run/s"))
	require.Equal(t, "kafka", m.Facts["launcher"])
	require.Equal(t, "2026-11-30T12:00:00Z", m.Made)
}

func TestTwoBundlesOfARunAreTheSameBytes(t *testing.T) {
	run := aRun(t, nil)
	one, err := os.ReadFile(written(t, run, Options{}))
	require.NoError(t, err)
	later := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(run, "result.json"), later, later))
	require.NoError(t, os.Chmod(filepath.Join(run, "result.json"), 0o644))
	two, err := os.ReadFile(written(t, run, Options{}))
	require.NoError(t, err)
	require.True(t, bytes.Equal(one, two))
}

func TestSecretsNeverEnterABundle(t *testing.T) {
	const password, odd = "hunter2-hunter2", `a"b\c<d>`
	run := aRun(t, map[string]string{
		"target.json":                       `{"sasl": {"username": "u", "password": "plain-secret-1", "mechanism": "PLAIN"}, "tokenCount": 5, "token": 77}`,
		"s/broker/B-2.log":                  "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username=\"u\" password=\"plain-secret-2\";\nssl.keystore.password = plain-secret-3\nconnect with " + password + "\n",
		"s/story.txt":                       "-----BEGIN RSA PRIVATE KEY-----\nplain-secret-4\n-----END RSA PRIVATE KEY-----\nand on",
		"s/torn.txt":                        "-----BEGIN PRIVATE KEY-----\nplain-secret-5",
		"s/tls/server.key":                  "plain-secret-6",
		"s/tls/client.PEM":                  "plain-secret-7",
		"s/broker.jks":                      "plain-secret-8",
		"s/logs/B/1/t2-0/binary.bin":        strings.Repeat("x", 1<<20-5) + password + "y",
		"junit.xml":                         "<x>" + inXML(t, odd) + "</x>",
		"s/more.jsonl":                      `{"note": ` + inJSON(t, odd) + `}`,
		"s/plain.txt":                       "so: " + odd,
		"s/logs/B/1/t2-0/" + "00.timeindex": "harmless",
	})
	file := written(t, run, Options{Secrets: []string{password, odd, ""}, Facts: map[string]string{"user": "u with " + password}})
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(raw))
	require.NoError(t, err)
	var all bytes.Buffer
	_, err = all.ReadFrom(z)
	require.NoError(t, err)
	for _, secret := range []string{"plain-secret", password, odd, strings.Trim(inJSON(t, odd), `"`), inXML(t, odd), "77}"} {
		require.NotContains(t, all.String(), secret)
	}
	m, dir := opened(t, file)
	left := map[string]string{}
	for _, l := range m.LeftOut {
		left[l.Path] = l.Why
		require.Empty(t, l.SHA256, "the checksum of a file with secrets helps to guess them")
	}
	for _, name := range []string{"run/s/tls/server.key", "run/s/tls/client.PEM", "run/s/broker.jks", "run/s/logs/B/1/t2-0/binary.bin"} {
		require.NotEmpty(t, left[name], name)
	}
	data, err := os.ReadFile(filepath.Join(dir, "run/target.json"))
	require.NoError(t, err)
	var target struct {
		Sasl       map[string]string
		TokenCount int
		Token      string
	}
	require.NoError(t, json.Unmarshal(data, &target), "%s", data)
	require.Equal(t, 5, target.TokenCount)
	require.Equal(t, secrets.Taken, target.Sasl["password"])
	require.Equal(t, "PLAIN", target.Sasl["mechanism"])
}

// A text that is too large is not looked through for secrets, and its checksum would help
// to guess one.
func TestALargeTextIsLeftOutWithoutAChecksum(t *testing.T) {
	m, dir := opened(t, written(t, aRun(t, map[string]string{"s/history.jsonl": strings.Repeat("x", 1000)}), Options{maxText: 999}))
	k := slices.IndexFunc(m.LeftOut, func(l LeftOut) bool { return l.Reason == Large })
	require.Equal(t, LeftOut{Path: "run/s/history.jsonl", Size: 1000, Why: "text of more than 999 bytes", Reason: Large}, m.LeftOut[k])
	require.NoFileExists(t, filepath.Join(dir, "run/s/history.jsonl"))
	require.True(t, m.Lacks("run/s"), "it can't be judged anew")
}

func TestALargeLogIsLeftOutButForFindings(t *testing.T) {
	log, err := os.ReadFile(segments)
	require.NoError(t, err)
	run := aRun(t, map[string]string{"s/logs/B/1/far-0/" + logName: string(log)})
	m, dir := opened(t, written(t, run, Options{MaxFile: 1000, Around: []Place{{Cluster: "B", Node: 1, Topic: "t2", Partition: 0, Offset: 16}, {Cluster: "B", Node: 1, Topic: "far", Partition: 0, Offset: -1}}}))
	var large []LeftOut
	for _, l := range m.LeftOut {
		if l.SHA256 != "" {
			require.Equal(t, sumOfBytes(log), l.SHA256)
			large = append(large, l)
		}
	}
	require.Len(t, large, 2)
	require.True(t, m.Lacks("run/s"))
	require.False(t, m.Lacks("run/"+"other"))
	require.Empty(t, large[0].Parts, "of far-0 no finding tells")
	require.Len(t, large[1].Parts, 1)
	part, err := os.ReadFile(filepath.Join(dir, large[1].Parts[0].Path))
	require.NoError(t, err)
	from := large[1].Parts[0].Position
	require.True(t, bytes.Equal(log[from:from+int64(len(part))], part), "the part is what lies there")
}

// Of a long log a part begins and ends about 64 KiB from its finding.
func TestPartsOfALongLogAreBounded(t *testing.T) {
	one, err := os.ReadFile(segments)
	require.NoError(t, err)
	first := one[:12+binary.BigEndian.Uint32(one[8:])]
	var log []byte
	const batches = 8000
	for offset := range uint64(batches) { // which the checksum does not cover
		log = append(log, first...)
		binary.BigEndian.PutUint64(log[len(log)-len(first):], 100*offset)
	}
	require.Greater(t, len(log), 5*aroundBytes)
	var around []Place
	for _, offset := range []int64{0, 100 * batches / 2, 100 * (batches - 1)} {
		around = append(around, Place{Cluster: "B", Node: 1, Topic: "far", Partition: 0, Offset: offset})
	}
	m, dir := opened(t, written(t, aRun(t, map[string]string{"s/logs/B/1/far-0/" + logName: string(log)}), Options{MaxFile: 100_000, Around: around}))
	large := m.LeftOut[slices.IndexFunc(m.LeftOut, func(l LeftOut) bool { return l.Reason == Large })]
	require.Len(t, large.Parts, 3)
	half := aroundBytes / len(first) * len(first)
	for i, part := range large.Parts {
		data, err := os.ReadFile(filepath.Join(dir, part.Path))
		require.NoError(t, err)
		require.True(t, bytes.Equal(log[part.Position:part.Position+int64(len(data))], data), "the part is what lies there")
		want := half + len(first)
		if i == 1 {
			want += half
			require.Equal(t, len(first)*batches/2-half, int(part.Position))
		}
		require.InDelta(t, want, len(data), float64(len(first)), "part %d", i)
	}
}

// changed rewrites an archive: change sees each entry, and may add others.
func changed(t *testing.T, file string, change func(h *tar.Header, data []byte) ([]byte, bool), more ...*tar.Header) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(raw))
	require.NoError(t, err)
	in := tar.NewReader(z)
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	w := tar.NewWriter(zw)
	for {
		h, err := in.Next()
		if err != nil {
			break
		}
		var data bytes.Buffer
		_, err = data.ReadFrom(in)
		require.NoError(t, err)
		raw, keep := change(h, data.Bytes())
		if !keep {
			continue
		}
		h.Size = int64(len(raw))
		require.NoError(t, w.WriteHeader(h))
		_, err = w.Write(raw)
		require.NoError(t, err)
	}
	for _, h := range more {
		h.Mode = 0o644
		require.NoError(t, w.WriteHeader(h))
		_, err = w.Write(make([]byte, h.Size))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, zw.Close())
	path := filepath.Join(t.TempDir(), "changed.tar.gz")
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	return path
}

func TestATamperedBundleIsRefused(t *testing.T) {
	file := written(t, aRun(t, nil), Options{})
	same := func(_ *tar.Header, data []byte) ([]byte, bool) { return data, true }
	at := func(name string, do func([]byte) ([]byte, bool)) func(*tar.Header, []byte) ([]byte, bool) {
		return func(h *tar.Header, data []byte) ([]byte, bool) {
			if h.Name == name {
				return do(data)
			}
			return data, true
		}
	}
	flip := func(data []byte) ([]byte, bool) { data[0] ^= 1; return data, true }
	gone := func([]byte) ([]byte, bool) { return nil, false }
	tests := []struct {
		name   string
		change func(*tar.Header, []byte) ([]byte, bool)
		more   []*tar.Header
		want   string
	}{
		{"a byte", at("run/s/run.json", flip), nil, "file run/s/run.json is not what it was"},
		{"a byte of a log", at("run/s/logs/B/1/t2-0/"+logName, flip), nil, "file run/s/logs/B/1/t2-0/" + logName + " is not what it was"},
		{"the manifest", at(ManifestFile, flip), nil, "file manifest.json is not what it was"},
		{"the checksums", at(SumsFile, func([]byte) ([]byte, bool) { return []byte("nonsense\n"), true }), nil, "SHA256SUMS: line"},
		{"no checksums", at(SumsFile, gone), nil, "file SHA256SUMS is missing"},
		{"a file is missing", at("run/s/history.jsonl", gone), nil, "file run/s/history.jsonl is missing"},
		{"a file more", same, []*tar.Header{{Name: "run/new.txt", Size: 3}}, "file run/new.txt was put into it later"},
		{"checksum and file, not the manifest", func(h *tar.Header, data []byte) ([]byte, bool) {
			switch h.Name {
			case SumsFile:
				var out []string
				for line := range strings.Lines(string(data)) {
					if strings.HasSuffix(line, "  run/s/run.json\n") {
						line = sumOfBytes([]byte("{ }")) + "  run/s/run.json\n"
					}
					out = append(out, line)
				}
				return []byte(strings.Join(out, "")), true
			case "run/s/run.json":
				return []byte("{ }"), true
			}
			return data, true
		}, nil, "file run/s/run.json is not the one that manifest.json lists"},
		{"out of the folder", same, []*tar.Header{{Name: "../outside", Size: 1}}, `entry "../outside" points out of the bundle`},
		{"an absolute path", same, []*tar.Header{{Name: "/tmp/outside", Size: 1}}, `entry "/tmp/outside" points out of the bundle`},
		{"a path with a way back", same, []*tar.Header{{Name: "run/a/../../../outside", Size: 1}}, "points out of the bundle"},
		{"a link", same, []*tar.Header{{Name: "run/link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}}, `entry "run/link" is no regular file`},
		{"a device", same, []*tar.Header{{Name: "run/null", Typeflag: tar.TypeChar}}, `entry "run/null" is no regular file`},
		{"twice", same, []*tar.Header{{Name: "run/s/run.json", Size: 1}}, `entry "run/s/run.json" is there twice`},
		{"a file where a folder is", same, []*tar.Header{{Name: "run/s/run.json/x", Size: 1}}, "file run/s/run.json/x was put into it later"},
		{"more bytes than it had", at("run/s/history.jsonl", func(data []byte) ([]byte, bool) { return append(data, make([]byte, 1<<20)...), true }), nil, "file run/s/history.jsonl is not what it was: it has 1048579 bytes, manifest.json says 3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bad := changed(t, file, test.change, test.more...)
			parent := t.TempDir()
			into := filepath.Join(parent, "into")
			require.NoError(t, os.Mkdir(into, 0o755))
			_, err := Open(bad, into)
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, bad)
			entries, err := os.ReadDir(parent)
			require.NoError(t, err)
			require.Len(t, entries, 1, "nothing got out")
		})
	}
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, cut := range []int{0, 5, 40, len(raw) / 2, len(raw) - 3} {
		torn := filepath.Join(t.TempDir(), "torn.tar.gz")
		require.NoError(t, os.WriteFile(torn, raw[:cut], 0o600))
		_, err := Open(torn, t.TempDir())
		require.Error(t, err, cut)
	}
}

// Whatever the archive, nothing panics and nothing is written elsewhere.
func FuzzOpen(f *testing.F) {
	f.Add([]byte("no archive"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, err := z.Write(data)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		for _, raw := range [][]byte{data, packed.Bytes()} {
			file := filepath.Join(t.TempDir(), "x.tar.gz")
			require.NoError(t, os.WriteFile(file, raw, 0o600))
			parent := t.TempDir()
			into := filepath.Join(parent, "into")
			require.NoError(t, os.Mkdir(into, 0o755))
			if _, err := Open(file, into); err == nil {
				t.Fatal("opened what is no bundle")
			}
			entries, err := os.ReadDir(parent)
			require.NoError(t, err)
			require.Len(t, entries, 1)
		}
	})
}
