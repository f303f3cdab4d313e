package report

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// printable makes any bytes fit for a terminal, for XML 1.0 and for JSON: what
// is no UTF-8 or no allowed character is shown as \xNN or \uNNNN. Newlines and
// tabs stay (FA-23).
func printable(s string) string {
	var out strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02X`, s[0])
		case r == '\n' || r == '\t':
			out.WriteRune(r)
		case r < 0x20 || r >= 0x7F && r < 0xA0:
			fmt.Fprintf(&out, `\x%02X`, r)
		case r == 0xFFFE || r == 0xFFFF || r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069:
			fmt.Fprintf(&out, `\u%04X`, r) // no characters, or they would turn the line around
		default:
			out.WriteString(s[:n])
		}
		s = s[n:]
	}
	return out.String()
}

// oneLine is printable text without newlines, cut to width characters.
func oneLine(s string, width int) string {
	s = strings.Join(strings.Fields(printable(s)), " ")
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	if width <= 3 {
		return string([]rune(s)[:max(width, 0)])
	}
	return string([]rune(s)[:width-3]) + "..."
}

// wrap breaks text into lines of at most width characters; words that are
// longer stay whole.
func wrap(s string, width int) []string {
	var lines []string
	for _, para := range strings.Split(printable(s), "\n") {
		line, n := "", 0
		for _, word := range strings.Fields(para) {
			w := utf8.RuneCountInString(word)
			if n > 0 && n+1+w > width {
				lines = append(lines, line)
				line, n = "", 0
			}
			if n > 0 {
				line, n = line+" ", n+1
			}
			line, n = line+word, n+w
		}
		lines = append(lines, line)
	}
	return lines
}

// printer writes lines and keeps the first error.
type printer struct {
	out interface{ Write([]byte) (int, error) }
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format+"\n", args...)
	}
}

// field prints a labelled text, wrapped and indented under its label.
func (p *printer) field(label, text string, width int) {
	const indent = 12
	for i, l := range wrap(text, max(width-indent, 20)) {
		if i > 0 {
			label = ""
		}
		p.line("  %-*s%s", indent-2, label, l)
	}
}
