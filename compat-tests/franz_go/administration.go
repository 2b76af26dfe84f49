package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// withAdmin runs steps with an admin client and limited time.
func withAdmin(s *server, steps func(context.Context, *kadm.Client) error) error {
	admin, done, err := s.admin()
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := limited()
	defer cancel()
	return steps(ctx, admin)
}

func partitionCount(ctx context.Context, admin *kadm.Client, topic string) int {
	found, err := admin.ListTopics(ctx, topic)
	if err != nil || !found.Has(topic) {
		return 0
	}
	return len(found[topic].Partitions)
}

func adminTopics(s *server) error {
	return withAdmin(s, func(ctx context.Context, admin *kadm.Client) error {
		name, other := fresh("admin"), fresh("other")
		for topic, partitions := range map[string]int32{name: 3, other: 1} {
			if _, err := admin.CreateTopic(ctx, partitions, -1, nil, topic); err != nil {
				return err
			}
			if err := until(topic, func() bool { return partitionCount(ctx, admin, topic) == int(partitions) }); err != nil {
				return err
			}
		}
		_, err := admin.CreateTopic(ctx, 3, -1, nil, name)
		if err := refused(err, kerr.TopicAlreadyExists); err != nil {
			return err
		}
		_, err = admin.CreateTopic(ctx, 1, -1, nil, "no such/name")
		if err := refused(err, kerr.InvalidTopicException); err != nil {
			return err
		}
		if _, err := admin.DeleteTopic(ctx, name); err != nil {
			return err
		}
		if err := until(name+" to be gone", func() bool { return partitionCount(ctx, admin, name) == 0 }); err != nil {
			return err
		}
		if err := equal(partitionCount(ctx, admin, other), 1, "partitions of the other topic"); err != nil {
			return err
		}
		_, err = admin.DeleteTopic(ctx, name)
		return refused(err, kerr.UnknownTopicOrPartition)
	})
}

func adminConfigs(s *server) error {
	topic, err := s.topic("configs", 1, map[string]*string{"retention.ms": kadm.StringPtr("3600000")})
	if err != nil {
		return err
	}
	err = withAdmin(s, func(ctx context.Context, admin *kadm.Client) error {
		if err := equal(config(ctx, admin, topic, "retention.ms"), "3600000", "retention.ms"); err != nil {
			return err
		}
		if err := equal(config(ctx, admin, topic, "cleanup.policy"), "delete", "cleanup.policy"); err != nil {
			return err
		}
		for name, value := range map[string]string{"retention.ms": "7200000", "max.message.bytes": "2000"} {
			if err := alter(ctx, admin, topic, name, value); err != nil {
				return err
			}
			if err := until(name, func() bool { return config(ctx, admin, topic, name) == value }); err != nil {
				return err
			}
		}
		return refused(alter(ctx, admin, topic, "retention.ms", "soon"), kerr.InvalidConfig)
	})
	if err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	defer client.Close()
	return refused(send(client, []*kgo.Record{{Topic: topic, Value: make([]byte, 3000)}}), kerr.MessageTooLarge)
}

func config(ctx context.Context, admin *kadm.Client, topic, name string) string {
	found, err := admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return err.Error()
	}
	for _, one := range found[0].Configs {
		if one.Key == name {
			return one.MaybeValue()
		}
	}
	return "no such config"
}

func alter(ctx context.Context, admin *kadm.Client, topic, name, value string) error {
	change := kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value}
	told, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{change}, topic)
	if err != nil {
		return err
	}
	return told[0].Err
}

// knownEverywhere waits until each broker lists so many partitions: a producer that starts may ask any of
// them, and to a ManualPartitioner a partition that is not listed is an error at once.
func knownEverywhere(ctx context.Context, client *kgo.Client, topic string, partitions int) error {
	return until(fmt.Sprintf("%d partitions on each broker", partitions), func() bool {
		request := kmsg.NewPtrMetadataRequest()
		wanted := kmsg.NewMetadataRequestTopic()
		wanted.Topic = kmsg.StringPtr(topic)
		request.Topics = append(request.Topics, wanted)
		brokers, err := kadm.NewClient(client).ListBrokers(ctx)
		if err != nil {
			return false
		}
		for _, id := range brokers.NodeIDs() {
			answer, err := client.Broker(int(id)).Request(ctx, request)
			if err != nil || len(answer.(*kmsg.MetadataResponse).Topics[0].Partitions) != partitions {
				return false
			}
		}
		return true
	})
}

func adminPartitions(s *server) error {
	topic, err := s.topic("partitions", 2, nil)
	if err != nil {
		return err
	}
	err = withAdmin(s, func(ctx context.Context, admin *kadm.Client) error {
		grown, err := admin.UpdatePartitions(ctx, 5, topic)
		if err != nil || grown.Error() != nil {
			return fmt.Errorf("%w, %w", err, grown.Error())
		}
		if err := until("five partitions", func() bool { return partitionCount(ctx, admin, topic) == 5 }); err != nil {
			return err
		}
		shrunk, err := admin.UpdatePartitions(ctx, 3, topic)
		if err != nil {
			return err
		}
		return refused(shrunk.Error(), kerr.InvalidPartitions)
	})
	if err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := limited()
	defer cancel()
	if err := knownEverywhere(ctx, client, topic, 5); err != nil {
		return err
	}
	records := sample(topic, 10, "new")
	for _, record := range records {
		record.Partition = 4
	}
	if err := send(client, records); err != nil {
		return err
	}
	return s.checkPartition(topic, 4, records)
}

func deleteRecords(s *server) error {
	topic, err := s.topic("delete-records", 1, nil)
	if err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	defer client.Close()
	records := sample(topic, 10, "cut")
	if err := send(client, records); err != nil {
		return err
	}
	err = withAdmin(s, func(ctx context.Context, admin *kadm.Client) error {
		for before, wanted := range map[int64]error{6: nil, 11: kerr.OffsetOutOfRange} {
			told, err := admin.DeleteRecords(ctx, kadm.Offsets{topic: {0: {Topic: topic, At: before}}})
			if err != nil {
				return err
			}
			one, _ := told.Lookup(topic, 0)
			if wanted != nil {
				if err := refused(one.Err, wanted); err != nil {
					return err
				}
			} else if err := equal(one.LowWatermark, before, "first offset that is left"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	consumer, err := s.at(topic, 0, kgo.NewOffset().AtStart())
	if err != nil {
		return err
	}
	defer consumer.Close()
	found, err := read(consumer, 4)
	if err != nil {
		return err
	}
	return check(found, records[6:], 6)
}
