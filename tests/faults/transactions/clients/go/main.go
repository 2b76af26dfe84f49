// Transactional workers, franz-go's; for arguments and lines see tests/faults/transactions/clients/__init__.py.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const (
	groups         = 2
	clockMonotonic = 1
)

var (
	draining, ending atomic.Bool
	telling          sync.Mutex
)

type fields map[string]any

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	workers, err := strconv.Atoi(arguments[3])
	if err != nil {
		return err
	}
	seed, err := strconv.ParseInt(arguments[4], 10, 64)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for number := range workers {
		worker, group := fmt.Sprintf("%s-%d", arguments[1], number), fmt.Sprintf("g%d", number%groups)
		choice := rand.New(rand.NewSource(seed*100 + int64(number)))
		all.Go(func() { work(strings.Split(arguments[0], ","), worker, arguments[2], group, choice) })
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if lines.Text() == "drain" {
			draining.Store(true)
			tell("Event", fields{"what": "draining"})
		}
	}
	ending.Store(true)
	all.Wait()
	return lines.Err()
}

func work(bootstrap []string, worker, processLife, group string, choice *rand.Rand) {
	for number := 1; !ending.Load(); number++ {
		life := fmt.Sprintf("%s.%d", processLife, number)
		if err := live(bootstrap, worker, life, group, choice); err != nil {
			tell("Closed", fields{"worker": worker, "life": life, "fatal": isFatal(err), "why": err.Error()})
		}
	}
}

func tell(kind string, what fields) {
	what["kind"], what["at"] = kind, now()
	line, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	telling.Lock()
	defer telling.Unlock()
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}

// now is the clock that all processes of a machine share, which the package time does not show.
func now() int64 {
	var at syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&at)), 0); err != 0 {
		panic(err)
	}
	return at.Nano()
}
