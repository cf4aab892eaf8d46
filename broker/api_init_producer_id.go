package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kcoord/kcoord/netloop"
)

// initProducerID serves InitProducerId (0 to 5) for idempotent producers.
// Transactions do not exist here: a transactional id gets the one error that
// every client takes as final.
func (b *Broker) initProducerID(r *request, out []byte) ([]byte, netloop.Verdict) {
	req := r.message.(*kmsg.InitProducerIDRequest)
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch {
	case (req.ProducerID == -1) != (req.ProducerEpoch == -1), req.TransactionalID != nil && *req.TransactionalID == "":
		resp.ErrorCode = codeInvalidRequest
		return r.answer(out, resp)
	case req.TransactionalID != nil:
		// The error's name sends its reader to look for ACLs; this is what it means.
		if e := b.warn("transactions"); e != nil {
			e.Str("transactional_id", *req.TransactionalID).Str("client", r.clientID).Str("host", r.session.host).
				Msg("there are no transactions in kcoord; the producer is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
		}
		resp.ErrorCode = codeTransactionalIDAuthorization
		return r.answer(out, resp)
	}
	id, durable, err := b.data.producers.take(b.store, b.meta, r.waiter(nil))
	if err != nil {
		resp.ErrorCode = codeCoordinatorNotAvailable
		return r.answer(out, resp)
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	if out = r.respond(out, resp); durable {
		return out, netloop.Answered
	}
	return out, netloop.Later
}
