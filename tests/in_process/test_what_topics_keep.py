"""What topics keep, seen from clients: retention, compaction, and a gateway that is killed in the middle."""

from __future__ import annotations

import itertools
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from tests.clients.stored import create_topic, put
from tests.differential.batches import Record, records_of, whole_batches
from tests.differential.wire import Connection
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.copies import copy_data
from tests.peers.standalone import Standalone

OUT_OF_RANGE = 1
EARLIEST, LATEST = -2, -1
PATIENCE_SECONDS = 120.0
HOUR_MS = "3600000"  # the records of these tests are years old
QUICK = ("--retention-check-interval-ms", "100", "--compaction-backoff-ms", "100", "--fsync", "never")
POINT = "DAFKA_TEST_CRASH_POINT"

Found = list[tuple[int, Record]]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Standalone(None, *QUICK, directory=tmp_path_factory.mktemp("keeping")) as server:
        yield server.bootstrap


def offset_of(bootstrap: str, topic: str, timestamp: int) -> int:
    of = ListOffsetsRequest.ListOffsetsTopic
    part = of.ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=-1)
    question = ListOffsetsRequest(
        version=5, replica_id=-1, isolation_level=0, topics=[of(name=topic, partitions=[part])]
    )
    with Connection(bootstrap) as connection:
        answer = connection.ask(question).topics[0].partitions[0]
    assert answer.error_code == 0, answer
    return int(answer.offset)


def fetch(bootstrap: str, topic: str, offset: int) -> tuple[int, int, Found]:
    """(error code, log start offset, records)."""
    of = FetchRequest.FetchTopic
    part = of.FetchPartition(
        partition=0, fetch_offset=offset, log_start_offset=-1, current_leader_epoch=-1,
        partition_max_bytes=4 << 20,
    )  # fmt: skip
    question = FetchRequest(
        version=11, replica_id=-1, max_wait_ms=100, min_bytes=0, max_bytes=4 << 20, isolation_level=0,
        session_id=0, session_epoch=-1, topics=[of(topic=topic, partitions=[part])],
        forgotten_topics_data=[], rack_id="",
    )  # fmt: skip
    with Connection(bootstrap) as connection:
        answer = connection.ask(question).responses[0].partitions[0]
    batches = list(whole_batches(answer.records))
    assert all(one.crc_is_right for one in batches)
    found = [pair for one in batches for pair in records_of(one) if pair[0] >= offset]
    if batches and not found:  # a batch that compaction has emptied
        last = batches[-1].base_offset + batches[-1].last_offset_delta
        return fetch(bootstrap, topic, last + 1)
    return answer.error_code, answer.log_start_offset, found


def read(bootstrap: str, topic: str, offset: int | None = None) -> Found:
    """Every record from an offset (the earliest one) to the high watermark."""
    found: Found = []
    place = offset_of(bootstrap, topic, EARLIEST) if offset is None else offset
    end = offset_of(bootstrap, topic, LATEST)
    while place < end:
        error, _, records = fetch(bootstrap, topic, place)
        assert error == 0
        if not records:
            break
        found += records
        place = found[-1][0] + 1
    return found


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def newest(records: Sequence[tuple[int, Record]]) -> Found:
    """What compaction leaves; tombstones are young here."""
    last = {record.key: offset for offset, record in records}
    return [(offset, record) for offset, record in records if last[record.key] == offset]


# retention -------------------------------------------------------------------------------------------------


def test_expired_records_go_from_an_idle_topic_and_offsets_go_on(bootstrap: str) -> None:
    topic = create_topic(bootstrap, "expiring", retention_ms=HOUR_MS)
    kept = create_topic(bootstrap, "kept", retention_ms="-1")
    for name in (topic, kept):
        put(bootstrap, name, [Record(b"%d" % n) for n in range(20)])
    until(lambda: offset_of(bootstrap, topic, EARLIEST) == 20)
    assert offset_of(bootstrap, topic, LATEST) == 20
    assert fetch(bootstrap, topic, 3)[0] == OUT_OF_RANGE, "a slow reader is told"
    assert fetch(bootstrap, topic, 20) == (0, 20, [])
    now = int(time.time() * 1000)
    put(bootstrap, topic, [Record(b"young", timestamp=now)])
    assert read(bootstrap, topic) == [(20, Record(b"young", timestamp=now))]
    assert [record.value for _, record in read(bootstrap, kept)] == [b"%d" % n for n in range(20)]


