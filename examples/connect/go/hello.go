// Sends one record and reads it back: hello HOST:PORT TOPIC
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.AllowAutoTopicCreation(),
		kgo.ConsumerGroup("hello-go"),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	record := &kgo.Record{Topic: topic, Key: []byte("greeting"), Value: []byte("hello from Go")}
	if err := client.ProduceSync(context.Background(), record).FirstErr(); err != nil {
		log.Fatal(err)
	}

	for {
		fetches := client.PollFetches(context.Background())
		if err := fetches.Err(); err != nil {
			log.Fatal(err)
		}
		if records := fetches.Records(); len(records) > 0 {
			fmt.Println(string(records[0].Value))
			return
		}
	}
}
