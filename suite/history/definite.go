package history

// OutcomeOf says what the final error code of a Produce or EndTxn answer tells
// its client. Codes that a broker may give after it appended, or that a client
// makes when it lost the answer, are Unknown; a code this table does not hold
// is Unknown too, since counting it as refused could hide an append.
// NOT_LEADER_OR_FOLLOWER is Unknown: a leader that is deposed while it waits for
// its followers says so of what it has appended, and they may have.
//
// The table speaks of one request. A client that sent the same batch before and
// lost that answer doesn't know the outcome whatever the last code says; such a
// writer records Unknown.
func OutcomeOf(code int16) Outcome {
	if code == 0 {
		return OK
	}
	if definite[code] {
		return Refused
	}
	return Unknown
}

// definite holds the codes after which nothing was appended by this request.
var definite = map[int16]bool{
	2:   true, // CORRUPT_MESSAGE
	3:   true, // UNKNOWN_TOPIC_OR_PARTITION
	10:  true, // MESSAGE_TOO_LARGE
	17:  true, // INVALID_TOPIC_EXCEPTION
	18:  true, // RECORD_LIST_TOO_LARGE
	19:  true, // NOT_ENOUGH_REPLICAS, answered before the append
	21:  true, // INVALID_REQUIRED_ACKS
	29:  true, // TOPIC_AUTHORIZATION_FAILED
	31:  true, // CLUSTER_AUTHORIZATION_FAILED
	32:  true, // INVALID_TIMESTAMP
	35:  true, // UNSUPPORTED_VERSION
	42:  true, // INVALID_REQUEST
	43:  true, // UNSUPPORTED_FOR_MESSAGE_FORMAT
	44:  true, // POLICY_VIOLATION
	45:  true, // OUT_OF_ORDER_SEQUENCE_NUMBER
	47:  true, // INVALID_PRODUCER_EPOCH
	48:  true, // INVALID_TXN_STATE
	49:  true, // INVALID_PRODUCER_ID_MAPPING
	52:  true, // TRANSACTION_COORDINATOR_FENCED
	53:  true, // TRANSACTIONAL_ID_AUTHORIZATION_FAILED
	59:  true, // UNKNOWN_PRODUCER_ID
	76:  true, // UNSUPPORTED_COMPRESSION_TYPE
	87:  true, // INVALID_RECORD
	90:  true, // PRODUCER_FENCED
	134: true, // READ_ONLY_TOPIC of KIP-1279's development build
}
