package postmortem

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable shows bytes of a record as text of one line: what is no printable
// UTF-8 as \xNN or \uNNNN, and no more than width characters of it. There are size
// bytes, of which data are those that fill the width at least.
func printable(data []byte, size int64, width int) string {
	var s strings.Builder
	n := 0
	for rest := data; len(rest) > 0; {
		if n >= width {
			fmt.Fprintf(&s, "… (%d bytes)", size)
			break
		}
		r, length := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && length == 1:
			fmt.Fprintf(&s, `\x%02X`, rest[0])
			n += 4
		case !unicode.IsPrint(r):
			fmt.Fprintf(&s, `\u%04X`, r)
			n += 6
		default:
			s.WriteRune(r)
			n++
		}
		rest = rest[length:]
	}
	return s.String()
}
