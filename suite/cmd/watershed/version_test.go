package main

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABuildSaysWhichItIs(t *testing.T) {
	for _, test := range []struct {
		version  string
		settings []debug.BuildSetting
		want     string
	}{
		{"v1.2.3", nil, "v1.2.3"},
		{"(devel)", []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "false"}}, "(devel) abc"},
		{"(devel)", []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}, "(devel) abc, changed since"},
		{"(devel)", nil, "(devel), of no known revision"},
		{"", nil, "(devel), of no known revision"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: test.version}, Settings: test.settings}
		require.Equal(t, test.want, versionOf(info))
	}
}
