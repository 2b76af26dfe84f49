"""Restores to an earlier time that cut logs inside transactions: nothing hangs, nothing is half committed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.backup import scene
from tests.backup.scene import dafka
from tests.backup.test_standalone import ARGUMENTS, restored
from tests.backup.test_transactions import SECONDS, begin, consumed, stable_end, transactional
from tests.peers.standalone import Standalone


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Standalone]:
    with Standalone(tmp_path / "data", *ARGUMENTS, directory=tmp_path / "old") as server:
        yield server


def go_on(to: Producer, topic: str, first: int, end: int) -> None:
    """More of a transaction, acknowledged."""
    for number in range(first, end):
        to.produce(topic, b"%d " % number + bytes(5000), partition=0)
    assert to.flush(SECONDS) == 0


def send_offset(to: Producer, group: str, topic: str, offset: int) -> None:
    """A group's offset, in the transaction that is open."""
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": group})
    to.send_offsets_to_transaction(
        [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), SECONDS
    )
    consumer.close()


def ends_are_decided(at: str, *topics: str) -> None:
    """Nobody who reads what is committed waits for anything."""
    for topic in topics:
        end = scene.end_of(at, topic)
        scene.settle(lambda: stable_end(at, topic) == end, f"{topic} is decided to its end")  # noqa: B023


@pytest.mark.parametrize("is_commit", [True, False], ids=["committed-later", "aborted-later"])
def test_what_was_open_at_that_time_is_aborted(tmp_path: Path, server: Standalone, is_commit: bool) -> None:
    at, target = server.bootstrap, tmp_path / "target"
    scene.create(at, "out", segment_bytes=scene.SEGMENT_BYTES)
    to = transactional(at, "t")
    begin(to, "out", range(10))
    to.commit_transaction(SECONDS)
    begin(to, "out", range(10, 260))
    then = datetime.now(UTC).isoformat()
    go_on(to, "out", 260, 500)
    (to.commit_transaction if is_commit else to.abort_transaction)(SECONDS)
    begin(to, "out", range(500, 510))
    to.commit_transaction(SECONDS)
    assert dafka("backup", "take", target, "--data", server.data) == 0
    with restored(tmp_path, server, "--before", then) as new:
        assert 100 < scene.end_of(at, "out") < 400
        ends_are_decided(at, "out")
        assert consumed(at, "out") == list(range(10))
        # The one that was there before knows nothing of all this, and begins again as after any failure.
        again = transactional(at, "t")
        begin(again, "out", range(900, 905))
        again.commit_transaction(SECONDS)
        assert consumed(at, "out") == [*range(10), *range(900, 905)]
        new.restart()
        assert consumed(at, "out") == [*range(10), *range(900, 905)]


def test_one_that_is_open_in_the_backup_is_not_committed_in_part(tmp_path: Path, server: Standalone) -> None:
    at, target = server.bootstrap, tmp_path / "target"
    scene.create(at, "cut", segment_bytes=scene.SEGMENT_BYTES)
    to = transactional(at, "t")
    begin(to, "cut", range(250))
    send_offset(to, "g", "cut", 3)
    then = datetime.now(UTC).isoformat()
    go_on(to, "cut", 250, 300)
    assert dafka("backup", "take", target, "--data", server.data) == 0
    with restored(tmp_path, server, "--before", then):
        ends_are_decided(at, "cut")
        assert consumed(at, "cut") == []
        assert scene.committed(at, "g") in ({}, {("cut", 0): -1001})
        # Its producer is still there, and must not commit the half that is left.
        with pytest.raises(Exception, match=r"FENCED|INVALID_PRODUCER_EPOCH|INVALID_TXN_STATE|fenced"):
            to.commit_transaction(SECONDS)
        assert consumed(at, "cut") == []


def test_offsets_that_were_committed_later_with_a_transaction_are_as_they_were(
    tmp_path: Path, server: Standalone
) -> None:
    at, target = server.bootstrap, tmp_path / "target"
    scene.create(at, "in", segment_bytes=scene.SEGMENT_BYTES)
    scene.create(at, "out")
    scene.produce(scene.producer(at), "in", range(500))
    to = transactional(at, "t")
    begin(to, "out", range(10))
    send_offset(to, "g", "in", 5)
    to.commit_transaction(SECONDS)
    scene.settle(lambda: scene.committed(at, "g") == {("in", 0): 5}, "the offset has its marker")
    then = datetime.now(UTC).isoformat()
    begin(to, "out", range(10, 20))
    send_offset(to, "g", "in", 90)
    send_offset(to, "new", "in", 90)
    to.commit_transaction(SECONDS)
    scene.produce(scene.producer(at), "in", range(500, 700))
    assert dafka("backup", "take", target, "--data", server.data) == 0
    with restored(tmp_path, server, "--before", then):
        assert scene.end_of(at, "in") > 90
        ends_are_decided(at, "in", "out")
        assert scene.committed(at, "g") == {("in", 0): 5}
        assert scene.committed(at, "new") in ({}, {("in", 0): -1001})
