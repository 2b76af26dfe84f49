package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Where the fields of a record batch (magic 2) begin.
const (
	lengthAt         = 8
	magicAt          = 16
	crcAt            = 17
	checkedAt        = 21
	lastDeltaAt      = 23
	producerAt       = 43
	epochAt          = 51
	sequenceAt       = 53
	countAt          = 57
	batchHeaderBytes = 61
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is a record batch as a producer makes one, and how many records it holds.
type batch struct {
	bytes   []byte
	records int32
}

// makeBatch fills a batch with records whose values have so many bytes of text, as many as fit before compression.
// Their text is that of lines of JSON with numbers that differ, so that codecs find what they find in practice.
func makeBatch(recordBytes, batchBytes int, codec string, seed int64) (batch, error) {
	random := rand.New(rand.NewSource(seed))
	var records []byte
	count := int32(0)
	for count == 0 || len(records)+recordBytes+20 <= batchBytes-batchHeaderBytes {
		records = appendRecord(records, count, value(random, recordBytes))
		count++
	}
	attributes := uint16(0)
	if codec != "none" {
		compressor, err := kgo.DefaultCompressor(codecs[codec])
		if err != nil || compressor == nil {
			return batch{}, fmt.Errorf("no codec %q: %v", codec, err)
		}
		packed, kind := compressor.Compress(new(bytes.Buffer), records)
		records, attributes = bytes.Clone(packed), uint16(kind)
	}
	made := make([]byte, batchHeaderBytes, batchHeaderBytes+len(records))
	made = append(made, records...)
	binary.BigEndian.PutUint32(made[lengthAt:], uint32(len(made)-lengthAt-4))
	made[magicAt] = 2
	binary.BigEndian.PutUint16(made[checkedAt:], attributes)
	binary.BigEndian.PutUint32(made[lastDeltaAt:], uint32(count-1))
	stamp := uint64(time.Now().UnixMilli())
	binary.BigEndian.PutUint64(made[lastDeltaAt+4:], stamp)
	binary.BigEndian.PutUint64(made[lastDeltaAt+12:], stamp)
	binary.BigEndian.PutUint32(made[countAt:], uint32(count))
	number(made, -1, -1, -1)
	return batch{made, count}, nil
}

var codecs = map[string]kgo.CompressionCodec{
	"gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// number writes a producer and its sequence into a batch, and the checksum over it.
func number(made []byte, producer int64, epoch int16, sequence int32) {
	binary.BigEndian.PutUint64(made[producerAt:], uint64(producer))
	binary.BigEndian.PutUint16(made[epochAt:], uint16(epoch))
	binary.BigEndian.PutUint32(made[sequenceAt:], uint32(sequence))
	binary.BigEndian.PutUint32(made[crcAt:], crc32.Checksum(made[checkedAt:], castagnoli))
}

func appendRecord(to []byte, delta int32, value []byte) []byte {
	var body []byte
	body = append(body, 0) // attributes
	body = kbin.AppendVarlong(body, 0)
	body = kbin.AppendVarint(body, delta)
	body = kbin.AppendVarint(body, -1) // no key
	body = kbin.AppendVarint(body, int32(len(value)))
	body = append(body, value...)
	body = kbin.AppendVarint(body, 0) // no headers
	return append(kbin.AppendVarint(to, int32(len(body))), body...)
}

var words = []string{"order", "customer", "amount", "warehouse", "created", "pending", "shipped", "price", "region", "north"}

// value is so many bytes of text, of which a codec takes away about two thirds.
func value(random *rand.Rand, length int) []byte {
	var text []byte
	for len(text) < length {
		text = fmt.Appendf(text, `{"%s_%s":%d,"id":"%08x"}`,
			words[random.Intn(len(words))], words[random.Intn(len(words))], random.Intn(1e6), random.Uint32())
	}
	return text[:length]
}

// walk counts the whole batches at the beginning of fetched bytes, and checks each.
func walk(fetched []byte) (records, batches int64, next int64, err error) {
	for len(fetched) >= batchHeaderBytes {
		size := int(binary.BigEndian.Uint32(fetched[lengthAt:])) + lengthAt + 4
		if size > len(fetched) {
			break
		}
		one := fetched[:size]
		if binary.BigEndian.Uint32(one[crcAt:]) != crc32.Checksum(one[checkedAt:], castagnoli) {
			return 0, 0, 0, fmt.Errorf("a batch of %d bytes is damaged", size)
		}
		next = int64(binary.BigEndian.Uint64(one)) + int64(binary.BigEndian.Uint32(one[lastDeltaAt:])) + 1
		records += int64(binary.BigEndian.Uint32(one[countAt:]))
		batches++
		fetched = fetched[size:]
	}
	return records, batches, next, nil
}
