package main

// mixed is the role: producers at a rate, readers at the log's end, one that reads an old log from its start, and one
// that sends a record and waits for it, whose times are the percentiles. All at once, on one server.
func mixed(o options) (result, error) {
	var found result
	producers, err := startProducers(o)
	if err != nil {
		return found, err
	}
	followers, err := newFollowers(o)
	if err != nil {
		return found, err
	}
	replayers, err := newReaders(o, o.OldTopic, 1, 0)
	if err != nil {
		return found, err
	}
	failed := make(chan error, 8)
	followed, replayed := new(fetched), new(fetched)
	for _, one := range followers {
		go func() { report(failed, one.read(followed)) }()
	}
	for _, one := range replayers {
		go func() { report(failed, one.read(replayed)) }()
	}
	go func() { report(failed, <-producers.failed) }()
	single := o
	single.Clients, single.Rate, single.RecordBytes = 1, 0, 100
	single.Topic = o.OldTopic
	note := func(sign int64) {
		producers.counted.into(&found, sign)
		found.FollowedBytes += sign * followed.records.Load() * int64(o.RecordBytes)
		found.ReplayedBytes += sign * replayed.records.Load() * int64(o.RecordBytes)
	}
	timed, err := sync1With(single, failed, func() { note(-1) }, func() { note(1) })
	if err != nil {
		return found, err
	}
	followed.stop.Store(true)
	replayed.stop.Store(true)
	if err := producers.finish(); err != nil {
		return found, err
	}
	found.Seconds, found.ServerSeconds, found.ClientSeconds = timed.Seconds, timed.ServerSeconds, timed.ClientSeconds
	found.P50, found.P99, found.P999 = timed.P50, timed.P99, timed.P999
	found.Requests += timed.Requests
	return found, nil
}

func report(failed chan<- error, err error) {
	if err != nil {
		failed <- err
	}
}

// newFollowers read what comes to the topic from now on.
func newFollowers(o options) ([]*reader, error) {
	address, err := leader(o.Bootstrap)
	if err != nil {
		return nil, err
	}
	c, err := dial(address)
	if err != nil {
		return nil, err
	}
	r := &reader{connection: c, topic: o.Topic, positions: map[int32]int64{}, follows: true}
	ends, err := offsets(c, o.Topic, all(o.Partitions), -1)
	if err != nil {
		return nil, err
	}
	for _, index := range all(o.Partitions) {
		r.positions[index] = ends[index]
		r.order = append(r.order, index)
	}
	return []*reader{r}, nil
}
