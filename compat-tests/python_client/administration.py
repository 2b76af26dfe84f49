"""Topics made, described, changed, cut and deleted."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import closing

from python_client.adapter import Adapter, Record
from python_client.checks import equal, fresh_topic, read, same_records, send_all, until
from python_client.records import sample


def topics(adapter: Adapter) -> None:
    name, other = (f"admin-{uuid.uuid4().hex[:12]}" for _ in range(2))
    with closing(adapter.admin()) as admin:
        admin.create(name, 3, {})
        admin.create(other, 1, {})
        until(lambda: {name, other} <= admin.topics(), "both topics to be listed")
        equal([admin.partitions(name), admin.partitions(other)], [3, 1], "partitions")
        _refused(adapter, lambda: admin.create(name, 3, {}), 36)
        _refused(adapter, lambda: admin.create("no such/name", 1, {}), 17)
        admin.delete(name)
        until(lambda: name not in admin.topics(), f"{name} to be gone")
        assert other in admin.topics(), f"{other} is gone as well"
        _refused(adapter, lambda: admin.delete(name), 3)


def _refused(adapter: Adapter, call: Callable[[], object], code: int) -> None:
    try:
        call()
    except Exception as error:
        equal(adapter.error_code(error), code, f"error code of {error!r}")
    else:
        raise AssertionError(f"taken, where error {code} was due")


def configs(adapter: Adapter) -> None:
    topic = fresh_topic(adapter, "configs", retention_ms="3600000")
    with closing(adapter.admin()) as admin:
        found = admin.configs(topic)
        equal(found["retention.ms"], "3600000", "retention.ms")
        equal(found["cleanup.policy"], "delete", "cleanup.policy")
        admin.alter(topic, {"retention.ms": "7200000", "max.message.bytes": "2000"})
        changed = {"retention.ms": "7200000", "max.message.bytes": "2000"}
        until(lambda: changed.items() <= admin.configs(topic).items(), "the altered configs")
        _refused(adapter, lambda: admin.alter(topic, {"retention.ms": "soon"}), 40)
    with closing(adapter.producer()) as producer:
        _refused(adapter, producer.send(topic, Record(b"x" * 3000)), 10)


def partitions(adapter: Adapter) -> None:
    topic = fresh_topic(adapter, "partitions", 2)
    with closing(adapter.admin()) as admin:
        admin.add_partitions(topic, 5)
        until(lambda: admin.partitions(topic) == 5, "five partitions")
        _refused(adapter, lambda: admin.add_partitions(topic, 3), 37)
    records = [Record(r.value, r.key, partition=4) for r in sample(10)]
    with closing(adapter.producer()) as producer:
        send_all(producer, topic, records)
    with closing(adapter.consumer()) as consumer:
        consumer.assign(topic, [4])
        same_records(read(consumer, len(records)), records)


def delete_records(adapter: Adapter) -> None:
    topic = fresh_topic(adapter, "delete-records")
    records = sample(10)
    with closing(adapter.producer()) as producer:
        send_all(producer, topic, records)
    with closing(adapter.admin()) as admin:
        equal(admin.delete_records(topic, 0, 6), 6, "first offset that is left")
        _refused(adapter, lambda: admin.delete_records(topic, 0, 11), 1)
    with closing(adapter.consumer()) as consumer:
        consumer.assign(topic, [0])
        equal(consumer.bounds(topic, 0), (6, 10), "first offset and end")
        consumer.seek_to_beginning(topic, 0)
        same_records(read(consumer, 4), records[6:], 6)
