package bundle

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"watershed.example/suite/wirelog"
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
	// As JSON has it, and as anything else does: there quotes stand within the value.
	regexp.MustCompile(`(?i)("sasl\.jaas\.config"\s*:\s*)"(?:[^"\\]|\\.)*"|(sasl\.jaas\.config["']?\s*[=:]\s*)[^\r\n]+`),
	regexp.MustCompile(`(?i)([a-z0-9._-]*(?:password|passwd|secret|credential|token)["']?\s*[=:]\s*)(?:"(?:[^"\\]|\\.)*"|'[^']*'|(?:\[taken out\]|[^\s,;}"'])+)`),
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
	if !mentions(data) {
		return data, n
	}
	for _, leak := range leaks {
		data = leak.ReplaceAllFunc(data, func(m []byte) []byte {
			groups := leak.FindSubmatch(m)[1:]
			kept := groups[max(slices.IndexFunc(groups, func(g []byte) bool { return g != nil }), 0)]
			if string(bytes.Trim(m[len(kept):], `"'`)) == taken {
				return m // a secret that is known was all of it
			}
			n++
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

// mentions says whether text has one of the words, piece by piece: a text may be large.
func mentions(data []byte) bool {
	const piece, overlap = 1 << 20, 16 // no word is longer
	for from := 0; from < len(data); from += piece {
		lower := bytes.ToLower(data[from:min(from+piece+overlap, len(data))])
		if slices.ContainsFunc(words, func(w string) bool { return bytes.Contains(lower, []byte(w)) }) {
			return true
		}
	}
	return false
}

// MinSecret is how long a secret must be to be looked for in all text: a shorter
// one, such as kafka or 1, stands everywhere without being told. Where a text
// names a password, token or the like, its value is taken out however short.
const MinSecret = 6

// TooShort are those of the secrets that are not looked for in all text.
func TooShort(secrets []string) []string {
	return slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return s == "" || len(s) >= MinSecret })
}

// variants are the forms in which a secret may stand in text: as it is, and as
// JSON and XML write it. The longest first, so that none is cut in two. Those of
// [TooShort] are not looked for.
func variants(secrets []string) []string {
	var all []string
	for _, s := range secrets {
		if len(s) < MinSecret {
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
		return !wirelog.IsSegment(filepath.Base(name))
	}
	return false
}
