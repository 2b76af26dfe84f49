"""The server is killed while records are on their way to it and others are read."""

from __future__ import annotations

import sys
from contextlib import closing

from python_client.adapter import Adapter, Record
from python_client.checks import equal, fresh_topic, read, same_but_for_repeats, same_records, send_all
from python_client.records import sample


def reconnect(adapter: Adapter) -> None:
    topic = fresh_topic(adapter, "reconnect")
    before, during, after = (
        [Record(b"%s %s" % (label, r.value or b""), r.key) for r in sample(100)]
        for label in (b"before", b"during", b"after")
    )
    with (
        closing(adapter.producer(idempotent=True)) as producer,
        closing(adapter.consumer()) as consumer,
    ):
        consumer.assign(topic, [0])
        send_all(producer, topic, before)
        found = read(consumer, len(before))
        same_records(found, before)
        print("kill-server", flush=True)
        waiting = [producer.send(topic, record) for record in during]
        equal(sys.stdin.readline(), "restarted\n", "what the runner says")
        for offset in waiting:
            offset()
        send_all(producer, topic, after)
        _first, end = consumer.bounds(topic, 0)
        found = [*found, *read(consumer, end - len(before))]
    wanted = [*before, *during, *after]
    if adapter.can_be_idempotent:
        same_records(found, wanted)
    else:
        same_but_for_repeats(found, wanted)
    with closing(adapter.consumer()) as fresh:
        fresh.assign(topic, [0])
        equal(read(fresh, end), found, "what a new consumer reads")
