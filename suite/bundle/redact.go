package bundle

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// keyFiles end the names of files that hold keys or passwords and nothing else.
var keyFiles = []string{".pem", ".key", ".crt", ".p12", ".pfx", ".jks", ".keystore", ".truststore", ".keytab", ".jaas", ".env"}

func isKeyFile(name string) bool {
	lower := strings.ToLower(filepath.Base(name))
	return slices.ContainsFunc(keyFiles, func(end string) bool { return strings.HasSuffix(lower, end) })
}

// taken is what stands where a secret was.
const taken = "[taken out]"

// leaks are the forms in which configurations and logs show secrets. The first
// group stays.
var leaks = []*regexp.Regexp{
	regexp.MustCompile(`(?i)(sasl\.jaas\.config["']?\s*[=:]\s*["']?)[^\r\n]+`),
	regexp.MustCompile(`(?i)([a-z0-9._-]*(?:password|passwd|secret|credential|token)["']?\s*[=:]\s*)(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;}"']+)`),
	regexp.MustCompile(`()-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)`),
}

// words are those of which a leak has one: most text has none.
var words = []string{"sasl.jaas", "password", "passwd", "secret", "credential", "token", "private key"}

// redact takes secrets out of text, and says how many places that were.
func redact(data []byte, secrets []string) ([]byte, int) {
	n := 0
	for _, s := range variants(secrets) {
		if c := bytes.Count(data, []byte(s)); c > 0 {
			n += c
			data = bytes.ReplaceAll(data, []byte(s), []byte(taken))
		}
	}
	if lower := bytes.ToLower(data); !slices.ContainsFunc(words, func(w string) bool { return bytes.Contains(lower, []byte(w)) }) {
		return data, n
	}
	for _, leak := range leaks {
		data = leak.ReplaceAllFunc(data, func(m []byte) []byte {
			if bytes.Contains(m, []byte(taken)) {
				return m
			}
			n++
			kept := leak.FindSubmatch(m)[1]
			out := append(slices.Clone(kept), taken...)
			if bytes.Contains(kept, []byte(`":`)) || bytes.Contains(kept, []byte(`" :`)) { // a number
				out = append(append(append(slices.Clone(kept), '"'), taken...), '"')
			}
			if rest := m[len(kept):]; len(rest) > 1 && (rest[0] == '"' || rest[0] == '\'') && rest[len(rest)-1] == rest[0] {
				out = append(append(append(slices.Clone(kept), rest[0]), taken...), rest[0]) // JSON stays JSON
			}
			return out
		})
	}
	return data, n
}

// variants are the forms in which a secret may stand in text: as it is, and as
// JSON and XML write it. The longest first, so that none is cut in two.
func variants(secrets []string) []string {
	var all []string
	for _, s := range secrets {
		if s == "" {
			continue
		}
		all = append(all, s, jsonText(s), xmlText(s))
	}
	slices.SortFunc(all, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(all)
}

func jsonText(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(s)
}

func xmlText(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(s)
}

// isText says whether a file of that name is text that people read, in which
// secrets can be taken out; other files with a secret are left out.
func isText(name string) bool {
	switch filepath.Ext(name) {
	case ".json", ".jsonl", ".txt", ".xml", ".yaml", ".yml", ".properties", ".md":
		return true
	case ".log":
		return !segment.MatchString(filepath.Base(name))
	}
	return false
}

var segment = regexp.MustCompile(`^\d{20}\.log$`)
