package cli

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"watershed.example/refbroker/internal/broker"
	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
)

// minSessionTimeout is the least that raft's own elections leave room for.
const minSessionTimeout = 100 * time.Millisecond

// serveFlags are the flags of serve as they were given.
type serveFlags struct {
	dataDir, listen, advertise, clusterID, raftListen string
	profile, logLevel, logFormat, testHooks           string
	nodeID                                            int32
	transactionVersion                                int16
	readyFD, lifelineFD                               int
	listeners, voters, peers, topicDefaults, defects  []string
	sessionTimeout, replicaLag                        time.Duration
	retainEvery, compactEvery                         time.Duration
	http, configFile                                  string
	limits                                            limitFlags
	security                                          securityFlags

	level slog.Level
}

func (f *serveFlags) register(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&f.configFile, "config", "", "`FILE` with values of these flags, in YAML by their names; the command line goes before it")
	flags.StringVar(&f.dataDir, "data-dir", "./refbroker-data", "folder of all data; made when it is missing")
	flags.Int32Var(&f.nodeID, "node-id", 1, "id of this node in its cluster")
	flags.StringVar(&f.clusterID, "cluster-id", "", "id of the cluster, at the first start only (default random)")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:9092", "`HOST:PORT` that clients connect to")
	flags.StringVar(&f.advertise, "advertise", "", "`HOST:PORT` that clients are told (default where it listens)")
	flags.StringArrayVar(&f.listeners, "listener", nil, "one more listener, `NAME=HOST:PORT[/ADVHOST:ADVPORT]` (repeatable)")
	flags.StringVar(&f.raftListen, "raft-listen", "127.0.0.1:0", "`HOST:PORT` for the other nodes' metadata quorum")
	flags.StringArrayVar(&f.voters, "voter", nil, "a member of the metadata quorum, `ID=HOST:PORT` (repeatable; default this node alone)")
	flags.StringArrayVar(&f.peers, "peer", nil, "where this node reaches another one, `ID=HOST:PORT`, for replication and transactions (repeatable; default that node's listener \"replication\", or else \"client\")")
	flags.DurationVar(&f.sessionTimeout, "session-timeout", quorum.DefaultSessionTimeout, "how long a node may be silent before it is fenced and its leaderships move")
	flags.DurationVar(&f.replicaLag, "replica-lag-time-max", replica.DefaultLag, "how long a replica may lag before it leaves the in-sync replicas")
	flags.DurationVar(&f.retainEvery, "retention-check-interval", replica.DefaultRetentionEvery, "how often retention is applied to logs")
	flags.DurationVar(&f.compactEvery, "compaction-interval", replica.DefaultCompactEvery, "how often logs are looked at that may be compacted")
	flags.StringVar(&f.profile, "profile", string(quorum.V42), "text of KIP-1279 that the cluster follows, for good: kip1279-v42 (a stop cuts to the last stable offset) or kip1279-latest (it aborts what is open, and cuts nothing)")
	flags.Int16Var(&f.transactionVersion, "transaction-version", 2, "transaction.version: 1, or 2 for KIP-890")
	flags.StringArrayVar(&f.topicDefaults, "topic-defaults", nil, "config for topics that don't set it, `KEY=VALUE` (repeatable)")
	f.security.register(flags)
	f.limits.register(flags)
	flags.StringVar(&f.http, "http", "", "`HOST:PORT` of /metrics (Prometheus), /healthz and /readyz (default none)")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&f.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&f.testHooks, "test-hooks", "", "unix `SOCKET` by which tests hold and kill this broker (see: refbroker hooks)")
	flags.StringArrayVar(&f.defects, "defect", nil, "be wrong in the way `NAME`, which tests must see (repeatable; needs --test-hooks):\n"+defectNames())
	flags.IntVar(&f.readyFD, "ready-fd", -1, "inherited descriptor `N` that gets one line of JSON once the node serves, and before it {\"quorum\": \"HOST:PORT\"} where there are other voters")
	flags.IntVar(&f.lifelineFD, "lifeline-fd", -1, "inherited pipe `N`: the node stops cleanly when its other end is gone")
}

