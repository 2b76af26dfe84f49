"""Transactions of one and of two producers, seen by readers of either isolation level."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing

from python_client.adapter import Adapter, Consumer, Producer, Record, TransactionalProducer
from python_client.checks import POLL_SECONDS, equal, fresh_topic, read, send_all, until

EACH = 20
PARTITIONS = 2
SHORT_TIMEOUT_MS = 1000
ROUND_RECORDS = 30
# A reader that has nothing more to be given is asked so often.
EMPTY_POLLS = 3


def commit_and_abort(adapter: Adapter) -> None:
    """Four, of which each second one is aborted, and one that is open while others read."""
    topic = fresh_topic(adapter, "transactions", PARTITIONS)
    committed: list[str] = []
    everything: list[str] = []
    with closing(adapter.transactional(_id())) as producer:
        for n in range(4):
            values = _values(f"transaction {n}")
            producer.begin()
            write(producer, topic, values)
            everything += values
            if n % 2 == 0:
                producer.commit()
                committed += values
            else:
                producer.abort()
        producer.begin()
        last = _values("open")
        write(producer, topic, last)
        _check_read(adapter, topic, committed, read_committed=True)
        _check_read(adapter, topic, everything + last, read_committed=False)
        producer.commit()
        # A transaction without a record ends as well.
        producer.begin()
        producer.commit()
    _check_read(adapter, topic, committed + last, read_committed=True)
    _check_read(adapter, topic, everything + last, read_committed=False)


def fencing(adapter: Adapter) -> None:
    """A second producer of the same transactional id aborts what the first has open, and ends it for good."""
    topic, name = fresh_topic(adapter, "fencing", PARTITIONS), _id()
    committed = _values("of the second")
    with closing(adapter.transactional(name)) as first:
        first.begin()
        write(first, topic, _values("of the first"))
        with closing(adapter.transactional(name)) as second:
            second.begin()
            write(second, topic, committed)
            _fenced(adapter, first.commit)
            second.commit()
    _check_read(adapter, topic, committed, read_committed=True)


def timeout(adapter: Adapter) -> None:
    """What is open for too long is aborted, and its producer's commit refused; the next one goes on."""
    topic, name = fresh_topic(adapter, "timeout", PARTITIONS), _id()
    committed = _values("after the timeout")
    with closing(adapter.transactional(name, timeout_ms=SHORT_TIMEOUT_MS)) as slow:
        slow.begin()
        write(slow, topic, _values("too slow"))
        with closing(adapter.producer()) as other:
            write(other, topic, ["behind it 0", "behind it 1"])
        # Readers are held back by what is open, until it is aborted.
        _check_read(adapter, topic, ["behind it 0", "behind it 1"], read_committed=True)
        _fenced(adapter, slow.commit)
    with closing(adapter.transactional(name)) as following:
        following.begin()
        write(following, topic, committed)
        following.commit()
    _check_read(adapter, topic, ["behind it 0", "behind it 1", *committed], read_committed=True)


