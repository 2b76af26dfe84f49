package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const partitions = 6

func groupOptions(topic, group string) []kgo.Opt {
	return []kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(500 * time.Millisecond),
	}
}

// member reads as a member until a line comes on standard input, and then leaves in order.
func member(s *server, topic, group string) error {
	var lock sync.Mutex
	owned := map[int32]bool{}
	change := func(owns bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			lock.Lock()
			defer lock.Unlock()
			for _, partition := range changed[topic] {
				if owns {
					owned[partition] = true
				} else {
					delete(owned, partition)
				}
			}
			fmt.Println("owned", strings.Trim(fmt.Sprint(slices.Sorted(maps.Keys(owned))), "[]"))
		}
	}
	options := append(groupOptions(topic, group), kgo.AutoCommitInterval(500*time.Millisecond),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)))
	client, err := s.client(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, leave := context.WithCancel(context.Background())
	go func() {
		bufio.NewReader(os.Stdin).ReadString('\n')
		leave()
	}()
	for ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(one *kgo.Record) {
			fmt.Println("record", one.Partition, one.Offset, string(one.Value))
		})
	}
	return nil
}

// aMember is one in a process of its own.
type aMember struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	done    chan struct{}
	lock    sync.Mutex
	owned   []int
	records map[string]string // by "partition offset"
}

func (m *aMember) take(line string) {
	m.lock.Lock()
	defer m.lock.Unlock()
	words := strings.SplitN(line, " ", 4)
	switch words[0] {
	case "record":
		m.records[words[1]+" "+words[2]] = words[3]
	case "owned":
		m.owned = nil
		for _, word := range strings.Fields(line)[1:] {
			number, _ := strconv.Atoi(word)
			m.owned = append(m.owned, number)
		}
	}
}

func (m *aMember) leave() error {
	fmt.Fprintln(m.stdin, "leave")
	<-m.done
	return m.command.Wait()
}

// kill tells the group nothing.
func (m *aMember) kill() {
	m.command.Process.Kill()
	<-m.done
	m.command.Wait()
}

// aGroup is a topic, a group of it, and what was sent.
type aGroup struct {
	server       *server
	topic, group string
	producer     *kgo.Client
	members      []*aMember
	sent         map[string]string
}

func newGroup(s *server) (*aGroup, error) {
	topic, err := s.topic("group", partitions, nil)
	if err != nil {
		return nil, err
	}
	producer, err := s.client()
	return &aGroup{server: s, topic: topic, group: fresh("group"), producer: producer, sent: map[string]string{}}, err
}

func (g *aGroup) close() {
	g.producer.Close()
	for _, one := range g.members {
		one.kill()
	}
}

func (g *aGroup) join() (*aMember, error) {
	command := exec.Command(os.Args[0], "member:"+g.topic+":"+g.group, g.server.bootstrap)
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	m := &aMember{command: command, stdin: stdin, done: make(chan struct{}), records: map[string]string{}}
	if err := command.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(m.done)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			m.take(lines.Text())
		}
	}()
	g.members = append(g.members, m)
	return m, nil
}

// settle waits until these have all partitions between them, each has some, nobody has another's.
func (g *aGroup) settle(members ...*aMember) error {
	return until(fmt.Sprintf("%d members to share the partitions", len(members)), func() bool {
		var all []int
		for _, one := range members {
			one.lock.Lock()
			owned := slices.Clone(one.owned)
			one.lock.Unlock()
			if len(owned) == 0 {
				return false
			}
			all = append(all, owned...)
		}
		slices.Sort(all)
		return slices.Equal(all, []int{0, 1, 2, 3, 4, 5})
	})
}

