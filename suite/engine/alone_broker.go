package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"watershed.example/fixtures"
	"watershed.example/fixtures/kafka"
	"watershed.example/suite/check"
	"watershed.example/suite/history"
	"watershed.example/topologies"
)

// Broker is what the cluster of scenarios without mirrors is, where it is not the
// reference broker: one of them.
type Broker struct {
	Kafka    *fixtures.Apache
	Kfake    *fixtures.Kfake
	Redpanda *fixtures.Redpanda
}

// Names of brokers that -broker takes.
const (
	refbrokerName = "refbroker"
	kafkaName     = "kafka"
	kfakeName     = "kfake"
	redpandaName  = "redpanda"
)

// brokerNames lists them.
var brokerNames = []string{refbrokerName, kafkaName, kfakeName, redpandaName}

// brokerOf is what -broker, -jars and -image say; nil for the reference broker.
func brokerOf(name, jars, image string) (*Broker, error) {
	switch name {
	case refbrokerName, "":
		return nil, nil
	case kfakeName:
		return &Broker{Kfake: &fixtures.Kfake{}}, nil
	case redpandaName:
		return &Broker{Redpanda: &fixtures.Redpanda{Image: image}}, nil
	case kafkaName:
		if image != "" {
			return &Broker{Kafka: &fixtures.Apache{Image: image}}, nil
		}
		if jars == "" {
			var err error
			if jars, err = kafka.Jars(); err != nil {
				return nil, err
			}
		}
		return &Broker{Kafka: &fixtures.Apache{Jars: jars}}, nil
	}
	return nil, errors.New("want one of " + strings.Join(brokerNames, ", "))
}

// String says what it is.
func (b *Broker) String() string {
	switch {
	case b == nil:
		return "the reference broker"
	case b.Redpanda != nil:
		return "Redpanda, image " + b.Redpanda.Image
	case b.Kafka != nil && b.Kafka.Image != "":
		return "Apache Kafka, image " + b.Kafka.Image
	case b.Kafka != nil:
		release, err := kafka.Open(b.Kafka.Jars, b.Kafka.Version)
		if err != nil {
			return "Apache Kafka"
		}
		return "Apache Kafka " + release.Version
	}
	return "kfake"
}

// Check says what keeps it from being started, in one line. An image may have to be
// pulled for it, which takes minutes.
func (b *Broker) Check(ctx context.Context) error {
	switch {
	case b == nil || b.Kfake != nil:
		return nil
	case b.Kafka != nil:
		_, err := b.Kafka.Check(ctx)
		return err
	case b.Redpanda != nil:
		return b.Redpanda.Check(ctx)
	}
	return errors.New("a broker is to be certified, and none is named")
}

// take makes the broker that of every cluster.
func (b *Broker) take(spec *fixtures.Spec) {
	switch {
	case b.Kafka != nil:
		spec.Kafka = of(*b.Kafka, spec.Topology)
	case b.Redpanda != nil:
		spec.Redpanda = of(*b.Redpanda, spec.Topology)
	default:
		spec.Kfake = of(*b.Kfake, spec.Topology)
	}
	// The profile is that of mirrors.
	spec.Profile = ""
}

// of makes every cluster one.
func of[B any](b B, t topologies.Topology) map[string]B {
	all := map[string]B{}
	for _, c := range t.Clusters {
		all[c.Name] = b
	}
	return all
}

// cannot says what its cluster can't do in a scenario.
func (b *Broker) cannot(sc Scenario) func(fixtures.Ability) string {
	nodes := 0
	for _, c := range sc.Topology.Clusters {
		nodes = max(nodes, c.Nodes)
	}
	return func(a fixtures.Ability) string {
		switch {
		case b.Kafka != nil:
			return b.Kafka.Cannot(a, nodes)
		case b.Redpanda != nil:
			return b.Redpanda.Cannot(a, nodes)
		}
		return b.Kfake.Cannot(a, nodes)
	}
}

// asks is what a disturbance asks of who has it befall a cluster.
var asks = map[history.DisturbanceName][]fixtures.Ability{
	history.CleanRestart:    {fixtures.Restarting},
	history.KillRestart:     {fixtures.Killing},
	history.LeaderChange:    {fixtures.Replicating},
	history.Reassignment:    {fixtures.Replicating},
	history.Truncation:      {fixtures.Replicating, fixtures.Isolating},
	history.CoordinatorMove: {fixtures.Replicating, fixtures.Killing},
	history.Retention:       {fixtures.Cleaning},
	history.Compaction:      {fixtures.Cleaning},
}

// able returns a scenario without mirrors with what its target can do of it. na
// says why nothing of it is left that it is about: what it would exercise is not
// applicable.
func (s Scenario) able(cannot func(fixtures.Ability) string) (able Scenario, na string) {
	if !isAlone(s.Topology) {
		return s, "the target is a single cluster: it has no mirrors"
	}
	var left []string
	var can []history.DisturbanceName
	for _, d := range s.Disturb {
		why := ""
		for _, a := range asks[d] {
			why = cmp.Or(why, cannot(a))
		}
		switch {
		case why == "":
			can = append(can, d)
		case !slices.Contains(left, string(d)+": "+why):
			left = append(left, string(d)+": "+why)
		}
	}
	if len(s.Disturb) > 0 && len(can) == 0 {
		return s, left[0]
	}
	s.Disturb, s.left = can, left
	return s, ""
}

// notApplicable is the result of a scenario whose target can't play it.
func notApplicable(sc Scenario, o Options, why string) *Result {
	res := &Result{Scenario: sc, Name: o.Name, Seed: o.Seed, Reproduce: o.Reproduce, Started: time.Now()}
	for _, id := range sc.Requirements() {
		res.Verdicts = append(res.Verdicts, check.Verdict{Requirement: id, Outcome: check.NotApplicable, Reason: fmt.Sprintf("%s: %s", sc.Name, why)})
	}
	return res
}

// Certifying are the scenarios that certify a single cluster: all of level L0.
func Certifying() []Scenario { return clusterAlone() }

// Weight is what a scenario asks of the machine: a JVM takes all of it, as Redpanda does.
func (b *Broker) Weight() int64 {
	if b.Kafka != nil || b.Redpanda != nil {
		return Capacity()
	}
	return 1
}
