// Arguments: SCENARIO BOOTSTRAP. It ends with 0 when the scenario passed, 77 when this program has no such scenario,
// else 1, with words on standard error.
package main

import (
	"fmt"
	"os"
	"strings"
)

const notInClient = 77

var scenarios = map[string]func(*server) error{
	"transactions":         transactions,
	"transactions-fencing": transactionsFencing,
	"transactions-offsets": transactionsOffsets,
	"transactions-timeout": transactionsTimeout,

	"tls": encrypted,
}

func main() {
	run, known := scenarios[os.Args[1]]
	if mechanism, isSasl := strings.CutPrefix(os.Args[1], "sasl-"); isSasl {
		run, known = func(s *server) error { return authenticated(s, strings.ToUpper(mechanism)) }, true
	}
	if !known {
		fmt.Fprintln(os.Stderr, "no such scenario in this program:", os.Args[1])
		os.Exit(notInClient)
	}
	if err := run(&server{bootstrap: os.Args[2]}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
