package broker

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/auth"
	"watershed.example/refbroker/internal/wire"
)

// SaslHandshake (key 17), version 1: the client's mechanism. After version 0 what
// follows would have no frames (KIP-43); clients of Kafka 1.0 and later don't use
// it. A listener that asks nobody says so (34), as Kafka's does.
func saslHandshake() wire.API {
	return wire.Of("SaslHandshake", 1, 1, func(_ context.Context, req *wire.Request, r *kmsg.SASLHandshakeRequest) (wire.Response, error) {
		resp := kmsg.NewPtrSASLHandshakeResponse()
		resp.Version = req.Version
		if req.Session == nil {
			resp.ErrorCode = kerr.IllegalSaslState.Code
			return resp, nil
		}
		switch err := req.Session.Choose(r.Mechanism); {
		case errors.Is(err, auth.ErrMechanism):
			resp.ErrorCode, resp.SupportedMechanisms = kerr.UnsupportedSaslMechanism.Code, req.Session.Mechanisms()
		case errors.Is(err, auth.ErrState):
			resp.ErrorCode = kerr.IllegalSaslState.Code
		case err != nil:
			return nil, err
		default:
			resp.SupportedMechanisms = req.Session.Mechanisms()
		}
		return resp, nil
	})
}
