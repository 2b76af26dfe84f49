package main

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestWalkCountsWholeBatches(t *testing.T) {
	made, err := makeBatch(100, 4096, "zstd", 1)
	if err != nil {
		t.Fatal(err)
	}
	two := append(append([]byte{}, made.bytes...), made.bytes...)
	for _, cut := range []struct {
		length  int
		batches int64
	}{{len(two), 2}, {len(two) - 1, 1}, {len(made.bytes) - 1, 0}, {0, 0}} {
		records, batches, _, err := walk(two[:cut.length])
		if err != nil || batches != cut.batches || records != cut.batches*int64(made.records) {
			t.Errorf("%d bytes: %d records in %d batches, %v", cut.length, records, batches, err)
		}
	}
}

func TestWalkRefusesDamage(t *testing.T) {
	made, err := makeBatch(100, 4096, "none", 1)
	if err != nil {
		t.Fatal(err)
	}
	made.bytes[len(made.bytes)-1] ^= 1
	if _, _, _, err := walk(made.bytes); err == nil {
		t.Error("a flipped bit was not noticed")
	}
}

func TestABatchIsAsLargeAsItIsTold(t *testing.T) {
	for _, size := range []int{100, 1024, 10240} {
		made, err := makeBatch(size, 128<<10, "none", 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(made.bytes) > 128<<10 || len(made.bytes) < 128<<10-size-20 {
			t.Errorf("%d bytes in a batch for records of %d", len(made.bytes), size)
		}
	}
}

func TestFramesHoldTheirBatchesWhereTheySay(t *testing.T) {
	p := &producer{connection: &connection{versions: map[int16]int16{kmsg.Produce.Int16(): 9}}, sequences: make([]int32, 16), id: 7}
	if err := p.makeFrames(options{Topic: "t", Partitions: 16, Clients: 1, RecordBytes: 1024, BatchBytes: 128 << 10, RequestBytes: 1 << 20, Codec: "none"}, all(16), 0); err != nil {
		t.Fatal(err)
	}
	seen := map[int32]bool{}
	for _, f := range p.frames {
		for place, at := range f.batches {
			number(f.bytes[at:at+f.lengths[place]], p.id, 0, 3)
			if _, batches, _, err := walk(f.bytes[at : at+f.lengths[place]]); batches != 1 || err != nil {
				t.Errorf("no batch at %d: %v", at, err)
			}
			seen[f.partitions[place]] = true
		}
	}
	if len(seen) != 16 {
		t.Errorf("%d partitions of 16", len(seen))
	}
}

func TestPercentilesAreOfWhatWasTimedWhileOn(t *testing.T) {
	s := new(samples)
	s.add(time.Hour)
	s.turn(true)
	for n := 1; n <= 1000; n++ {
		s.add(time.Duration(n) * time.Microsecond)
	}
	s.turn(false)
	s.add(time.Hour)
	var r result
	if err := s.into(&r); err != nil || r.P50 != 501 || r.P99 != 991 || r.P999 != 1000 {
		t.Errorf("%v %v %v, %v", r.P50, r.P99, r.P999, err)
	}
}
