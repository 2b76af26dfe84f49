// Listeners that ask who comes: what lets a client in, and what does not. Topics are made where nobody is asked.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

// Whoever is not let in knows by then.
const refusedWithin = 40 * time.Second

// A door is a listener, and what a client shows there.
type door struct{ protocol, ca, mechanism, secret string }

func of(name string) string { return os.Getenv("COMPAT_" + name) }

func (d door) config() (*sarama.Config, error) {
	made := config()
	// It asks again so often, also where nothing can come of it.
	made.Metadata.Retry.Max = 1
	if strings.HasSuffix(d.protocol, "SSL") {
		read, err := os.ReadFile(d.ca)
		if err != nil {
			return nil, err
		}
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(read)
		made.Net.TLS.Enable = true
		made.Net.TLS.Config = &tls.Config{RootCAs: trusted}
	}
	if d.mechanism == "" {
		return made, nil
	}
	made.Net.SASL.Enable = true
	made.Net.SASL.Mechanism = sarama.SASLMechanism(d.mechanism)
	made.Net.SASL.User, made.Net.SASL.Password = of("USER"), d.secret
	made.Net.SASL.TokenProvider = token(d.secret)
	made.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{mechanism: d.mechanism} }
	return made, nil
}

type token string

func (t token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}

// A conversation is SCRAM's, as sarama wants to be given it.
type conversation struct {
	*scram.ClientConversation
	mechanism string
}

func (c *conversation) Begin(user, password, authorization string) error {
	hash := scram.SHA512
	if c.mechanism == sarama.SASLTypeSCRAMSHA256 {
		hash = scram.SHA256
	}
	client, err := hash.NewClient(user, password, authorization)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}

func encrypted(s *server) error {
	untrusted := func(err error) bool {
		var found *tls.CertificateVerificationError
		return errors.As(err, &found)
	}
	return inOrder(
		func() error { return staysOut(door{protocol: "SSL", ca: of("OTHER_CA")}, untrusted) },
		func() error { return bothWays(s, door{protocol: "SSL", ca: of("CA")}) },
	)
}

// authenticated: with and without TLS, what is wrong is refused, and what is right lets in after it.
func authenticated(s *server, mechanism string) error {
	secret := "PASSWORD"
	if mechanism == sarama.SASLTypeOAuth {
		secret = "TOKEN"
	}
	unknown := func(err error) bool { return errors.Is(err, sarama.ErrSASLAuthenticationFailed) }
	for _, protocol := range []string{"SASL_PLAINTEXT", "SASL_SSL"} {
		right := door{protocol, of("CA"), mechanism, of(secret)}
		wrong := door{protocol, of("CA"), mechanism, of("WRONG_" + secret)}
		err := inOrder(
			func() error { return staysOut(wrong, unknown) },
			func() error { return bothWays(s, right) },
			func() error { return staysOut(wrong, unknown) },
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// bothWays: what is written through a door is read through it.
func bothWays(s *server, d door) error {
	topic, err := s.topic("secured", partitions)
	if err != nil {
		return err
	}
	made, err := d.config()
	if err != nil {
		return err
	}
	addresses := []string{of(d.protocol)}
	producer, err := sarama.NewSyncProducer(addresses, made)
	if err != nil {
		return err
	}
	defer producer.Close()
	sent := values("secured")
	if err := write(producer, topic, sent); err != nil {
		return err
	}
	consumer, err := sarama.NewConsumer(addresses, made)
	if err != nil {
		return err
	}
	defer consumer.Close()
	return checkReadBy(consumer, topic, sent)
}

// staysOut: a client does not come in there, and says why in bounded time.
func staysOut(d door, isWhy func(error) bool) error {
	made, err := d.config()
	if err != nil {
		return err
	}
	begun := time.Now()
	client, err := sarama.NewClient([]string{of(d.protocol)}, made)
	if err == nil {
		client.Close()
	}
	if !isWhy(err) || time.Since(begun) > refusedWithin {
		return fmt.Errorf("%v after %v, where it has to stay out", err, time.Since(begun))
	}
	return nil
}
