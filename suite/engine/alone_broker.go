package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"watershed.example/fixtures"
	"watershed.example/fixtures/kafka"
	"watershed.example/suite/check"
	"watershed.example/suite/history"
)

// Broker is what the cluster of scenarios without mirrors is, where it is not the
// reference broker: one of them.
type Broker struct {
	Kafka *fixtures.Apache
	Kfake *fixtures.Kfake
}

// Names of brokers that -broker takes.
const (
	refbrokerName = "refbroker"
	kafkaName     = "kafka"
	kfakeName     = "kfake"
)

// brokerOf is what -broker and -jars say; nil for the reference broker.
func brokerOf(name, jars string) (*Broker, error) {
	switch name {
	case refbrokerName, "":
		return nil, nil
	case kfakeName:
		return &Broker{Kfake: &fixtures.Kfake{}}, nil
	case kafkaName:
		if jars == "" {
			var err error
			if jars, err = kafka.Jars(); err != nil {
				return nil, err
			}
		}
		return &Broker{Kafka: &fixtures.Apache{Jars: jars}}, nil
	}
	return nil, fmt.Errorf("want %s, %s or %s", refbrokerName, kafkaName, kfakeName)
}

// String says what it is.
func (b *Broker) String() string {
	switch {
	case b == nil:
		return "the reference broker"
	case b.Kafka != nil:
		release, err := b.Kafka.Check()
		if err != nil {
			return "Apache Kafka"
		}
		return "Apache Kafka " + release.Version
	}
	return "kfake"
}

// Check says what keeps it from being started, in one line.
func (b *Broker) Check() error {
	switch {
	case b == nil || b.Kfake != nil:
		return nil
	case b.Kafka != nil:
		_, err := b.Kafka.Check()
		return err
	}
	return errors.New("a broker is to be certified, and none is named")
}

// take makes the broker that of every cluster.
func (b *Broker) take(spec *fixtures.Spec) {
	for _, c := range spec.Topology.Clusters {
		if b.Kafka != nil {
			if spec.Kafka == nil {
				spec.Kafka = map[string]fixtures.Apache{}
			}
			spec.Kafka[c.Name] = *b.Kafka
		} else {
			if spec.Kfake == nil {
				spec.Kfake = map[string]fixtures.Kfake{}
			}
			spec.Kfake[c.Name] = *b.Kfake
		}
	}
	// The profile is that of mirrors.
	spec.Profile = ""
}

// cannot says what its cluster can't do in a scenario.
func (b *Broker) cannot(sc Scenario) func(fixtures.Ability) string {
	nodes := 0
	for _, c := range sc.Topology.Clusters {
		nodes = max(nodes, c.Nodes)
	}
	return func(a fixtures.Ability) string {
		if b.Kafka != nil {
			return b.Kafka.Cannot(a, nodes)
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

// Weight is what a scenario asks of the machine: a JVM takes all of it.
func (b *Broker) Weight() int64 {
	if b.Kafka != nil {
		return Capacity()
	}
	return 1
}