// defectNames are the defects, in lines of a width for a terminal.
func defectNames() string {
	lines := []string{""}
	for i, d := range defect.All() {
		name := string(d)
		if i < len(defect.All())-1 {
			name += ", "
		}
		if last := lines[len(lines)-1]; len(last)+len(name) <= 80 {
			lines[len(lines)-1] = last + name
		} else {
			lines = append(lines, name)
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), " \n", "\n")
}

// config checks the flags and makes a node's configuration of them.
func (f *serveFlags) config() (broker.Config, error) {
	cfg := broker.Config{
		DataDir: f.dataDir, NodeID: f.nodeID, ClusterID: f.clusterID, RaftListen: f.raftListen,
		TransactionVersion: f.transactionVersion, SessionTimeout: f.sessionTimeout, ReplicaLag: f.replicaLag,
		RetainEvery: f.retainEvery, CompactEvery: f.compactEvery,
	}
	checks := []func(*broker.Config) error{f.checkPlain, f.setListeners, f.security.set, f.setVoters, f.setPeers, f.setTopicDefaults, f.setDefects, f.limits.set}
	for _, check := range checks {
		if err := check(&cfg); err != nil {
			return cfg, err
		}
	}
	return cfg, nil
}

func (f *serveFlags) checkPlain(cfg *broker.Config) error {
	if err := f.checkIdentity(); err != nil {
		return err
	}
	var err error
	if cfg.Profile, err = quorum.ParseProfile(f.profile); err != nil {
		return fmt.Errorf("--%w", err)
	}
	if f.http != "" {
		if err := checkAddress("http", f.http, 0); err != nil {
			return err
		}
	}
	switch {
	case f.transactionVersion != 1 && f.transactionVersion != 2:
		return fmt.Errorf("--transaction-version %d: want 1 or 2", f.transactionVersion)
	case f.sessionTimeout < minSessionTimeout:
		return fmt.Errorf("--session-timeout %s: want at least %s", f.sessionTimeout, minSessionTimeout)
	case f.replicaLag <= 0:
		return fmt.Errorf("--replica-lag-time-max %s: want more than 0", f.replicaLag)
	case f.retainEvery <= 0:
		return fmt.Errorf("--retention-check-interval %s: want more than 0", f.retainEvery)
	case f.compactEvery <= 0:
		return fmt.Errorf("--compaction-interval %s: want more than 0", f.compactEvery)
	case f.logFormat != "text" && f.logFormat != "json":
		return fmt.Errorf("--log-format %q: want text or json", f.logFormat)
	case !slices.Contains([]string{"debug", "info", "warn", "error"}, f.logLevel):
		return fmt.Errorf("--log-level %q: want debug, info, warn or error", f.logLevel)
	}
	return f.level.UnmarshalText([]byte(f.logLevel))
}

// checkIdentity checks whose data folder is meant.
func (f *serveFlags) checkIdentity() error {
	switch {
	case f.dataDir == "":
		return fmt.Errorf("--data-dir is empty")
	case f.nodeID < 0:
		return fmt.Errorf("--node-id %d: want 0 or more", f.nodeID)
	case strings.ContainsAny(f.clusterID, "\r\n= "):
		return fmt.Errorf("--cluster-id %q: want letters and digits", f.clusterID)
	}
	return nil
}

