package certify_test

import (
	"cmp"
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

// site is two clusters that run, and the target's file that describes them.
type site struct {
	t       testing.TB
	o       *operator
	profile string
	// secured clusters are reached by TLS and SASL.
	secured bool
	adapter string
	file    string
	before  map[string]proxied // by cluster
	nodes   int
}

const password = "s3cret=\"with quotes\" and \\"

// build starts both clusters and writes the file.
func build(t testing.TB, profile, adapter string, secured bool, nodes int, defects ...string) *site {
	t.Helper()
	return buildWith(t, profile, adapter, secured, nodes, nil, defects...)
}

// buildWith is build with more flags of every broker.
func buildWith(t testing.TB, profile, adapter string, secured bool, nodes int, flags []string, defects ...string) *site {
	t.Helper()
	s := &site{t: t, o: newOperator(t), profile: profile, adapter: adapter, secured: secured, before: map[string]proxied{}, nodes: nodes}
	var ca *authtest.Authority
	if secured {
		ca = authtest.NewAuthority(t)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nproduct: refbroker\nprofile: %s\nprefix: ws-test-\nclusters:\n", profile)
	for i, name := range []string{"east", "west"} {
		up := setup{nodes: nodes, profile: profile, defects: defects, flags: flags}
		mechanism := []string{"SCRAM-SHA-512", "PLAIN"}[i]
		if secured {
			cert, key := ca.Certificate(name, "127.0.0.1")
			users := filepath.Join(t.TempDir(), "users")
			require.NoError(t, os.WriteFile(users, []byte("certifier="+password+"\n"), 0o600))
			up.flags = append(slices.Clone(flags), "--security", "client=SASL_SSL", "--security", "mirror=SASL_SSL", "--tls-cert", cert, "--tls-key", key, "--sasl-users", users, "--sasl-mechanism", mechanism)
		}
		bootstrap, before := s.o.cluster(name, up)
		s.before[name] = before
		fmt.Fprintf(&b, "  %s:\n    bootstrap: [%s]\n", name, strings.Join(bootstrap, ", "))
		proxies := fmt.Sprintf("{toxiproxy: %s, names: [%s]}", before.api, strings.Join(before.names, ", "))
		if adapter == target.Command { // the operator has a wall of his own
			proxies = fmt.Sprintf("{cut: %s, heal: %s}", s.o.tool("cut", "all"), s.o.tool("heal", "all"))
		}
		fmt.Fprintf(&b, "    as-source:\n      bootstrap: [%s]\n      proxies: %s\n", strings.Join(before.addresses, ", "), proxies)
		if secured {
			secret := filepath.Join(t.TempDir(), "password")
			require.NoError(t, os.WriteFile(secret, []byte(password), 0o600))
			fmt.Fprintf(&b, "    tls: {ca: %s}\n    sasl: {mechanism: %s, username: certifier, password-file: %s}\n", ca.CA, mechanism, secret)
		}
		b.WriteString("    nodes:\n")
		for _, verb := range []string{"stop", "kill", "start", "pause", "resume"} {
			fmt.Fprintf(&b, "      %s: %s\n", verb, s.o.tool(verb, "{{.Node}}"))
		}
	}
	fmt.Fprintf(&b, "mirroring:\n  adapter: %s\n  config: {%s: \"150\"}\n", adapter, mirrorrpc.ConfigRefresh)
	if adapter == target.Command {
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
					s := buildWith(t, profile, adapter, true, nodes, patient)
					scenarios := []string{failedOver, "active-passive/restart/kill-9", "active-passive/restart/clean", "active-passive/source-killed/before-stop", cutOff}
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

// unseen are defects that nobody sees from outside, with the reason.
var unseen = map[string]string{
	"barrier-not-named": "it is one of the dump tool, which needs files (BAR-7)",
}

// otherwise are defects that show another face outside, where a log is what a
// broker sends: what must be violated, and what may be.
var otherwise = map[string][2]string{
	// The record that it delivers is no control record, so there is no barrier.
	"control-record-delivered": {"BAR-1", "AP-1 LOG-1 TXN-3 GRP-1"},
	// Nobody sends what lies below the log start.
	"delete-records-while-mirroring": {"RO-3", "AP-1 LOG-1 BAR-6 TXN-2 TXN-4 PSM-4"},
}

// followerLeads is a story on three nodes: a follower that comes back from a kill leads.
const followerLeads = "active-passive-on-3/restart/follower-leads"

// elsewhere are defects that another scenario shows outside, where no step of a stop can
// be held: which, what must be violated, and what may be.
var elsewhere = map[string][3]string{
	// The replica that comes to lead has read data and barrier in one go.
	"latest-expired-entries-put-back": {followerLeads, "PSM-3", "AP-1 PSM-1 PSM-2 PSM-4 PSM-7 IDEM-1 IDEM-2 IDEM-4"},
	// Clients write all the while, and STOPPING lasts.
	"write-before-barrier": {heldOpen, "RO-5", "AP-1 RO-1 BAR-3"},
	// The way to the source is cut for the whole of the stop.
	"fetched-after-healing": {cutOff, "LINK-3 BAR-3", "AP-1 LOG-3 TXN-2"},
}

// outside is a defect's case as it is certified.
func outside(t testing.TB, d engine.DefectCase) engine.DefectCase {
	t.Helper()
	if o, ok := otherwise[d.Name]; ok {
		d.Primary, d.Secondary = strings.Fields(o[0]), strings.Fields(o[1])
	}
	o, ok := elsewhere[d.Name]
	if !ok {
		return d
	}
	for _, sc := range append(engine.Scenarios(engine.Default), engine.Outside()...) {
		if sc.Name == o[0] {
			sc.Profile = d.Scenario.Profile
			d.Scenario, d.Primary, d.Secondary = sc, strings.Fields(o[1]), strings.Fields(o[2])
			return d
		}
	}
	require.Failf(t, "no such scenario", "%s is to show defect %s, and is none of the default run's", o[0], d.Name)
	return d
}

// TestWhatIsCertifiedIsThere holds the names by which defects are chosen: one that names
// nothing would leave its defect untested without a word.
func TestWhatIsCertifiedIsThere(t *testing.T) {
	there := map[string]bool{}
	for _, d := range engine.DefectCases() {
		there[d.Name] = true
		outside(t, d)
	}
	for name := range unseen {
		require.True(t, there[name], "defect %s", name)
	}
	for name := range otherwise {
		require.True(t, there[name], "defect %s", name)
	}
	for name := range elsewhere {
		require.True(t, there[name], "defect %s", name)
	}
	scenarios := map[string]bool{}
	for _, sc := range append(engine.Scenarios(engine.Default), engine.Outside()...) {
		scenarios[sc.Name] = true
	}
	for _, name := range showing {
		require.True(t, scenarios[name], "scenario %s", name)
	}
}

// showing are the scenarios whose defects are certified.
var showing = []string{
	failedOver, "active-passive/source-killed/before-stop", "active-passive/restart/kill-9", "active-passive/restart/clean", followerLeads, heldOpen, cutOff,
}

// TestDefectsOutside certifies clusters with each defect that a story on clusters which
// nobody can hold shows: the same requirements are violated as on clusters of a
// launcher's.
func TestDefectsOutside(t *testing.T) {
	named(t)
	for _, d := range engine.DefectCases() {
		d = outside(t, d)
		nodes := d.Scenario.Topology.Clusters[0].Nodes
		profile := cmp.Or(string(d.Scenario.Profile), "kip1279-v42")
		if !slices.Contains(showing, d.Scenario.Name) || slices.ContainsFunc(d.Names(), func(name string) bool { return strings.Contains(name, "@") }) {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			if why, ok := unseen[d.Name]; ok {
				t.Skip(why)
			}
			var flags []string
			tries := 1
			if d.Scenario.Name == heldOpen {
				// What the leader did alone goes with it where the follower that stood leads next, which
				// is the cluster's choice.
				flags, tries = patient, 4
			}
			s := buildWith(t, profile, target.KIP1279, false, nodes, flags, d.Names()...)
			var seen error
			for range tries {
				cert, _, err := s.certify(t.Context(), d.Scenario.Name)
				require.NoError(t, err)
				require.Len(t, cert.Results, 1)
				if seen = d.Seen(cert.Results[0]); seen == nil {
					break
				}
			}
			require.NoError(t, seen)
			s.nothingLeft()
		})
	}
}
