package broker

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/auth"
	"watershed.example/refbroker/internal/wire"
)

// SaslAuthenticate (key 36), versions 0 to 2: one step of the mechanism. Who is
// refused hears that, not why, and the connection ends (KIP-152). The session lasts
// as long as the connection (lifetime 0, KIP-368).
func saslAuthenticate() wire.API {
	return wire.Of("SaslAuthenticate", 0, 2, func(_ context.Context, req *wire.Request, r *kmsg.SASLAuthenticateRequest) (wire.Response, error) {
		resp := kmsg.NewPtrSASLAuthenticateResponse()
		resp.Version = req.Version
		err := auth.ErrState
		if req.Session != nil {
			resp.SASLAuthBytes, err = req.Session.Step(r.SASLAuthBytes)
		}
		switch {
		case errors.Is(err, auth.ErrState):
			resp.ErrorCode = kerr.IllegalSaslState.Code
		case err != nil:
			resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		}
		if err != nil {
			resp.ErrorMessage = kmsg.StringPtr(err.Error())
		}
		if resp.SASLAuthBytes == nil {
			resp.SASLAuthBytes = []byte{}
		}
		return resp, nil
	})
}
