package certify_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/fixtures"
	"watershed.example/fixtures/authtest"
	"watershed.example/fixtures/target"
	"watershed.example/mirrorrpc"
	"watershed.example/suite/check"
	"watershed.example/suite/engine"
)

func TestMain(m *testing.M) {
	if socket := os.Getenv(operatorVariable); socket != "" {
		os.Exit(asTool(socket, os.Args[1:]))
	}
	fixtures.MaybeBroker()
	os.Exit(m.Run())
}

// site is clusters that run, and the target's file that describes them.
type site struct {
	t      testing.TB
	o      *operator
	file   string
	before map[string]proxied // by cluster
	nodes  int                // of each
}

const password = "s3cret=\"with quotes\" and \\"

// plan is what an operator is to have.
type plan struct {
	profile, adapter string
	secured          bool // by TLS and SASL
	clusters, nodes  int
	flags            []string // of every broker beside those that follow
	defects          []string // those of one cluster alone have its letter: "name@C"
}

// build starts two clusters and writes the file.
func build(t testing.TB, profile, adapter string, secured bool, nodes int) *site {
	t.Helper()
	return plan{profile: profile, adapter: adapter, secured: secured, clusters: 2, nodes: nodes}.build(t)
}

func (p plan) build(t testing.TB) *site {
	t.Helper()
	s := &site{t: t, o: newOperator(t), before: map[string]proxied{}, nodes: p.nodes}
	var ca *authtest.Authority
	if p.secured {
		ca = authtest.NewAuthority(t)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nproduct: refbroker\nprofile: %s\nprefix: ws-test-\nclusters:\n", p.profile)
	for i, name := range []string{"east", "west", "north"}[:p.clusters] {
		up := setup{nodes: p.nodes, profile: p.profile, flags: p.flags}
		for _, d := range p.defects {
			if d, only, _ := strings.Cut(d, "@"); only == "" || only == string(rune('A'+i)) {
				up.defects = append(up.defects, d)
			}
		}
		mechanism := []string{"SCRAM-SHA-512", "PLAIN"}[i%2]
		if p.secured {
			cert, key := ca.Certificate(name, "127.0.0.1")
			users := filepath.Join(t.TempDir(), "users")
			require.NoError(t, os.WriteFile(users, []byte("certifier="+password+"\n"), 0o600))
			up.flags = append(slices.Clone(p.flags), "--security", "client=SASL_SSL", "--security", "mirror=SASL_SSL", "--tls-cert", cert, "--tls-key", key, "--sasl-users", users, "--sasl-mechanism", mechanism)
		}
		bootstrap, before := s.o.cluster(name, up)
		s.before[name] = before
		fmt.Fprintf(&b, "  %s:\n    bootstrap: [%s]\n", name, strings.Join(bootstrap, ", "))
		proxies := fmt.Sprintf("{toxiproxy: %s, names: [%s]}", before.api, strings.Join(before.names, ", "))
		if p.adapter == target.Command { // the operator has a wall of his own
			proxies = fmt.Sprintf("{cut: %s, heal: %s}", s.o.tool("cut", "all"), s.o.tool("heal", "all"))
		}
		fmt.Fprintf(&b, "    as-source:\n      bootstrap: [%s]\n      proxies: %s\n", strings.Join(before.addresses, ", "), proxies)
		if p.secured {
			secret := filepath.Join(t.TempDir(), "password")
			require.NoError(t, os.WriteFile(secret, []byte(password), 0o600))
			fmt.Fprintf(&b, "    tls: {ca: %s}\n    sasl: {mechanism: %s, username: certifier, password-file: %s}\n", ca.CA, mechanism, secret)
		}
		b.WriteString("    nodes:\n")
		for _, verb := range []string{"stop", "kill", "start", "pause", "resume"} {
			fmt.Fprintf(&b, "      %s: %s\n", verb, s.o.tool(verb, "{{.Node}}"))
		}
	}
	fmt.Fprintf(&b, "mirroring:\n  adapter: %s\n  config: {%s: \"150\"}\n", p.adapter, mirrorrpc.ConfigRefresh)
	if p.adapter == target.Command {
		exe, err := os.Executable()
		require.NoError(t, err)
		mirrors := func(verb, rest string) string {
			return fmt.Sprintf("[env, WATERSHED_BROKER_CHILD=1, %s, mirrors, %s, '{{.Mirror}}', --bootstrap-server, '{{.Bootstrap}}', --command-config, '{{.CommandConfig}}'%s]", exe, verb, rest)
		}
		ofTopics := func(verb string) string {
			return fmt.Sprintf("'WATERSHED_BROKER_CHILD=1 exec %s mirrors %s \"$WATERSHED_MIRROR\" $(echo \"$WATERSHED_TOPICS\" | tr , \" \") --bootstrap-server \"$WATERSHED_BOOTSTRAP\" --command-config \"$WATERSHED_COMMANDCONFIG\"'", exe, verb)
		}
		fmt.Fprintf(&b, "  create: %s\n  start: %s\n  stop: %s\n  describe: %s\n  delete: %s\n",
			mirrors("create", ", --config-file, '{{.SourceConfig}}'"),
			ofTopics("start"), ofTopics("stop"),
			mirrors("describe", ", --output, json"), mirrors("delete", ""))
	}
	s.file = filepath.Join(t.TempDir(), "target.yaml")
	require.NoError(t, os.WriteFile(s.file, []byte(b.String()), 0o600))
	s.await()
	return s
}

// upLimit bounds how long a cluster may take to serve with all of its nodes.
const upLimit = 2 * time.Minute

// await waits until every cluster answers with all of its brokers.
func (s *site) await() {
	s.t.Helper()
	loaded := s.load()
	for _, c := range loaded.Clusters {
		deadline := time.Now().Add(upLimit)
		for {
			seen, err := fixtures.Look(s.t.Context(), c)
			if err == nil && len(seen.Brokers) == s.nodes {
				break
			}
			require.True(s.t, time.Now().Before(deadline), "cluster %s does not serve with %d brokers: %d, %v", c.Name, s.nodes, len(seen.Brokers), err)
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func (s *site) load() *target.Target {
	s.t.Helper()
	got, err := target.Load(s.file)
	require.NoError(s.t, err)
	return got
}

// certify certifies the site by the scenarios of those names.
func (s *site) certify(ctx context.Context, scenarios ...string) (*engine.Certificate, string, error) {
	s.t.Helper()
	folder := s.t.TempDir()
	cert, err := engine.Certify(ctx, engine.Certification{
		Target: s.load(), Seed: uint64(time.Now().UnixNano()), Folder: folder,
		Scenarios: func(sc engine.Scenario) bool { return slices.Contains(scenarios, sc.Name) },
	})
	return cert, folder, err
}

// admin is a client of one cluster, by what the target's file says.
func (s *site) admin(c *target.Cluster) *kgo.Client {
	s.t.Helper()
	opts := []kgo.Opt{kgo.SeedBrokers(c.Bootstrap...), kgo.MaxVersions(nil), kgo.MetadataMinAge(10 * time.Millisecond)}
	if m := c.Mechanism(); m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	cfg, err := c.TLSConfig()
	require.NoError(s.t, err)
	if cfg != nil {
		opts = append(opts, kgo.DialTLSConfig(cfg))
	}
	cl, err := kgo.NewClient(opts...)
	require.NoError(s.t, err)
	return cl
}

// nothingLeft says that no cluster has anything of ours.
func (s *site) nothingLeft() {
	s.t.Helper()
	s.await() // every node is back
	for _, before := range s.before {
		before.requireWhole(s.t)
	}
	for _, c := range s.load().Clusters {
		cl := s.admin(c)
		topics, err := kadm.NewClient(cl).ListTopics(s.t.Context())
		require.NoError(s.t, err)
		require.Empty(s.t, topics.Names(), "topics of cluster %s", c.Name)
		groups, err := kadm.NewClient(cl).ListGroups(s.t.Context())
		require.NoError(s.t, err)
		require.Empty(s.t, groups.Groups(), "groups of cluster %s", c.Name)
		mirrors, err := mirrorrpc.Client{R: cl}.List(s.t.Context())
		require.NoError(s.t, err)
		require.Empty(s.t, mirrors, "mirrors of cluster %s", c.Name)
		cl.Close()
	}
}

// failedOver is the story without any fault.
const failedOver = "active-passive/no-fault/none"

// outcomes are a result's, by requirement.
func outcomes(r *engine.Result) map[string]check.Outcome {
	m := map[string]check.Outcome{}
	for _, v := range r.Verdicts {
		m[v.Requirement] = v.Outcome
	}
	return m
}

// allHeld says that every requirement which the scenario exercises is held, but
// for those that are not applicable outside.
func allHeld(t testing.TB, cert *engine.Certificate, na ...string) {
	t.Helper()
	require.NoError(t, cert.Trouble)
	for _, r := range cert.Results {
		got := outcomes(r)
		require.NotEmpty(t, got)
		for id, outcome := range got {
			if outcome == check.NotApplicable {
				require.Contains(t, na, id)
				continue
			}
			require.Equal(t, check.Held, outcome, "%s in %s\n%s", id, r.Name, r.Story())
		}
	}
}

// notOutside are requirements that refbroker can't show from outside: it prints no
// file of its own to strangers, and serves consumers from leaders alone.
var notOutside = []string{"BAR-7", "LOG-4"}

// TestACertificate is the path of an operator: two brokers that run, with TLS, SASL
// by SCRAM on the one and by PLAIN on the other, and a failover that is held.
func TestACertificate(t *testing.T) {
	s := build(t, "kip1279-v42", target.KIP1279, true, 1)
	cert, folder, err := s.certify(t.Context(), failedOver)
	require.NoError(t, err)
	allHeld(t, cert, notOutside...)
	require.Len(t, cert.Results, 1)
	require.Greater(t, len(cert.Results[0].Verdicts), 20)
	s.nothingLeft()
	for _, name := range []string{"result.json", "junit.xml", "verdicts.txt"} {
		require.FileExists(t, filepath.Join(folder, name))
	}
	// What was saved is enough to judge again, and has no secret.
	again, err := engine.Rejudge(cert.Results[0].Folder)
	require.NoError(t, err)
	require.Equal(t, outcomes(cert.Results[0]), outcomes(again))
	require.NoError(t, filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		require.NotContains(t, string(text), "s3cret", path)
		return err
	}))
}

// named says whether -run chooses this test by its name: it takes long.
func named(t *testing.T) {
	if f := flag.Lookup("test.run"); f == nil || !strings.Contains(f.Value.String(), strings.SplitN(t.Name(), "/", 2)[0]) {
		t.Skipf("takes minutes: runs when named, -run ^%s$", t.Name())
	}
}

// TestHealthyClusters certifies clusters of both profiles by both adapters, of one
// node and of three: what is held inside is held outside.
func TestHealthyClusters(t *testing.T) {
	named(t)
	for _, profile := range target.Profiles {
		for _, adapter := range target.Adapters {
			for _, nodes := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s/%s/%d", profile, adapter, nodes), func(t *testing.T) {
					s := plan{profile: profile, adapter: adapter, secured: true, clusters: 2, nodes: nodes, flags: patient}.build(t)
					scenarios := []string{failedOver, "active-passive/restart/kill-9", "active-passive/restart/clean", "active-passive/source-killed/before-stop", "active-passive/source-cut/destination-restarted", cutOff}
					if nodes > 1 {
						scenarios = append(scenarios, followerLeads, heldOpen)
					}
					cert, _, err := s.certify(t.Context(), scenarios...)
					require.NoError(t, err)
					require.NoError(t, cert.Trouble)
					require.Len(t, cert.Results, len(scenarios))
					allHeld(t, cert, notOutside...)
					s.nothingLeft()
				})
			}
		}
	}
}

// TestHealthyStories certifies three clusters by the stories that need several of them or
// failovers, and the first one by itself.
func TestHealthyStories(t *testing.T) {
	named(t)
	for _, adapter := range target.Adapters {
		t.Run(adapter, func(t *testing.T) {
			s := plan{profile: "kip1279-v42", adapter: adapter, secured: true, clusters: 3, nodes: 1}.build(t)
			cert, _, err := s.certify(t.Context(), stories...)
			require.NoError(t, err)
			require.Len(t, cert.Results, len(stories))
			allHeld(t, cert, notOutside...)
			s.nothingLeft()
		})
	}
}

// stories are those of one node a cluster that are about more than one failover.
var stories = []string{
	"resumed/no-fault/none", "failback/no-fault/none", "fan-out/no-fault/none", "fan-out-at-once/no-fault/none", "fan-in/no-fault/none", "chain-3/no-fault/none",
	"single/no-fault/none", "single/restart/clean", "single/restart/kill-9", "single/cleaning/delete-records", "single/epochs/init-producer-id",
}
