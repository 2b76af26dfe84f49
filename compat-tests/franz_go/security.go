// Listeners that ask who comes: what lets a client in, what does not, and what changes while records flow. Topics are
// made where nobody is asked. A session lasts two seconds where clients are asked again.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	atATime = 20
	streams = 7 * time.Second
	// Whoever is not let in knows by then.
	refusedWithin = 40 * time.Second
)

// A door is a listener, and what a client shows there.
type door struct{ protocol, ca, mechanism, secret string }

func of(name string) string { return os.Getenv("COMPAT_" + name) }

func (d door) options(more ...kgo.Opt) ([]kgo.Opt, error) {
	options := []kgo.Opt{kgo.SeedBrokers(of(d.protocol))}
	if strings.HasSuffix(d.protocol, "SSL") {
		read, err := os.ReadFile(d.ca)
		if err != nil {
			return nil, err
		}
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(read)
		options = append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}))
	}
	if d.mechanism != "" {
		options = append(options, kgo.SASL(d.login()))
	}
	return append(options, more...), nil
}

func (d door) login() sasl.Mechanism {
	user := scram.Auth{User: of("USER"), Pass: d.secret}
	switch d.mechanism {
	case "PLAIN":
		return plain.Auth{User: user.User, Pass: user.Pass}.AsMechanism()
	case "SCRAM-SHA-256":
		return user.AsSha256Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: d.secret}.AsMechanism()
	default:
		return user.AsSha512Mechanism()
	}
}

func (d door) client(s *server, more ...kgo.Opt) (*kgo.Client, error) {
	options, err := d.options(more...)
	if err != nil {
		return nil, err
	}
	return s.client(options...)
}

func encrypted(s *server) error {
	topic, err := s.topic("tls", 1, nil)
	if err != nil {
		return err
	}
	if err := staysOut(s, door{protocol: "SSL", ca: of("OTHER_CA")}, isUntrusted); err != nil {
		return err
	}
	return bothWays(s, topic, door{protocol: "SSL", ca: of("CA")})
}

// authenticated: with and without TLS, what is wrong is refused, and what is right lets in after it.
func authenticated(s *server, mechanism string) error {
	secret := "PASSWORD"
	if mechanism == "OAUTHBEARER" {
		secret = "TOKEN"
	}
	for _, protocol := range []string{"SASL_PLAINTEXT", "SASL_SSL"} {
		topic, err := s.topic(mechanism, 1, nil)
		if err != nil {
			return err
		}
		right := door{protocol, of("CA"), mechanism, of(secret)}
		wrong := door{protocol, of("CA"), mechanism, of("WRONG_" + secret)}
		if err := staysOut(s, wrong, isUnknown); err != nil {
			return err
		}
		if err := bothWays(s, topic, right); err != nil {
			return err
		}
		if err := staysOut(s, wrong, isUnknown); err != nil {
			return err
		}
	}
	return nil
}

// certificateExchanged, by one of another authority: who is connected goes on, who comes anew has to trust the new one.
func certificateExchanged(s *server) error {
	topic, err := s.topic("exchanged", 1, nil)
	if err != nil {
		return err
	}
	old, young := door{protocol: "SSL", ca: of("CA")}, door{protocol: "SSL", ca: of("OTHER_CA")}
	connected, err := old.client(s, fromStart(topic))
	if err != nil {
		return err
	}
	defer connected.Close()
	before, after, more := some(topic, "before"), some(topic, "after"), some(topic, "more")
	if err := flows(connected, connected, before, 0); err != nil {
		return err
	}
	told, err := ask("exchange-certificate")
	if err != nil {
		return err
	}
	if err := equal(told, "exchanged", "what the runner says"); err != nil {
		return err
	}
	if err := flows(connected, connected, after, len(before)); err != nil {
		return err
	}
	if err := staysOut(s, old, isUntrusted); err != nil {
		return err
	}
	newcomer, err := young.client(s)
	if err != nil {
		return err
	}
	defer newcomer.Close()
	if err := flows(newcomer, connected, more, len(before)+len(after)); err != nil {
		return err
	}
	return s.checkPartition(topic, 0, append(append(before, after...), more...))
}

