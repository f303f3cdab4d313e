package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// everyAPI is a table of every API that kmsg knows, in every version.
func everyAPI() *Table {
	table := &Table{apis: map[int16]API{}}
	for key := range int16(kmsg.MaxKey + 1) {
		if r := kmsg.RequestForKey(key); r != nil {
			table.apis[key] = API{
				Key: key, Max: r.MaxVersion(), Name: "fuzzed", Bulk: key == 0,
				New: func() Message { return kmsg.RequestForKey(key) },
			}
		}
	}
	return table
}

// FuzzDecode feeds frames to a table of every API that kmsg knows, in every
// version: whatever comes, decoding returns.
func FuzzDecode(f *testing.F) {
	table := everyAPI()
	for _, r := range []kmsg.Request{
		kmsg.NewPtrProduceRequest(), kmsg.NewPtrFetchRequest(), kmsg.NewPtrMetadataRequest(), kmsg.NewPtrApiVersionsRequest(),
		kmsg.NewPtrCreateTopicsRequest(), kmsg.NewPtrAddPartitionsToTxnRequest(), kmsg.NewPtrListOffsetsRequest(),
	} {
		for version := range r.MaxVersion() + 1 {
			f.Add(request(1, version, r)[4:])
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		req, api, err := table.decode(frame)
		if err != nil {
			return
		}
		if req.Body == nil || req.Version < api.Min || req.Version > api.Max {
			t.Fatalf("accepted version %d of %s [%d, %d]", req.Version, api.Name, api.Min, api.Max)
		}
	})
}

// FuzzFrames cuts a stream of bytes into frames: each is within the limit, and
// together they are what was read.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x0a0123456789\x00\x00\x00\x0babcdefghijk"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		const limit = 1 << 16
		in := bufio.NewReader(bytes.NewReader(stream))
		var back []byte
		for {
			room := 0
			frame, err := (&Table{}).readFrame(in, limit, func(size int) error {
				room = size
				return nil
			})
			if err != nil {
				break
			}
			if len(frame) < minHeader || len(frame) > limit || room != len(frame) {
				t.Fatalf("frame of %d bytes", len(frame))
			}
			back = binary.BigEndian.AppendUint32(back, uint32(len(frame)))
			back = append(back, frame...)
		}
		if !bytes.HasPrefix(stream, back) {
			t.Fatalf("frames %x of stream %x", back, stream)
		}
	})
}
