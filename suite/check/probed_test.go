package check

// unprobed are the ids of what every failover exercises without probes.
func unprobed() []string {
	var ids []string
	for _, c := range checks {
		ids = append(ids, c.id)
	}
	return append(ids, "AP-1")
}

// overAll says whether the requirement is judged over all episodes together: what
// one stop's check finds, such a check may show too.
func overAll(id string) bool {
	for _, c := range spans {
		if c.id == id {
			return true
		}
	}
	return false
}
