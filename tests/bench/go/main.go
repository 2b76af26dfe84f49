// The benchmark's native client: ROLE OPTIONS, where OPTIONS is a JSON object (type options). It ends with 0 and one line
// of JSON on standard output (type result), or with 1 and words on standard error. What is measured begins after a
// warm-up, without a pause between them.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

type options struct {
	Bootstrap  string
	Topic      string
	Group      string
	Partitions int
	// Processes whose processor time is taken beside our own.
	Pids []int

	WarmUpSeconds float64
	Seconds       float64
	// Instead of a time: so many records in all, without a warm-up.
	Records int64

	Clients      int
	RecordBytes  int
	BatchBytes   int
	RequestBytes int
	InFlight     int
	Codec        string
	// Records or requests a second of all clients together; 0: as many as are answered.
	Rate float64

	// Records at each partition's end that are read over and over; 0: from its first one.
	Tail int64
	// The opposite: so many records at each partition's start; 0: all of it.
	Head int64
	// Stop when each partition was read to its end once.
	Once bool

	// Of the role mixed: the old log that is read from its start meanwhile.
	OldTopic string
}

// result is what a role has measured, from the end of the warm-up on.
type result struct {
	Seconds       float64
	Records       int64
	Bytes         int64
	Requests      int64
	Batches       int64
	ServerSeconds float64
	ClientSeconds float64
	// In microseconds, where requests or records were timed one by one.
	P50  float64
	P99  float64
	P999 float64
	// Of the role mixed, besides what is written: bytes read at the end of the log and from its start.
	FollowedBytes int64
	ReplayedBytes int64
	// All that the server acknowledged in the process's life, the warm-up included.
	AllRecords int64
}

var roles = map[string]func(options) (result, error){
	"produce":    produce,
	"consume":    consume,
	"group":      group,
	"sync":       sync1,
	"end-to-end": endToEnd,
	"mixed":      mixed,
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "sink" {
		fail(serveSink(os.Stdout))
		return
	}
	if len(os.Args) != 3 || roles[os.Args[1]] == nil {
		var names []string
		for name := range roles {
			names = append(names, name)
		}
		fail(fmt.Errorf("ROLE OPTIONS, or sink; roles: %s", strings.Join(names, " ")))
	}
	found := options{
		Partitions: 1, Clients: 1, RecordBytes: 1024, BatchBytes: 128 << 10, RequestBytes: 1 << 20, InFlight: 5, Codec: "none",
	}
	fail(json.Unmarshal([]byte(os.Args[2]), &found))
	measured, err := roles[os.Args[1]](found)
	fail(err)
	fail(json.NewEncoder(os.Stdout).Encode(measured))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func seconds(value float64) time.Duration { return time.Duration(value * float64(time.Second)) }
