package dump

import (
	"strings"
	"unicode/utf8"
)

// text decodes bytes as Java's String does, so that keys and payloads that are
// no text look as they do in Kafka's own tool: each longest beginning of a
// character that is not one becomes a replacement character, and so does a
// surrogate's three bytes.
func text(p []byte) string {
	if utf8.Valid(p) {
		return string(p)
	}
	var b strings.Builder
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		if r == utf8.RuneError && n == 1 {
			n = malformed(p)
		}
		b.WriteRune(r)
		p = p[n:]
	}
	return b.String()
}

// malformed is how many bytes one replacement character stands for.
func malformed(p []byte) int {
	low, high, want := byte(0x80), byte(0xbf), 0
	switch lead := p[0]; {
	case lead >= 0xc2 && lead <= 0xdf:
		want = 2
	case lead >= 0xe0 && lead <= 0xef:
		want = 3
	case lead >= 0xf0 && lead <= 0xf4:
		want = 4
	default:
		return 1
	}
	switch p[0] {
	case 0xe0:
		low = 0xa0
	case 0xf0:
		low = 0x90
	case 0xf4:
		high = 0x8f
	}
	n := 1
	for n < min(want, len(p)) && p[n] >= low && p[n] <= high {
		n++
		low, high = 0x80, 0xbf
	}
	return n
}
