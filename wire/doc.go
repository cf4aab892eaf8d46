// Package wire turns frames into kmsg values and back: request and response
// headers, the one table of supported APIs and versions, limits on what a frame
// may make the decoder allocate, ApiVersions answers, and each API's error
// answer. It keeps no state between frames but a Decoder's reused values.
//
// A frame is a request or an answer without its four-byte length prefix. A
// server handles one in four steps:
//
//	FrameLimit   before the frame's body is read: how long may it be
//	ParseHeader  is the key known, the version supported, the header whole
//	Decode       the body, as a kmsg request
//	AppendResponse
//
// An error of ParseHeader or Decode means that the connection has to be closed
// without an answer, with one exception: ApiVersions at an unsupported version is
// answered by AppendUnsupportedVersion.
package wire
