package bundle

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"path"

	"watershed.example/suite/check"
	"watershed.example/suite/engine"
	"watershed.example/suite/history"
	"watershed.example/suite/report"
)

// errWord is that a file without the secrets is none that its readers take. A bundle
// with it could not be judged, and one with the secret must not be.
var errWord = errors.New("a secret of the target is a word of the format: change it")

// broken says whether a file was one for its reader, and is none any more. One that was
// none before goes in as it is: what is wrong with it is found by who judges it.
func broken(read func([]byte) error, was, now []byte) bool {
	return read(was) == nil && read(now) != nil
}

// readerOf is what reads a file of that name, as strict as the judge where it is one of
// the judge's.
func readerOf(name string) func([]byte) error {
	switch base := path.Base(name); {
	case base == check.RunFile:
		return func(data []byte) error {
			_, err := check.ReadRun(data)
			return err
		}
	case base == engine.FoundFile:
		return func(data []byte) error {
			_, err := engine.ReadFound(data)
			return err
		}
	case base == "result.json":
		return report.Readable
	case path.Ext(base) == ".json":
		return func(data []byte) error {
			var any json.RawMessage
			return strict(data, &any)
		}
	case path.Ext(base) == ".xml":
		return wellFormed
	}
	return func([]byte) error { return nil }
}

// historyLine reads one line of a history by itself: its header or an event. What comes
// before what is no matter of a secret.
func historyLine(line []byte) error {
	var e history.Event
	if err := strict(line, &e); err == nil {
		return e.Validate()
	}
	var h history.Header
	if err := strict(line, &h); err != nil {
		return err
	}
	if h.Format != history.Format {
		return errors.New("another format")
	}
	return nil
}

func strict(data []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(to)
}

func wellFormed(data []byte) error {
	d := xml.NewDecoder(bytes.NewReader(data))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
