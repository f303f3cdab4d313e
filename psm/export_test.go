package psm

// Remembered is a batch that retries are recognised by.
type Remembered struct {
	First, Last         int32
	BaseOffset, LastOff int64
	Timestamp           int64
}

// RememberedOf gives the remembered batches of a producer, oldest first.
func (s *State) RememberedOf(pid int64) []Remembered {
	i := s.table.find(pid)
	if i == none {
		return nil
	}
	p := &s.table.at(i).producer
	var out []Remembered
	at := p.oldest()
	for range p.n {
		first := SubSequence(p.lastSeq[at], p.delta[at])
		if p.lastSeq[at] < 0 { // a coordinator's data has none
			first = -1
		}
		out = append(out, Remembered{
			First: first, Last: p.lastSeq[at],
			BaseOffset: p.at[at].last - int64(p.delta[at]), LastOff: p.at[at].last, Timestamp: p.at[at].ts,
		})
		at = (at + 1) % remembered
	}
	return out
}

// Verifying describes a verification in progress: epoch, lowest sequence,
// whether the transaction is of version 2.
func (s *State) Verifying(pid int64) (epoch int16, lowest int32, v2, ok bool) {
	v, ok := s.verifying[pid]
	return v.epoch, v.lowest, v.version >= 2, ok
}

// Slots is how many slots the table of producers has handed out.
func (s *State) Slots() int { return s.table.used }
