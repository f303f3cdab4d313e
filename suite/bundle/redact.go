package bundle

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"watershed.example/fixtures/secrets"
	"watershed.example/suite/wirelog"
)

// keyFiles end the names of files that hold keys or passwords and nothing else.
var keyFiles = []string{".pem", ".key", ".crt", ".p12", ".pfx", ".jks", ".keystore", ".truststore", ".keytab", ".jaas", ".env"}

func isKeyFile(name string) bool {
	lower := strings.ToLower(filepath.Base(name))
	return slices.ContainsFunc(keyFiles, func(end string) bool { return strings.HasSuffix(lower, end) })
}

// MinSecret is how long a secret must be to be looked for in all text.
const MinSecret = secrets.Min

// TooShort are those of the secrets that are not looked for in all text.
func TooShort(all []string) []string { return secrets.TooShort(all) }

// redact copies a text without secrets, and says how many places that were. What is JSON
// or XML stays that, and what its readers take is taken by them afterwards, or it is an
// error. A history is read line by line: it is long.
func redact(w io.Writer, r io.Reader, name string, known *secrets.Set) (int, error) {
	if filepath.Ext(name) == ".jsonl" {
		return redactLines(w, r, known)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return 0, err
	}
	n, was := 0, data
	switch filepath.Ext(name) {
	case ".json":
		data, n = known.JSON(data)
	case ".xml":
		data, n = known.XML(data)
	default:
		data, n = known.Text(data)
	}
	if n > 0 && broken(readerOf(name), was, data) {
		return n, errWord
	}
	_, err = w.Write(data)
	return n, err
}

// piece is how much of a text of lines is looked at at once: most has no secret.
const piece = 1 << 20

// redactLines copies lines of JSON. One that is none, as the last one may be where a
// writer was killed, is treated as text by itself.
func redactLines(w io.Writer, r io.Reader, known *secrets.Set) (n int, err error) {
	in := bufio.NewReaderSize(r, piece)
	var lines []byte
	for end := false; !end; {
		lines = lines[:0]
		for len(lines) < piece && !end {
			line, err := in.ReadSlice('\n')
			lines = append(lines, line...)
			for errors.Is(err, bufio.ErrBufferFull) {
				line, err = in.ReadSlice('\n')
				lines = append(lines, line...)
			}
			if end = errors.Is(err, io.EOF); err != nil && !end {
				return n, err
			}
		}
		if known.Plain(lines) {
			if _, err := w.Write(lines); err != nil {
				return n, err
			}
			continue
		}
		for line := range bytes.Lines(lines) {
			clean, k := known.JSON(line)
			n += k
			if k > 0 && broken(historyLine, line, clean) {
				return n, errWord
			}
			if _, err := w.Write(clean); err != nil {
				return n, err
			}
		}
	}
	return n, nil
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
