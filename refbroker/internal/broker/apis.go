package broker

import (
	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/mirror"
	"watershed.example/refbroker/internal/txn"
	"watershed.example/refbroker/internal/wire"
)

// apis are the rows of the table of what a node serves.
func (n *Node) apis(coordinator *txn.Coordinator, groups *group.Coordinator, mirrors *mirror.Manager) []wire.API {
	e := n.env
	apis := []wire.API{
		produce(&producer{env: e, verifier: coordinator}),
		fetch(e), listOffsets(e), metadata(e), findCoordinator(e),
		apiVersions(e, func() *wire.Table { return n.table }),
		saslHandshake(), saslAuthenticate(), offsetForLeaderEpoch(e), describeCluster(e), describeProducers(e),
	}
	apis = append(apis, topicAPIs(e, e.Topics.(*topics), &configs{
		node: e.NodeID, defaults: n.cfg.TopicDefaults, static: n.cfg.static(), quorum: e.Quorum,
	}, n.replicas)...)
	apis = append(apis, transactionAPIs(e, coordinator)...)
	apis = append(apis, groupAPIs(e, groups, coordinator)...)
	apis = append(apis, mirrorAPIs(e, mirrors)...)
	return nodesOnly(e, apis)
}