func (f *serveFlags) setListeners(cfg *broker.Config) error {
	add := func(flag, name, listen, advertise string) error {
		if err := checkAddress(flag, listen, 0); err != nil {
			return err
		}
		if advertise == "" {
			if host, _, _ := net.SplitHostPort(listen); host == "" || net.ParseIP(host).IsUnspecified() {
				return fmt.Errorf("--%s %s: clients can't be told this address: give one to advertise", flag, listen)
			}
		} else if err := checkAddress(flag, advertise, 1); err != nil {
			return err
		}
		cfg.Listeners = append(cfg.Listeners, broker.Listener{Name: name, Listen: listen, Advertise: advertise})
		return nil
	}
	if f.advertise != "" {
		if err := checkAddress("advertise", f.advertise, 1); err != nil {
			return err
		}
	}
	if err := add("listen", "client", f.listen, f.advertise); err != nil {
		return err
	}
	seen := map[string]bool{"client": true}
	for _, text := range f.listeners {
		name, rest, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return fmt.Errorf("--listener %q: want NAME=HOST:PORT[/ADVHOST:ADVPORT]", text)
		}
		if seen[name] {
			return fmt.Errorf("--listener %q: there is a listener %q already", text, name)
		}
		seen[name] = true
		listen, advertise, _ := strings.Cut(rest, "/")
		if err := add("listener", name, listen, advertise); err != nil {
			return err
		}
	}
	return nil
}

func (f *serveFlags) setVoters(cfg *broker.Config) (err error) {
	if err := checkAddress("raft-listen", f.raftListen, 0); err != nil {
		return err
	}
	if cfg.Voters, err = addresses("voter", f.voters); err != nil {
		return err
	}
	if _, ok := cfg.Voters[f.nodeID]; len(cfg.Voters) > 0 && !ok {
		return fmt.Errorf("--voter: this node (%d) is not among the voters", f.nodeID)
	}
	if len(cfg.Voters) > 1 {
		// Who hears by --ready-fd which port it is leads the others there.
		if _, port, _ := net.SplitHostPort(f.raftListen); port == "0" && f.readyFD < 0 {
			return fmt.Errorf("--raft-listen %s: the other voters need a fixed port", f.raftListen)
		}
	}
	return nil
}

func (f *serveFlags) setPeers(cfg *broker.Config) (err error) {
	if cfg.Peers, err = addresses("peer", f.peers); err != nil {
		return err
	}
	for id := range cfg.Peers {
		if _, ok := cfg.Voters[id]; !ok {
			return fmt.Errorf("--peer %d: no --voter of that id", id)
		}
	}
	return nil
}

// addresses reads a flag of the form ID=HOST:PORT.
func addresses(flag string, texts []string) (map[int32]string, error) {
	all := map[int32]string{}
	for _, text := range texts {
		id, addr, _ := strings.Cut(text, "=")
		n, err := strconv.ParseInt(id, 10, 32)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("--%s %q: want ID=HOST:PORT", flag, text)
		}
		if err := checkAddress(flag, addr, 1); err != nil {
			return nil, err
		}
		if _, ok := all[int32(n)]; ok {
			return nil, fmt.Errorf("--%s %q: %s %d is given twice", flag, text, flag, n)
		}
		all[int32(n)] = addr
	}
	return all, nil
}

func (f *serveFlags) setTopicDefaults(cfg *broker.Config) error {
	cfg.TopicDefaults = map[string]string{}
	for _, text := range f.topicDefaults {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return fmt.Errorf("--topic-defaults %q: want KEY=VALUE", text)
		}
		cfg.TopicDefaults[key] = value
	}
	if err := broker.CheckTopicConfigs(cfg.TopicDefaults); err != nil {
		return fmt.Errorf("--topic-defaults: %w", err)
	}
	return nil
}

func (f *serveFlags) setDefects(cfg *broker.Config) error {
	if len(f.defects) > 0 && f.testHooks == "" {
		return fmt.Errorf("--defect needs --test-hooks")
	}
	set, err := defect.Parse(f.defects)
	if err != nil {
		return fmt.Errorf("--defect: %w", err)
	}
	cfg.Defects = set
	return nil
}

func parsePort(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err
}
