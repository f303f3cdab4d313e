package auth

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzUsers: whatever a file of users says, each user has a name and a password,
// once, or it is refused.
func FuzzUsers(f *testing.F) {
	f.Add("a=b\n# c\n\nd = e")
	f.Add("a=\x00\n=\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseUsers(strings.NewReader(text))
		require.Equal(t, err != nil, all == nil)
		names := map[string]bool{}
		for _, u := range all {
			require.False(t, names[u.name] || u.name == "" || u.password == "" || strings.Contains(u.name, "="))
			names[u.name] = true
		}
	})
}
