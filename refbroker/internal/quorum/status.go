package quorum

// Term is the quorum's present term as this node knows it.
func (n *Node) Term() uint64 { return n.raft.CurrentTerm() }

// Committed is the index of the last record that this node knows to be
// committed.
func (n *Node) Committed() uint64 { return n.raft.CommitIndex() }
