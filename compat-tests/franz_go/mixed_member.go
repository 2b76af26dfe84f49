package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	mixedPoll      = 200 * time.Millisecond
	commitEvery    = 300 * time.Millisecond
	commitPatience = 10 * time.Second
)

var balancers = map[string]func() kgo.GroupBalancer{
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
}

// mixedMember is a member of a mixed group, which says all it does: see mixed_groups/members.py for its arguments
// and lines. SIGTERM has it commit and leave in order.
type mixedMember struct {
	topic, name string
	client      *kgo.Client
	lock        sync.Mutex
	owned       map[int32]bool
	positions   map[int32]int64
	generation  int32
	commits     int
}

func runMixedMember(arguments []string) error {
	m := &mixedMember{topic: arguments[1], name: arguments[3], owned: map[int32]bool{}, positions: map[int32]int64{}, generation: -1}
	client, err := m.connect(arguments)
	if err != nil {
		return err
	}
	m.client = client
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	m.read(ctx)
	m.lock.Lock()
	m.commit(context.Background())
	m.lock.Unlock()
	client.CloseAllowingRebalance()
	say("left", map[string]any{"generation": m.generation})
	return nil
}

func (m *mixedMember) connect(arguments []string) (*kgo.Client, error) {
	var chosen []kgo.GroupBalancer
	for _, protocol := range strings.Split(arguments[4], ",") {
		chosen = append(chosen, balancers[protocol]())
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(arguments[0], ",")...), kgo.ClientID(m.name), kgo.ConsumerGroup(arguments[2]), kgo.ConsumeTopics(m.topic),
		kgo.Balancers(chosen...), kgo.SessionTimeout(milliseconds(arguments[5])),
		kgo.RebalanceTimeout(milliseconds(arguments[6])), kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(m.assigned), kgo.OnPartitionsRevoked(m.revoked), kgo.OnPartitionsLost(m.lost),
	}
	if arguments[7] != "" {
		options = append(options, kgo.InstanceID(arguments[7]))
	}
	return kgo.NewClient(options...)
}

func milliseconds(text string) time.Duration {
	number, _ := strconv.Atoi(text)
	return time.Duration(number) * time.Millisecond
}

func (m *mixedMember) read(ctx context.Context) {
	last := time.Now()
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, mixedPoll)
		fetches := m.client.PollFetches(limited)
		cancel()
		m.lock.Lock()
		fetches.EachError(func(_ string, partition int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				say("failed", map[string]any{"error": fmt.Sprint(partition, ": ", err)})
			}
		})
		fetches.EachRecord(func(one *kgo.Record) {
			say("consumed", map[string]any{
				"generation": m.generation, "partition": one.Partition, "offset": one.Offset, "value": string(one.Value),
			})
			m.positions[one.Partition] = one.Offset + 1
		})
		if time.Since(last) > commitEvery {
			m.commit(context.Background())
			last = time.Now()
		}
		m.lock.Unlock()
		m.client.AllowRebalance()
	}
}

// commit is called with the lock held.
func (m *mixedMember) commit(ctx context.Context) {
	if len(m.positions) == 0 {
		return
	}
	m.commits++
	number := m.commits
	offsets := map[int32]kgo.EpochOffset{}
	var told [][2]int64
	for _, partition := range slices.Sorted(maps.Keys(m.positions)) {
		offsets[partition] = kgo.EpochOffset{Epoch: -1, Offset: m.positions[partition]}
		told = append(told, [2]int64{int64(partition), m.positions[partition]})
	}
	ctx, cancel := context.WithTimeout(ctx, commitPatience)
	defer cancel()
	// The generation is what the request has: a cooperative member reads and commits while the client joins the next one.
	ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		say("committing", map[string]any{
			"number": number, "generation": request.Generation, "member": request.MemberID, "offsets": told,
		})
		metadata := fmt.Sprintf("%s/%d/%d", m.name, request.Generation, number)
		for t := range request.Topics {
			for p := range request.Topics[t].Partitions {
				request.Topics[t].Partitions[p].Metadata = &metadata
			}
		}
		return nil
	})
	var failed error
	m.client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{m.topic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			failed = firstError(response, err)
		})
	if failed != nil {
		say("refused", map[string]any{"number": number, "error": failed.Error()})
		return
	}
	clear(m.positions)
	say("committed", map[string]any{"number": number})
}

func firstError(response *kmsg.OffsetCommitResponse, err error) error {
	if err != nil {
		return err
	}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *mixedMember) assigned(_ context.Context, client *kgo.Client, added map[string][]int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, partition := range added[m.topic] {
		m.owned[partition] = true
	}
	memberID, generation := client.GroupMetadata()
	m.generation = generation
	say("assigned", map[string]any{
		"generation": generation, "member": memberID, "partitions": slices.AppendSeq([]int32{}, maps.Keys(m.owned)),
	})
}

func (m *mixedMember) revoked(ctx context.Context, _ *kgo.Client, gone map[string][]int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.commit(ctx)
	m.take("revoked", gone[m.topic])
}

func (m *mixedMember) lost(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.take("lost", gone[m.topic])
}

func (m *mixedMember) take(event string, gone []int32) {
	for _, partition := range gone {
		delete(m.owned, partition)
		delete(m.positions, partition)
	}
	say(event, map[string]any{"partitions": append([]int32{}, gone...)})
}

func say(event string, fields map[string]any) {
	fields["event"] = event
	line, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(line, '\n'))
}