def offsets(adapter: Adapter) -> None:
    """Consume, transform, produce: each second time aborted, and done again from what is committed."""
    start, end = (fresh_topic(adapter, name, PARTITIONS) for name in ("from", "to"))
    group = f"group-{uuid.uuid4().hex[:12]}"
    values = [value for n in range(10) for value in _values(f"input {n}")]
    with closing(adapter.producer()) as producer:
        write(producer, start, values)
    with (
        closing(adapter.transactional(_id())) as transactional,
        closing(adapter.consumer(group, read_committed=True)) as consumer,
    ):
        consumer.subscribe(start)
        _copy(transactional, consumer, start, end, len(values))
    _check_committed(adapter, start, group, [len(values) // PARTITIONS] * PARTITIONS)
    _check_read(adapter, end, [f"seen {value}" for value in values], read_committed=True)
    if adapter.tells_membership:
        _stale_member(adapter)


def _stale_member(adapter: Adapter) -> None:
    """Offsets of a member whose generation has passed are refused; the producer aborts, and goes on."""
    topic = fresh_topic(adapter, "stale", PARTITIONS)
    group = f"group-{uuid.uuid4().hex[:12]}"
    values = _values("input")
    with closing(adapter.producer()) as producer:
        write(producer, topic, values)
    with closing(adapter.transactional(_id())) as transactional:
        with closing(adapter.consumer(group)) as first:
            first.subscribe(topic)
            read(first, len(values))
            passed = first.membership()
        with closing(adapter.consumer(group)) as second:
            second.subscribe(topic)
            read(second, len(values))
            transactional.begin()
            _refused(adapter, lambda: transactional.send_offsets(passed, topic, {0: 1}))
            transactional.abort()
            transactional.begin()
            transactional.send_offsets(second.membership(), topic, {0: 7, 1: 8})
            transactional.commit()
    _check_committed(adapter, topic, group, [7, 8])


def _check_committed(adapter: Adapter, topic: str, group: str, wanted: list[int]) -> None:
    """The end of a transaction is decided when it is answered; offsets follow with its marker."""
    with closing(adapter.consumer(group)) as consumer:
        consumer.assign(topic, range(PARTITIONS))
        until(
            lambda: [consumer.committed(topic, n) for n in range(PARTITIONS)] == wanted,
            f"the committed offsets {wanted}",
        )


def _copy(producer: TransactionalProducer, consumer: Consumer, start: str, end: str, count: int) -> None:
    """All of `start` to `end`; a round is the next records of each partition, in one transaction."""
    waiting: list[Record] = []
    done: dict[int, int] = {}
    again = False
    while sum(done.values()) < count:
        if not waiting:
            waiting = read(consumer, 1)
        some = waiting[:ROUND_RECORDS]
        producer.begin()
        write(producer, end, [f"seen {_text(one)}" for one in some])
        positions = positions_after(some)
        producer.send_offsets(consumer.membership(), start, positions)
        if again:
            producer.commit()
            done |= positions
            waiting = waiting[len(some) :]
        else:
            producer.abort()
            for partition in positions:
                equal(consumer.committed(start, partition), done.get(partition), "offset after an abort")
        again = not again


def positions_after(records: Iterable[Record]) -> dict[int, int]:
    """By partition, where to go on."""
    return {one.partition: one.offset + 1 for one in records}


def write(producer: Producer, topic: str, values: Sequence[str]) -> None:
    """Each value to the partition that it always has; acknowledged when it returns."""
    records = [Record(value.encode(), partition=_partition(value)) for value in values]
    send_all(producer, topic, records)


def _check_read(adapter: Adapter, topic: str, wanted: list[str], *, read_committed: bool) -> None:
    """Exactly these, in order in each partition, and then nothing."""
    by_partition = _by_partition(wanted)
    with closing(adapter.consumer(read_committed=read_committed)) as consumer:
        for partition in range(PARTITIONS):
            consumer.assign(topic, [partition])
            consumer.seek_to_beginning(topic, partition)
            found = _read_whole(consumer, len(by_partition[partition]))
            equal(found, by_partition[partition], f"partition {partition}, {read_committed=}")


def _read_whole(consumer: Consumer, count: int) -> list[str]:
    """So many values, and whatever comes after them."""
    found = read(consumer, count) if count else []
    for _ in range(EMPTY_POLLS):
        found += consumer.poll(POLL_SECONDS)
    return [_text(one) for one in found]


def _by_partition(values: Sequence[str]) -> Mapping[int, list[str]]:
    found: dict[int, list[str]] = {partition: [] for partition in range(PARTITIONS)}
    for value in values:
        found[_partition(value)].append(value)
    return found


def _fenced(adapter: Adapter, call: Callable[[], object]) -> None:
    error = _raised(call, "where the producer had to be fenced")
    assert adapter.is_fenced(error), f"{error!r} does not tell that the producer is fenced"


def _refused(adapter: Adapter, call: Callable[[], object]) -> None:
    error = _raised(call, "where the member is none any more")
    assert adapter.is_stale_member(error), f"{error!r} does not tell that the member is none any more"


def _raised(call: Callable[[], object], where: str) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError(f"taken, {where}")


def _values(label: str) -> list[str]:
    return [f"{label} {n}" for n in range(EACH)]


def _partition(value: str) -> int:
    return int(value.rsplit(" ", 1)[1]) % PARTITIONS


def _text(record: Record) -> str:
    assert record.value is not None
    return record.value.decode()


def _id() -> str:
    return f"id-{uuid.uuid4().hex[:12]}"