// sendAndSee has records of every partition arrive at these members, with their contents.
func (g *aGroup) sendAndSee(label string, members ...*aMember) error {
	records := make([]*kgo.Record, partitions*10)
	for n := range records {
		records[n] = &kgo.Record{Topic: g.topic, Partition: int32(n % partitions), Value: fmt.Appendf(nil, "%s %d", label, n)}
	}
	if err := send(g.producer, records); err != nil {
		return err
	}
	fresh := map[string]string{}
	for _, one := range records {
		fresh[fmt.Sprintf("%d %d", one.Partition, one.Offset)] = string(one.Value)
	}
	maps.Copy(g.sent, fresh)
	return until("records "+label, func() bool {
		seen := seenBy(members)
		for place, value := range fresh {
			if seen[place] != value {
				return false
			}
		}
		return true
	})
}

func seenBy(members []*aMember) map[string]string {
	seen := map[string]string{}
	for _, one := range members {
		one.lock.Lock()
		maps.Copy(seen, one.records)
		one.lock.Unlock()
	}
	return seen
}

func (g *aGroup) checkAllSeen() error {
	if seen := seenBy(g.members); !maps.Equal(seen, g.sent) {
		return fmt.Errorf("the members read %v, not %v", seen, g.sent)
	}
	return nil
}

func joinLeave(s *server) error {
	group, err := newGroup(s)
	if err != nil {
		return err
	}
	defer group.close()
	first, err := group.join()
	if err != nil {
		return err
	}
	var second *aMember
	return inOrder(
		func() error { return group.settle(first) },
		func() error { return group.sendAndSee("alone", first) },
		func() error { second, err = group.join(); return err },
		func() error { return group.settle(first, second) },
		func() error { return group.sendAndSee("shared", first, second) },
		func() error { return second.leave() },
		func() error { return group.settle(first) },
		func() error { return group.sendAndSee("alone again", first) },
		group.checkAllSeen,
	)
}

func killed(s *server) error {
	group, err := newGroup(s)
	if err != nil {
		return err
	}
	defer group.close()
	first, err := group.join()
	if err != nil {
		return err
	}
	second, err := group.join()
	if err != nil {
		return err
	}
	return inOrder(
		func() error { return group.settle(first, second) },
		func() error { return group.sendAndSee("shared", first, second) },
		func() error { second.kill(); return nil },
		func() error { return group.settle(first) },
		func() error { return group.sendAndSee("the other is gone", first) },
		group.checkAllSeen,
	)
}

func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func commits(s *server) error {
	topic, err := s.topic("commits", 1, nil)
	if err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	defer client.Close()
	group := fresh("commits")
	records := sample(topic, 100, "commits")
	if err := send(client, records); err != nil {
		return err
	}
	ctx, cancel := limited()
	defer cancel()
	admin := kadm.NewClient(client)
	if err := admin.CommitAllOffsets(ctx, group, kadm.Offsets{topic: {0: {Topic: topic, At: 50, LeaderEpoch: -1, Metadata: "half"}}}); err != nil {
		return err
	}
	found, err := admin.FetchOffsets(ctx, group)
	if err != nil {
		return err
	}
	one, _ := found.Lookup(topic, 0)
	if err := equal(fmt.Sprint(one.At, one.Metadata), fmt.Sprint(50, "half"), "committed"); err != nil {
		return err
	}
	if err := resume(s, admin, topic, group, records[50:], 50); err != nil {
		return err
	}
	more := sample(topic, 10, "more")
	if err := send(client, more); err != nil {
		return err
	}
	return resume(s, admin, topic, group, more, 100)
}

// resume reads on as a member, commits and leaves.
func resume(s *server, admin *kadm.Client, topic, group string, wanted []*kgo.Record, offset int64) error {
	client, err := s.client(append(groupOptions(topic, group), kgo.DisableAutoCommit())...)
	if err != nil {
		return err
	}
	defer client.Close()
	found, err := read(client, len(wanted))
	if err != nil {
		return err
	}
	if err := check(found, wanted, offset); err != nil {
		return err
	}
	ctx, cancel := limited()
	defer cancel()
	if err := client.CommitRecords(ctx, found...); err != nil {
		return err
	}
	committed, err := admin.FetchOffsets(ctx, group)
	if err != nil {
		return err
	}
	one, _ := committed.Lookup(topic, 0)
	return equal(one.At, offset+int64(len(wanted)), "committed")
}