def test_a_partition_keeps_as_many_bytes_as_it_was_told_to(bootstrap: str) -> None:
    topic = create_topic(
        bootstrap,
        "bytes",
        retention_bytes=str(1 << 20),
        segment_bytes=str(1 << 20),
        max_message_bytes="2000000",
    )
    values = [bytes([n]) * 700_000 for n in range(6)]
    for value in values:
        put(bootstrap, topic, [Record(value)])
    until(lambda: offset_of(bootstrap, topic, EARLIEST) == 4)
    assert read(bootstrap, topic) == [(4, Record(values[4])), (5, Record(values[5]))]
    assert fetch(bootstrap, topic, 2)[:2] == (OUT_OF_RANGE, -1)


def test_a_reader_in_the_middle_goes_on_where_the_log_begins(bootstrap: str) -> None:
    """As consumers with `auto.offset.reset=earliest` do, through all that goes under their feet."""
    topic = create_topic(bootstrap, "moving", retention_ms=HOUR_MS, segment_ms="1")
    now = int(time.time() * 1000)
    sent = [Record(b"%d" % n, timestamp=1_700_000_000_000 if n < 60 else now) for n in range(100)]
    put(bootstrap, topic, sent, per_batch=4)
    seen: Found = []
    place, resets = 0, 0
    while place < len(sent):
        error, _, records = fetch(bootstrap, topic, place)
        if error:
            assert error == OUT_OF_RANGE
            place = offset_of(bootstrap, topic, EARLIEST)
            resets += 1
            continue
        seen += records[:7]
        place = seen[-1][0] + 1 if records else place
    assert all(record == sent[offset] for offset, record in seen)
    assert [record for _, record in seen][-40:] == sent[60:]
    until(lambda: offset_of(bootstrap, topic, EARLIEST) == 60)


# compaction ------------------------------------------------------------------------------------------------


def table(seed: int, count: int = 120) -> list[Record]:
    """Records of few keys, some of them tombstones, a second apart; the last one's key is its own."""
    chance = random.Random(seed)
    start = int(time.time() * 1000) - 1000 * (count + 10)
    records = [
        Record(
            None if chance.random() < 0.1 else bytes(chance.randbytes(20)),
            key=b"k%d" % chance.randrange(15),
            timestamp=start + 1000 * n,
            headers=(("n", b"%d" % n),),
        )
        for n in range(count)
    ]
    return [*records, Record(b"end", key=b"end", timestamp=start + 1000 * count)]


COMPACT = {"cleanup_policy": "compact", "segment_ms": "1", "min_cleanable_dirty_ratio": "0.01"}


def test_a_compacted_topic_keeps_the_newest_of_each_key(bootstrap: str) -> None:
    topic = create_topic(bootstrap, "table", 1, **COMPACT)
    records = table(1)
    put(bootstrap, topic, records, per_batch=5, codec="zstd")
    expected = newest(list(enumerate(records)))
    until(lambda: read(bootstrap, topic) == expected)
    assert offset_of(bootstrap, topic, LATEST) == len(records)
    for offset in range(0, len(records), 7):
        assert read(bootstrap, topic, offset) == [pair for pair in expected if pair[0] >= offset]
    more = table(2)
    put(bootstrap, topic, more, per_batch=3)
    whole = list(enumerate(records + more))
    until(lambda: read(bootstrap, topic) == newest(whole))


