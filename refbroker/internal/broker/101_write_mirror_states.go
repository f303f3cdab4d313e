package broker

import "watershed.example/mirrorrpc"

// WriteMirrorStates (key 101) is not served.
var writeMirrorStates = notServed{
	key: mirrorrpc.KeyWriteMirrorStates, name: "WriteMirrorStates",
	why: "states change by conditional records of the metadata quorum; a state that another broker just writes could be STOPPED without a barrier",
}
