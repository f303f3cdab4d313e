package check

import (
	"fmt"
	"strings"

	"watershed.example/suite/history"
)

// probes lists what was asked of a kind, with the number of its event.
func (t *trial) probes(what history.ProbeName) []*history.Event {
	var all []*history.Event
	for i := range t.ev.Events {
		if e := &t.ev.Events[i]; e.Probe != nil && e.Probe.What == what {
			all = append(all, e)
		}
	}
	return all
}

// about makes a finding about a probe.
func (t *trial) about(e *history.Event, a Anomaly, expected, got string) Finding {
	p := e.Probe
	return Finding{
		Anomaly: a, Cluster: p.Cluster, Topic: p.Topic, Partition: max(p.Partition, 0), Offset: -1, Episode: e.Episode, Mirror: p.Mirror,
		Expected: expected, Got: fmt.Sprintf("%s (event %d)", got, e.Seq), Evidence: t.ev.where(HistoryFile),
	}
}

// turnedDown judges a mirror that had to be turned down: refused with words, or
// FAILED with a cause that says the word. It says whether the probe counts: a
// refusal that asks to try again turns nothing down.
func (t *trial) turnedDown(r *ruling, e *history.Event, expected, word string) bool {
	p := e.Probe
	switch {
	case p.Result.Outcome == history.Refused && retriable[p.Result.Code]:
		return false
	case p.Result.Outcome == history.Refused && (p.Result.Code <= 0 || p.Result.Message == ""):
		r.findings = append(r.findings, t.about(e, UnclearRefusal, expected+", with an error code and words that say why", answer(*p.Result)))
	case p.Result.Outcome == history.Refused:
		return true
	case p.Result.Outcome == history.Unknown:
		return false
	case p.After != "FAILED":
		r.findings = append(r.findings, t.about(e, AcceptedSource, expected, fmt.Sprintf("accepted, and the topic is %s after that", p.After)))
	case !t.failedWithCause(p, word):
		r.findings = append(r.findings, t.about(e, UnclearRefusal, expected+", with a cause that names the "+word, "FAILED without one"))
	default:
		return true
	}
	return true
}

// ofMirrors are the words for a mirror itself, which names no other cluster.
var ofMirrors = strings.NewReplacer("cluster mirror", "", "cluster_mirror", "")

// failedWithCause says whether describe showed the probe's topic FAILED, with
// a cause that says the word.
func (t *trial) failedWithCause(p *history.Probe, word string) bool {
	for i := range t.ev.Events {
		m := t.ev.Events[i].Mirror
		if m != nil && m.Cluster == p.Cluster && m.Mirror == p.Mirror && m.Topic == p.Topic && m.State == "FAILED" &&
			strings.Contains(ofMirrors.Replace(strings.ToLower(m.Error)), word) {
			return true
		}
	}
	return false
}

// link4 holds that a source whose cluster id is not the expected one is
// refused, and that nothing of it is appended.
func (t *trial) link4(r *ruling) {
	refused, failed, sampled := 0, 0, 0
	for _, e := range t.probes(history.ProbeOtherCluster) {
		p := e.Probe
		if t.turnedDown(r, e, fmt.Sprintf("mirror %s refused: another cluster answers than the one that it expects", p.Mirror), "cluster") {
			refused += b2i(p.Result.Outcome == history.Refused)
			failed += b2i(p.Result.Outcome == history.OK)
		}
		for i := range t.ev.Events {
			o := t.ev.Events[i].Offsets
			if o == nil || o.Cluster != p.Cluster || o.Topic != p.Topic || t.ev.Events[i].Seq < e.Seq {
				continue
			}
			sampled++
			if o.HighWatermark > 0 {
				r.findings = append(r.findings, t.about(e, AcceptedSource, "nothing of a cluster that was not expected in the log", fmt.Sprintf("%d records", o.HighWatermark)))
			}
		}
	}
	r.need(refused+failed > 0, "no mirror was made that leads to another cluster than the expected one")
	r.need(failed == 0 || sampled > 0, "the log of the mirror that failed was not looked at")
	r.saw("%d starts refused, %d mirrors FAILED with the cause, nothing appended", refused, failed)
}

// fi2 holds that the same topic from a second source is refused.
func (t *trial) fi2(r *ruling) {
	refused, open := 0, ""
	for _, e := range t.probes(history.ProbeSameTopic) {
		p := e.Probe
		if p.Result.Outcome == history.Unknown {
			open = ": what became of the start is not known: " + answer(*p.Result)
		}
		expected := fmt.Sprintf("topic %s refused to mirror %s: it has a source already", p.Topic, p.Mirror)
		if p.Result.Outcome == history.OK {
			r.findings = append(r.findings, t.about(e, AcceptedSource, expected, "accepted"))
			continue
		}
		if t.turnedDown(r, e, expected, "mirror") {
			refused++
		}
	}
	r.need(refused > 0, "no topic was refused a second source%s", open)
	r.saw("%d starts refused", refused)
}
