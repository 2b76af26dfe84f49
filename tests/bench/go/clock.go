package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// ticksPerSecond of /proc/PID/stat: USER_HZ, which is 100 for every program on Linux.
const ticksPerSecond = 100

// moment is a point in time with the processor seconds used until then.
type moment struct {
	at     time.Time
	server float64
	client float64
}

func now(pids []int) (moment, error) {
	found := moment{at: time.Now()}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return found, err
	}
	found.client = float64(own.Utime.Nano()+own.Stime.Nano()) / 1e9
	for _, pid := range pids {
		used, err := processorSeconds(pid)
		if err != nil {
			return found, err
		}
		found.server += used
	}
	return found, nil
}

func processorSeconds(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name before may hold anything; after its bracket the state is first, then ten numbers, then these two.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	user, err := strconv.ParseInt(string(fields[11]), 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(string(fields[12]), 10, 64)
	return float64(user+system) / ticksPerSecond, err
}

// between fills in what passed from one moment to the other.
func (r *result) between(from, to moment) {
	r.Seconds = to.at.Sub(from.at).Seconds()
	r.ServerSeconds = to.server - from.server
	r.ClientSeconds = to.client - from.client
}

// samples are durations that goroutines take while it is switched on.
type samples struct {
	mutex sync.Mutex
	taken []time.Duration
	on    bool
}

func (s *samples) add(one time.Duration) {
	s.mutex.Lock()
	if s.on {
		s.taken = append(s.taken, one)
	}
	s.mutex.Unlock()
}

func (s *samples) turn(on bool) {
	s.mutex.Lock()
	s.on = on
	s.mutex.Unlock()
}

// into fills in the percentiles, in microseconds.
func (s *samples) into(r *result) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.taken) == 0 {
		return fmt.Errorf("nothing was timed")
	}
	slices.Sort(s.taken)
	at := func(share float64) float64 {
		return float64(s.taken[min(len(s.taken)-1, int(share*float64(len(s.taken))))].Nanoseconds()) / 1e3
	}
	r.P50, r.P99, r.P999 = at(0.5), at(0.99), at(0.999)
	return nil
}

// measured runs for the warm-up and the measured time, or until failed says something, and notes both ends.
func (o options) measured(failed <-chan error, begins, ends func()) (from, to moment, err error) {
	wait := func(length float64) error {
		select {
		case err := <-failed:
			return err
		case <-time.After(seconds(length)):
			return nil
		}
	}
	if err = wait(o.WarmUpSeconds); err != nil {
		return
	}
	begins()
	if from, err = now(o.Pids); err != nil {
		return
	}
	if err = wait(o.Seconds); err != nil {
		return
	}
	ends()
	to, err = now(o.Pids)
	return
}
