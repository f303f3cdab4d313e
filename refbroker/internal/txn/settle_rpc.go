package txn

import (
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// KeySettleDebts is the key of a request that only nodes of one cluster send
// each other: Apache Kafka has none that keeps markers for later, and so none
// to ask for them. It is far from Kafka's keys, and no client is told of it.
const KeySettleDebts = 32100

// SettleDebtsRequest asks a coordinator to pay what a partition owes to its
// transactional ids.
type SettleDebtsRequest struct{ Partition Partition }

// SettleDebtsResponse is nil error once it has.
type SettleDebtsResponse struct{ ErrorCode int16 }

var (
	_ kmsg.Request  = (*SettleDebtsRequest)(nil)
	_ kmsg.Response = (*SettleDebtsResponse)(nil)
)

// Key is the API key.
func (*SettleDebtsRequest) Key() int16 { return KeySettleDebts }

// MaxVersion is the only one, 0.
func (*SettleDebtsRequest) MaxVersion() int16 { return 0 }

// SetVersion has no effect.
func (*SettleDebtsRequest) SetVersion(int16) {}

// GetVersion is 0.
func (*SettleDebtsRequest) GetVersion() int16 { return 0 }

// IsFlexible is false.
func (*SettleDebtsRequest) IsFlexible() bool { return false }

// AppendTo encodes the request.
func (r *SettleDebtsRequest) AppendTo(dst []byte) []byte {
	return kbin.AppendInt32(kbin.AppendString(dst, r.Partition.Topic), r.Partition.Index)
}

// ReadFrom decodes a request.
func (r *SettleDebtsRequest) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	r.Partition.Topic, r.Partition.Index = b.String(), b.Int32()
	return b.Complete()
}

// ResponseKind is an empty response.
func (*SettleDebtsRequest) ResponseKind() kmsg.Response { return &SettleDebtsResponse{} }

// Key is the API key.
func (*SettleDebtsResponse) Key() int16 { return KeySettleDebts }

// MaxVersion is the only one, 0.
func (*SettleDebtsResponse) MaxVersion() int16 { return 0 }

// SetVersion has no effect.
func (*SettleDebtsResponse) SetVersion(int16) {}

// GetVersion is 0.
func (*SettleDebtsResponse) GetVersion() int16 { return 0 }

// IsFlexible is false.
func (*SettleDebtsResponse) IsFlexible() bool { return false }

// AppendTo encodes the response.
func (r *SettleDebtsResponse) AppendTo(dst []byte) []byte { return kbin.AppendInt16(dst, r.ErrorCode) }

// ReadFrom decodes a response.
func (r *SettleDebtsResponse) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	r.ErrorCode = b.Int16()
	return b.Complete()
}

// RequestKind is an empty request.
func (*SettleDebtsResponse) RequestKind() kmsg.Request { return &SettleDebtsRequest{} }
