package traffic

import "github.com/twmb/franz-go/pkg/kgo"

// Codec is how a producer compresses its batches; by its number in a batch's
// attributes.
type Codec int8

// The codecs.
const (
	Uncompressed Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// Codecs lists the codecs.
func Codecs() []Codec { return []Codec{Uncompressed, Gzip, Snappy, LZ4, Zstd} }

// String is the codec's name in Kafka's configuration.
func (c Codec) String() string {
	return [...]string{"none", "gzip", "snappy", "lz4", "zstd"}[c]
}

func (c Codec) franz() kgo.CompressionCodec {
	return [...]kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}[c]
}
