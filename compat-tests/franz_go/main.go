// Arguments: SCENARIO BOOTSTRAP. It ends with 0 when the scenario passed, 77 when the client has no such thing, else
// 1, with words on standard error. member:TOPIC:GROUP and mixed-member are roles besides the scenarios: see groups.go
// and mixed_member.go.
package main

import (
	"fmt"
	"os"
	"strings"
)

const notInClient = 77

var scenarios = map[string]func(*server) error{
	"headers":          headers,
	"empty-values":     emptyValues,
	"batches":          batches,
	"single-records":   singleRecords,
	"large-messages":   largeMessages,
	"idempotence":      idempotence,
	"seek":             seek,
	"timestamps":       timestamps,
	"commits":          commits,
	"group-join-leave": joinLeave,
	"group-killed":     killed,
	"admin-topics":     adminTopics,
	"admin-configs":    adminConfigs,
	"admin-partitions": adminPartitions,
	"delete-records":   deleteRecords,
	"reconnect":        reconnect,

	"tls":                   encrypted,
	"certificate-exchanged": certificateExchanged,
	"password-changed":      passwordChanged,
	"reauthentication":      reauthentication,

	"transactions":         transactions,
	"transactions-fencing": transactionsFencing,
	"transactions-offsets": transactionsOffsets,
	"transactions-timeout": transactionsTimeout,
}

func main() {
	name := os.Args[1]
	if name == "mixed-member" {
		if err := runMixedMember(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	s := &server{bootstrap: os.Args[2]}
	run, known := scenarios[name]
	if codecName, isCodec := strings.CutPrefix(name, "codec-"); isCodec {
		run, known = func(s *server) error { return codec(s, codecName) }, true
	}
	if mechanism, isSasl := strings.CutPrefix(name, "sasl-"); isSasl {
		run, known = func(s *server) error { return authenticated(s, strings.ToUpper(mechanism)) }, true
	}
	if parts := strings.Split(name, ":"); parts[0] == "member" {
		run, known = func(s *server) error { return member(s, parts[1], parts[2]) }, true
	}
	if !known {
		fmt.Fprintln(os.Stderr, "no such scenario in this program:", name)
		os.Exit(notInClient)
	}
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
