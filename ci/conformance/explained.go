package main

import "slices"

// explained is a difference that is known and meant: exactly these values, for
// this reason. docs/conformance.md tells them to people.
type explained struct {
	client, behaviour string // "" is any
	fact              string
	kafka, ours       string // as JSON
	reason            string
}

var allExplained = []explained{
	{"java", "configs", "defaults / min.insync.replicas", `"1 DYNAMIC_DEFAULT_BROKER_CONFIG INT"`, `"1 DEFAULT_CONFIG INT"`, elr},
	{"java", "configs", "synonyms / min.insync.replicas", `["min.insync.replicas=1 DYNAMIC_DEFAULT_BROKER_CONFIG","min.insync.replicas=1 DEFAULT_CONFIG"]`, `["min.insync.replicas=1 DEFAULT_CONFIG"]`, elr},
	{"java", "configs", "defaults / producer.id.expiration.ms", `(nothing)`, `"86400000 DEFAULT_CONFIG LONG"`, perTopic},
	{"java", "configs", "synonyms / producer.id.expiration.ms", `(nothing)`, `["producer.id.expiration.ms=86400000 DEFAULT_CONFIG"]`, perTopic},
	{"java", "configs", "documented", `true`, `false`, "refbroker has no texts on configs: they are Kafka's, and its own documentation has them"},
	{"java", "configs", "broker / log.retention.ms", `"null"`, `"absent"`, flags},
	{"java", "configs", "broker / log.segment.bytes", `"1073741824"`, `"absent"`, flags},
	{"java", "configs", "broker / min.insync.replicas", `"1"`, `"absent"`, flags},
	{"", "", "offsets-at-the-end / max-timestamp", `[6,1000000000100,0]`, `[-1,-1,-1]`, "Kafka answers with a record that DeleteRecords has taken away, as long as its segment is there; refbroker with none"},
}

const (
	elr      = "Kafka keeps eligible leader replicas (KIP-966) and sets min.insync.replicas for the whole cluster when it formats for that; refbroker does not keep them"
	perTopic = "a broker's config in Kafka; refbroker takes it for each topic, so that tests can let producers expire on one"
	flags    = "what refbroker is started with are flags; it tells those that have a name in Kafka, and topics' defaults with the topics"
)

// explain says whether a difference is a known one.
func explain(client, behaviour string, d difference) bool {
	return slices.ContainsFunc(allExplained, func(e explained) bool {
		return (e.client == "" || e.client == client) && (e.behaviour == "" || e.behaviour == behaviour) &&
			e.fact == d.fact && e.kafka == text(d.kafka) && e.ours == text(d.ours)
	})
}
