"""Who looks at a group from outside: reads its log as it grows, asks what it has committed and who is
in it, and commits in the name of members whose generation is over. All over plain sockets, and over
kills of the server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from kafka.protocol.consumer import FetchRequest

from gateway.groups.consumer_protocol import assigned_partitions
from gateway.groups.internal_topic import OFFSETS_TOPIC, OFFSETS_TOPIC_PARTITIONS
from gateway.groups.records import GroupRecord, OffsetRecord, decode_record
from gateway.journal.internal_topic import partition_for
from mixed_groups.events import (
    OBSERVER,
    Described,
    Event,
    Events,
    Failed,
    LoggedGeneration,
    LoggedMember,
    LoggedOffset,
    LoggedTombstone,
    Shown,
    StaleCommit,
)
from mixed_groups.members import Membership
from tests.differential.batches import Record, records_of, whole_batches
from tests.differential.groups import describe
from tests.differential.offsets import commit, fetch, offset
from tests.differential.wire import Connection, UndecodableError

STALE = "stale"
"""Metadata of the commits that must be refused."""

ASK_SECONDS = 0.1
RETRY_SECONDS = 0.05
ANSWER_SECONDS = 10.0
FETCH_BYTES = 1024 * 1024
FETCH_WAIT_MS = 200


class Observer:
    """Two threads, from `start` to `stop`. `position` is how far the log was read."""

    def __init__(self, membership: Membership, partitions: int, events: Events) -> None:
        self._of, self._partitions, self._events = membership, partitions, events
        self._home = partition_for(membership.group, OFFSETS_TOPIC_PARTITIONS)
        self.position = 0
        self._last: LoggedGeneration | None = None
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._over_kills, args=(work,), name=work.__name__, daemon=True)
            for work in (self._follow, self._ask)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def end_of_log(self) -> int:
        """Where the group's partition ends now."""
        with Connection(self._of.bootstrap, timeout=ANSWER_SECONDS) as connection:
            answer = connection.ask(_fetch(self._home, self.position)).responses[0].partitions[0]
        return int(answer.high_watermark)

    def _over_kills(self, work: Callable[[Connection], None]) -> None:
        while not self._stop.wait(RETRY_SECONDS):
            try:
                with Connection(self._of.bootstrap, timeout=ANSWER_SECONDS) as connection:
                    while not self._stop.is_set():
                        work(connection)
            except (OSError, UndecodableError):
                continue  # killed in the middle of an answer, or not up yet

    # the log ------------------------------------------------------------------------------------------------

    def _follow(self, connection: Connection) -> None:
        answer = connection.ask(_fetch(self._home, self.position)).responses[0].partitions[0]
        if answer.error_code != 0:
            self._stop.wait(RETRY_SECONDS)
            return
        for batch in whole_batches(answer.records):
            if batch.base_offset > self.position:
                self._events.add(
                    Failed(OBSERVER, f"{self.position} to {batch.base_offset} is not in the log")
                )
            for position, record in records_of(batch):
                if position >= self.position:
                    self._take(connection, position, record)
            self.position = batch.base_offset + batch.last_offset_delta + 1

    def _take(self, connection: Connection, position: int, record: Record) -> None:
        for event in logged(self._of, position, record):
            self._events.add(event)
            if isinstance(event, LoggedGeneration):
                before, self._last = self._last, event
                if before is not None and before.generation < event.generation:
                    self._commit_late(connection, before)

    def _commit_late(self, connection: Connection, before: LoggedGeneration) -> None:
        """As one that was stopped and does not know that others went on without it."""
        for member in before.members[:1]:
            request = commit(
                self._of.group, {self._of.topic: [offset(0, 0, metadata=STALE)]}, version=7,
                generation=before.generation, member=member.member, instance=member.instance,
            )  # fmt: skip
            error = connection.ask(request).topics[0].partitions[0].error_code
            self._events.add(StaleCommit(before.generation, member.member, error))

    # the server's answers -----------------------------------------------------------------------------------

    def _ask(self, connection: Connection) -> None:
        for partition, committed in committed_offsets(connection, self._of, self._partitions).items():
            self._events.add(Shown(partition, committed))
        (group,) = connection.ask(describe(self._of.group, version=5)).groups
        if group.error_code == 0:
            self._events.add(described(self._of, group))
        self._stop.wait(ASK_SECONDS)


def committed_offsets(connection: Connection, of: Membership, partitions: int) -> dict[int, int]:
    """What is committed; partitions without an offset, or with an error, are left out."""
    wanted = {of.topic: range(partitions)}
    answer = connection.ask(fetch(of.group, wanted, version=5))
    return {
        part.partition_index: part.committed_offset
        for topic in answer.topics
        for part in topic.partitions
        if part.error_code == 0 and part.committed_offset >= 0
    }


def described(of: Membership, group: Any) -> Described:
    """What DescribeGroups says of the group."""
    members = ((one.member_id, owned_by(of, one.member_assignment) or ()) for one in group.members)
    return Described(group.group_state, tuple(members))


def owned_by(of: Membership, assignment: bytes) -> tuple[int, ...] | None:
    """The partitions of the group's topic, as often as they are named; None: that cannot be read."""
    if not assignment:
        return ()
    found = assigned_partitions(assignment)
    return None if found is None else tuple(sorted(found.get(of.topic, ())))


def logged(of: Membership, position: int, record: Record) -> Iterator[Event]:
    """What a record of `__consumer_offsets` says of this group."""
    assert record.key is not None
    found = decode_record(record.key, record.value)
    if found.group_id != of.group:
        return
    if found.value is None:
        yield LoggedTombstone(position, "the group" if isinstance(found, GroupRecord) else str(found))
    elif isinstance(found, OffsetRecord):
        # confluent-kafka sends the NUL behind its C string, too.
        metadata = found.value.metadata.removesuffix("\0")
        yield LoggedOffset(position, found.partition, found.value.offset, metadata)
    else:
        members = (
            LoggedMember(one.member_id, one.group_instance_id, owned_by(of, one.assignment))
            for one in found.value.members
        )
        yield LoggedGeneration(position, found.value.generation, found.value.protocol, tuple(members))


def _fetch(partition: int, position: int) -> FetchRequest:
    part = FetchRequest.FetchTopic.FetchPartition(
        partition=partition, fetch_offset=position, partition_max_bytes=FETCH_BYTES
    )
    return FetchRequest(
        version=11, max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=FETCH_BYTES,
        session_id=0, session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=OFFSETS_TOPIC, partitions=[part])],
    )  # fmt: skip
