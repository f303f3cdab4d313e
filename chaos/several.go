package chaos

import (
	"errors"
	"fmt"
	"strings"
)

// Several are faults that strike in one story, each at its point of its stop.
type Several struct {
	Links []Plan
	Nodes []NodePlan
}

// Count is how many there are.
func (s Several) Count() int { return len(s.Links) + len(s.Nodes) }

// Between stands between the plans of a line.
const Between = " + "

// String prints the plans as one line, which [ParseSeveral] reads back.
func (s Several) String() string {
	var all []string
	for _, p := range s.Links {
		all = append(all, p.String())
	}
	for _, p := range s.Nodes {
		all = append(all, p.String())
	}
	return strings.Join(all, Between)
}

// ParseSeveral reads one plan or several from a line. The error names what is wrong.
func ParseSeveral(line string) (Several, error) {
	var s Several
	for part := range strings.SplitSeq(line, Between) {
		// What strikes a node has a role where what strikes a link has its key.
		fields := strings.Fields(part)
		if len(fields) > 1 && !strings.Contains(fields[1], "=") {
			p, err := ParseNode(part)
			if err != nil {
				return Several{}, err
			}
			s.Nodes = append(s.Nodes, p)
			continue
		}
		p, err := Parse(part)
		if err != nil {
			return Several{}, err
		}
		s.Links = append(s.Links, p)
	}
	return s, s.Validate()
}

// Validate says what is wrong with the plans together.
func (s Several) Validate() error {
	if s.Count() == 0 {
		return errors.New("fault plans: there is none")
	}
	struck := map[string]bool{}
	claim := func(what string) error {
		if struck[what] {
			return fmt.Errorf("fault plans: two strike %s", what)
		}
		struck[what] = true
		return nil
	}
	for _, p := range s.Links {
		if err := errors.Join(p.Validate(), claim("link "+p.Link+When{Stop: p.Stop}.String())); err != nil {
			return err
		}
	}
	for _, p := range s.Nodes {
		if err := errors.Join(p.Validate(), claim(p.Target.String()+When{Stop: p.Stop}.String())); err != nil {
			return err
		}
	}
	return nil
}
