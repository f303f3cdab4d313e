package metrics

import (
	"watershed.example/refbroker/internal/quorum"
)

func clusterMetrics() []metric {
	return []metric{
		gauge("refbroker_active_controller", "1 on the node that leads the metadata quorum, else 0."),
		gauge("refbroker_raft_leader", "Id of the node that leads the metadata quorum as this node knows it, -1 for none."),
		gauge("refbroker_raft_term", "Term of the metadata quorum."),
		gauge("refbroker_raft_committed_index", "Index of the last record of the metadata quorum that this node knows to be committed."),
		gauge("refbroker_metadata_index", "Index of the metadata that is in force on this node."),
		gauge("refbroker_fenced", "1 while the controller does not let this node lead, or does not know it."),
		gauge("refbroker_brokers", "Registered nodes, fenced or active.", "state"),
		gauge("refbroker_topics", "Topics of the cluster."),
		gauge("refbroker_offline_partitions", "Partitions of the cluster without a leader; told by the active controller, 0 elsewhere."),
		gauge("refbroker_preferred_replica_imbalance", "Partitions of the cluster that another than their preferred replica leads; told by the active controller, 0 elsewhere."),
		counter("refbroker_isr_shrinks_total", "Replicas that left the in-sync replicas of partitions that this node leads."),
		counter("refbroker_isr_expands_total", "Replicas that joined the in-sync replicas of partitions that this node leads."),
	}
}

func (p Parts) cluster(s *sink) {
	img, leader := p.Quorum.Image(), p.Quorum.Leader()
	active := leader == p.Node
	s.set("refbroker_active_controller", boolean(active))
	s.set("refbroker_raft_leader", float64(leader))
	s.set("refbroker_raft_term", float64(p.Quorum.Term()))
	s.set("refbroker_raft_committed_index", float64(p.Quorum.Committed()))
	s.set("refbroker_metadata_index", float64(img.Index))
	own := img.Brokers[p.Node]
	s.set("refbroker_fenced", boolean(own == nil || own.Fenced))
	fenced := 0
	for _, b := range img.Brokers {
		if b.Fenced {
			fenced++
		}
	}
	s.set("refbroker_brokers", float64(fenced), "fenced")
	s.set("refbroker_brokers", float64(len(img.Brokers)-fenced), "active")
	s.set("refbroker_topics", float64(len(img.Topics)))
	offline, moved := 0, 0
	if active {
		offline, moved = leaderships(img)
	}
	s.set("refbroker_offline_partitions", float64(offline))
	s.set("refbroker_preferred_replica_imbalance", float64(moved))
	if p.Watch != nil {
		shrinks, expands := p.Watch.isr()
		s.set("refbroker_isr_shrinks_total", float64(shrinks))
		s.set("refbroker_isr_expands_total", float64(expands))
	}
}

// leaderships counts the partitions that nobody leads, and those that another
// than their preferred replica leads.
func leaderships(img *quorum.Image) (offline, moved int) {
	for _, t := range img.Topics {
		for _, part := range t.Partitions {
			switch {
			case part.Leader < 0:
				offline++
			case len(part.Replicas) > 0 && part.Leader != part.Replicas[0]:
				moved++
			}
		}
	}
	return offline, moved
}
