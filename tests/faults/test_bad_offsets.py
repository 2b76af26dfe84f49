"""Offsets committed and fetched by requests that are well formed and ill meant: little memory, no harm."""

from __future__ import annotations

from uuid import UUID

import pytest
from kafka.protocol.admin import DeleteTopicsRequest
from kafka.protocol.metadata import MetadataRequest

from gateway.groups.internal_topic import OFFSETS_TOPIC
from tests.clients.stored import create_topic
from tests.differential.offsets import BY_ID, commit, delete, fetch, offset
from tests.differential.side import OF_GROUPS, await_coordinator, await_groups
from tests.differential.wire import Connection, encode
from tests.faults.victim import MIB, Victim

NO_ERROR, TOO_LARGE, POLICY_VIOLATION, UNKNOWN_SERVER_ERROR = 0, 12, 44, -1
UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID = 3, 100
METADATA = "m" * 4096


@pytest.fixture
def topic(victim: Victim) -> str:
    """A topic of 300 partitions, and the groups are served."""
    with victim.connect() as connection:
        await_coordinator(connection, OF_GROUPS)
        await_groups(connection)
    return victim.new_topic(partitions=300)


def test_one_offset_named_thousands_of_times(victim: Victim, topic: str) -> None:
    """It is one record; and when it is fetched so often, its metadata is not in the answer as often."""
    with victim.bounded(160 * MIB), victim.connect() as connection:
        many = {topic: [offset(0, number, -1, "x") for number in range(20_000)]}
        answer = connection.ask(commit("g", many))
        assert {one.error_code for one in answer.topics[0].partitions} == {NO_ERROR}
        assert connection.ask(fetch("g", None)).groups[0].topics[0].partitions[0].committed_offset == 19_999
        connection.ask(commit("g", {topic: [offset(0, 1, -1, METADATA)]}))
        for wanted in ([("g", {topic: [0] * 20_000})], [("g", None)] * 10_000):
            groups = connection.ask(fetch(wanted)).groups
            assert POLICY_VIOLATION in {group.error_code for group in groups}
            assert {group.error_code for group in groups} <= {NO_ERROR, POLICY_VIOLATION}


def test_commits_that_are_too_large(victim: Victim, topic: str) -> None:
    """All records of a commit go into one batch, or none does."""
    with victim.bounded(64 * MIB), victim.connect() as connection:
        large = {topic: [offset(index, 1, -1, METADATA) for index in range(300)]}
        answer = connection.ask(commit("large", large))
        assert {one.error_code for one in answer.topics[0].partitions} == {UNKNOWN_SERVER_ERROR}
        long_id = {topic: [offset(index, 1) for index in range(300)]}
        answer = connection.ask(commit("g" * 30_000, long_id))
        assert {one.error_code for one in answer.topics[0].partitions} == {UNKNOWN_SERVER_ERROR}
        assert connection.ask(fetch([("large", None), ("g" * 30_000, None)])).groups[0].topics == []
        answer = connection.ask(commit("large", {topic: [offset(0, 1, -1, METADATA + "m"), offset(1, 2)]}))
        assert [one.error_code for one in answer.topics[0].partitions] == [TOO_LARGE, NO_ERROR]


def test_commits_for_topics_that_were_deleted(victim: Victim, topic: str) -> None:
    """Refused by name and by its old id, also once another topic has the name; its offsets are not shown."""
    gone = victim.new_topic()
    with victim.connect() as connection:
        ids = {name: id_of(connection, name) for name in (topic, gone)}

        def committed(version: int) -> list[int]:
            """The error codes for the topic that stays, and the one that goes."""
            wanted = {topic: [offset(0, 7)], gone: [offset(0, 7)]}
            answer = connection.ask(commit("deleted", wanted, version=version, ids=ids))
            codes = {one.topic_id or one.name: one.partitions[0].error_code for one in answer.topics}
            names = ids.values() if version >= BY_ID else ids.keys()
            return [codes[name] for name in names]

        assert committed(9) == committed(10) == [NO_ERROR, NO_ERROR]
        connection.ask(DeleteTopicsRequest(version=5, topic_names=[gone], timeout_ms=10_000))
        assert committed(9) == [NO_ERROR, UNKNOWN_TOPIC]
        assert committed(10) == [NO_ERROR, UNKNOWN_TOPIC_ID]
        create_topic(victim.bootstrap, gone)
        assert id_of(connection, gone) != ids[gone]
        assert committed(10) == [NO_ERROR, UNKNOWN_TOPIC_ID]
        found = connection.ask(fetch("deleted", {gone: [0], topic: [0]})).groups[0].topics
        assert {one.name: one.partitions[0].committed_offset for one in found} == {gone: -1, topic: 7}
        assert committed(9) == [NO_ERROR, NO_ERROR]


def id_of(connection: Connection, name: str) -> UUID:
    wanted = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=None)]
    request = MetadataRequest(version=12, topics=wanted, allow_auto_topic_creation=False)
    found: UUID = connection.ask(request).topics[0].topic_id
    return found


def test_groups_that_are_made_and_left(victim: Victim, topic: str) -> None:
    """Each is a few hundred bytes, and its records are in the log."""
    with victim.bounded(32 * MIB), victim.connect() as connection:
        for number in range(500):
            connection.send(encode(commit(f"group {number}", {topic: [offset(number % 300, number)]})))
        for _ in range(500):
            assert connection.receive() is not None
        for number in (0, 377, 499):
            group = connection.ask(fetch(f"group {number}", None)).groups[0]
            (found,) = group.topics[0].partitions
            assert (found.partition_index, found.committed_offset) == (number % 300, number)


def test_who_does_not_wait_for_the_answer(victim: Victim, topic: str) -> None:
    """Hundreds of clients commit and are gone; what they committed counts, and nothing of them is left."""
    with victim.bounded(32 * MIB):
        for number in range(300):
            with victim.connect() as connection:
                connection.send(encode(commit("gone", {topic: [offset(number, number)]})))
        with victim.connect() as connection:
            connection.ask(commit("gone", {topic: [offset(0, 1)]}))
            assert len(connection.ask(fetch("gone", None, stable=True)).groups[0].topics[0].partitions) > 0


def test_the_internal_topic_cannot_be_named(victim: Victim, topic: str) -> None:
    """Offsets of the offsets topic itself are like any other topic's; deleting nothing does no harm."""
    with victim.connect() as connection:
        answer = connection.ask(commit("g", {OFFSETS_TOPIC: [offset(0, 5)], "": [offset(0, 1)]}))
        assert {topic.name: topic.partitions[0].error_code for topic in answer.topics} == {
            "": 3,
            OFFSETS_TOPIC: 0,
        }
        for _ in range(3):
            assert connection.ask(delete("g", {OFFSETS_TOPIC: [0]})).error_code == NO_ERROR
    victim.check()