def test_both_policies_hold_together(bootstrap: str) -> None:
    """Old values go although they are the newest of their keys."""
    configs = COMPACT | {"cleanup_policy": "compact,delete", "retention_ms": HOUR_MS}
    topic = create_topic(bootstrap, "both", 1, **configs)
    put(bootstrap, topic, [Record(b"old", key=b"%d" % n) for n in range(20)])
    until(lambda: offset_of(bootstrap, topic, EARLIEST) == 20)
    records = table(3)
    put(bootstrap, topic, records, per_batch=5)
    expected = [(offset + 20, record) for offset, record in newest(list(enumerate(records)))]
    until(lambda: read(bootstrap, topic) == expected)


@pytest.mark.slow
def test_what_is_left_is_what_apache_kafka_leaves(bootstrap: str) -> None:
    """The same batches to both, every codec among them; offsets, times and headers are compared."""
    cleaner = {"log.cleaner.backoff.ms": "200", "log.retention.check.interval.ms": "1000"}
    records = table(4, 200)
    pieces = [records[start : start + 5] for start in range(0, len(records), 5)]
    codecs = itertools.cycle(("none", "gzip", "snappy", "lz4", "zstd"))
    with ApacheKafka(properties=cleaner) as kafka:
        for server in (kafka.bootstrap, bootstrap):
            create_topic(server, "compared", 1, **COMPACT)
        for piece, codec in zip(pieces, codecs, strict=False):
            for server in (kafka.bootstrap, bootstrap):
                put(server, "compared", piece, codec=codec)
        # Kafka leaves its open segment alone: what comes now is in it.
        for server in (kafka.bootstrap, bootstrap):
            put(server, "compared", [Record(b"open", key=b"open", timestamp=records[-1].timestamp + 1000)])
        expected = newest(list(enumerate(records)))

        def compacted(server: str) -> bool:
            return [pair for pair in read(server, "compared") if pair[1].key != b"open"] == expected

        until(lambda: compacted(bootstrap))
        until(lambda: compacted(kafka.bootstrap))
        assert read(bootstrap, "compared") == read(kafka.bootstrap, "compared")


# killed in the middle --------------------------------------------------------------------------------------


WRITTEN = list(enumerate(table(5)))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with something to compact, and something that has expired."""
    directory = tmp_path_factory.mktemp("written")
    with Standalone(directory / "data", directory=directory / "logs") as server:
        create_topic(server.bootstrap, "table", 1, **COMPACT)
        put(server.bootstrap, "table", [record for _, record in WRITTEN], per_batch=5)
        create_topic(server.bootstrap, "expiring", retention_ms=HOUR_MS)
        put(server.bootstrap, "expiring", [Record(b"%d" % n) for n in range(20)])
        server.kill9()
    return directory / "data"


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        "during-compaction:3",
        "before-compaction-swap",
        "after-compaction-swap",
        "after-log-start",
    ],
)
def test_killed_in_the_middle_nothing_is_lost_and_it_is_done_later(
    point: str, written: Path, tmp_path: Path
) -> None:
    data = copy_data(written, tmp_path / "data")
    doomed = Standalone(data, *QUICK, directory=tmp_path / "doomed", environment={POINT: point})
    doomed.launch()
    assert doomed.wait() == -signal.SIGKILL, doomed.tail()
    slow = ("--retention-check-interval-ms", "600000", "--compaction-backoff-ms", "600000")
    with Standalone(data, *slow, directory=tmp_path / "after") as after:
        found = read(after.bootstrap, "table")
        assert newest(found) == newest(WRITTEN)
        assert set(found) <= set(WRITTEN)
        assert offset_of(after.bootstrap, "table", LATEST) == len(WRITTEN)
        assert offset_of(after.bootstrap, "expiring", LATEST) == 20
    with Standalone(data, *QUICK, directory=tmp_path / "done") as done:
        until(lambda: read(done.bootstrap, "table") == newest(WRITTEN))
        until(lambda: offset_of(done.bootstrap, "expiring", EARLIEST) == 20)
        put(done.bootstrap, "expiring", [Record(b"next", timestamp=int(time.time() * 1000))])
        assert [offset for offset, _ in read(done.bootstrap, "expiring")] == [20]
