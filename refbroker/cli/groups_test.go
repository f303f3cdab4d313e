package cli

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestGroupsAreListedDescribedAndDeleted(t *testing.T) {
	r := serveHere(t, "--data-dir", filepath.Join(t.TempDir(), "data"))
	defer func() { r.stop(); r.end(t) }()
	groups := func(args ...string) (int, string, string) {
		return run(t.Context(), append([]string{"groups", "--bootstrap-server", r.Listeners["client"]}, args...)...)
	}
	code, stdout, stderr := groups("list")
	require.Zero(t, code, stderr)
	require.Equal(t, "GROUP  STATE  PROTOCOL-TYPE\n", stdout)

	code, stdout, stderr = run(t.Context(), "groups", "list", "--bootstrap-server", "127.0.0.1:1,"+r.Listeners["client"])
	require.Zero(t, code, "another broker answers: %s", stderr)
	require.Equal(t, "GROUP  STATE  PROTOCOL-TYPE\n", stdout)

	cl, err := kgo.NewClient(kgo.SeedBrokers(r.Listeners["client"]), kgo.DisableClientMetrics())
	require.NoError(t, err)
	defer cl.Close()
	adm := kadm.NewClient(cl)
	_, err = adm.CreateTopic(t.Context(), 1, 1, nil, "t")
	require.NoError(t, err)
	for range 5 {
		require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr())
	}
	var offsets kadm.Offsets
	offsets.AddOffset("t", 0, 3, -1)
	require.NoError(t, adm.CommitAllOffsets(t.Context(), "billing", offsets))

	_, stdout, _ = groups("list")
	require.Equal(t, "GROUP    STATE  PROTOCOL-TYPE\nbilling  Empty  -\n", stdout)
	code, stdout, stderr = groups("describe", "billing")
	require.Zero(t, code, stderr)
	require.Equal(t, "GROUP    STATE  TOPIC  PARTITION  COMMITTED  END  LAG  MEMBER  HOST\n"+
		"billing  Empty  t      0          3          5    2    -       -\n", stdout)
	code, _, stderr = groups("describe", "none")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "describe none: GROUP_ID_NOT_FOUND")
	code, stdout, stderr = groups("delete", "billing")
	require.Equal(t, []any{0, "deleted billing\n"}, []any{code, stdout}, stderr)
	code, _, stderr = groups("delete", "billing")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "delete billing: GROUP_ID_NOT_FOUND")
}