// passwordChanged: who came in by the old one is cut off and stays out; with the new one a client goes on.
func passwordChanged(s *server) error {
	topic, err := s.topic("password", 1, nil)
	if err != nil {
		return err
	}
	old := door{"SASL_SSL", of("CA"), "SCRAM-SHA-512", of("PASSWORD")}
	before, after := some(topic, "before"), some(topic, "after")
	connected, err := old.client(s, fromStart(topic))
	if err != nil {
		return err
	}
	defer connected.Close()
	if err := flows(connected, connected, before, 0); err != nil {
		return err
	}
	password, err := ask("change-password")
	if err != nil {
		return err
	}
	if err := knows(connected, isUnknown); err != nil {
		return err
	}
	if err := staysOut(s, old, isUnknown); err != nil {
		return err
	}
	young := door{old.protocol, old.ca, old.mechanism, password}
	newcomer, err := young.client(s, fromStart(topic))
	if err != nil {
		return err
	}
	defer newcomer.Close()
	if err := send(newcomer, after); err != nil {
		return err
	}
	all := append(before, after...)
	found, err := read(newcomer, len(all))
	if err != nil {
		return err
	}
	if err := check(found, all, 0); err != nil {
		return err
	}
	return s.checkPartition(topic, 0, all)
}

// reauthentication: records flow over several sessions; each is there once, in order.
func reauthentication(s *server) error {
	topic, err := s.topic("again", 1, nil)
	if err != nil {
		return err
	}
	client, err := door{"SASL_SSL", of("CA"), "SCRAM-SHA-512", of("PASSWORD")}.client(s, fromStart(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	var sent []*kgo.Record
	for end := time.Now().Add(streams); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		records := some(topic, fmt.Sprint(len(sent)))
		if err := flows(client, client, records, len(sent)); err != nil {
			return err
		}
		sent = append(sent, records...)
	}
	return s.checkPartition(topic, 0, sent)
}

func bothWays(s *server, topic string, d door) error {
	client, err := d.client(s, fromStart(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	records := sample(topic, 100, "secured")
	if err := flows(client, client, records, 0); err != nil {
		return err
	}
	return s.checkPartition(topic, 0, records)
}

// flows: what one sends the other one reads, from this offset on.
func flows(sends, reads *kgo.Client, records []*kgo.Record, first int) error {
	if err := send(sends, records); err != nil {
		return err
	}
	found, err := read(reads, len(records))
	if err != nil {
		return err
	}
	return check(found, records, int64(first))
}

// staysOut: a client does not come in there, and says why in bounded time.
func staysOut(s *server, d door, isWhy func(error) bool) error {
	client, err := d.client(s)
	if err != nil {
		return err
	}
	defer client.Close()
	return knows(client, isWhy)
}

// knows: the client is told, in bounded time, that it is not let in. One that was in may see its connection end first.
func knows(client *kgo.Client, isWhy func(error) bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), refusedWithin)
	defer cancel()
	for {
		err := client.Ping(ctx)
		if isWhy(err) {
			return nil
		}
		if err == nil || ctx.Err() != nil {
			return fmt.Errorf("%v, where it has to stay out", err)
		}
	}
}

func isUntrusted(err error) bool {
	var found *tls.CertificateVerificationError
	return errors.As(err, &found)
}

// isUnknown: of a token it says only that the answer is not the one to a good one.
func isUnknown(err error) bool {
	return errors.Is(err, kerr.SaslAuthenticationFailed) || err != nil && err.Error() == "unexpected data in oauth response"
}

func some(topic, label string) []*kgo.Record { return sample(topic, atATime, label) }

func fromStart(topic string) kgo.Opt {
	return kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}})
}

// ask has the runner do it; what it says then.
func ask(word string) (string, error) {
	fmt.Println(word)
	said, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return strings.TrimSpace(said), err
}
