"""Consumer groups with real clients: members come, go, are killed, come back; so does the gateway."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from tests.clients.group_members import SECONDS, Member, MemberProcess, poll_until, shared
from tests.clients.stored import create_topic
from tests.clients.test_kcat import kcat
from tests.differential.servers import our_bootstrap, our_server
from tests.peers.java import java_tool

PARTITIONS = 4
QUICK_GROUPS = ("--group-initial-rebalance-delay-ms", "0", "--group-min-session-timeout-ms", "500")
_numbers = itertools.count(1)
_run = f"{time.time_ns() // 1_000_000:x}"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with our_bootstrap(*QUICK_GROUPS) as address:
        yield address


def new_name(what: str) -> str:
    return f"groups-{what}-{_run}-{next(_numbers)}"


def filled(bootstrap: str, count: int) -> tuple[str, set[bytes]]:
    """A topic with so many records over its partitions, and their values."""
    topic = create_topic(bootstrap, new_name("topic"), PARTITIONS)
    return topic, put(bootstrap, topic, 0, count)


def put(bootstrap: str, topic: str, first: int, count: int) -> set[bytes]:
    values = [b"%d" % number for number in range(first, first + count)]
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
    assert producer.flush(SECONDS) == 0
    return set(values)


def values_of(*members: Member) -> set[bytes]:
    return {value for member in members for _, _, value in member.records}


def python_consumer(bootstrap: str, topic: str, group: str, **settings: Any) -> Any:
    base = {"group_id": group, "auto_offset_reset": "earliest", "consumer_timeout_ms": int(SECONDS * 1000)}
    return KafkaConsumer(topic, bootstrap_servers=bootstrap, **(base | settings))


def test_a_consumer_commits_and_another_one_goes_on_from_there(server: str) -> None:
    topic, _ = filled(server, 40)
    group = new_name("resumes")
    seen: dict[int, list[int]] = {}
    for part in range(2):
        consumer = python_consumer(server, topic, group, enable_auto_commit=False)
        for message in itertools.islice(consumer, 20):
            seen.setdefault(message.partition, []).append(message.offset)
        consumer.commit()
        committed = {n: consumer.committed(TopicPartition(topic, n)) for n in seen}
        assert committed == {n: max(offsets) + 1 for n, offsets in seen.items()}, part
        consumer.close()
    assert seen == {n: list(range(10)) for n in range(PARTITIONS)}


def test_members_share_and_the_last_one_has_all(server: str) -> None:
    topic, values = filled(server, 400)
    group = new_name("shares")
    first, second = Member(server, topic, group), Member(server, topic, group)
    poll_until(lambda: shared(PARTITIONS, first, second), first, second)
    assert len(first.owned) == len(second.owned) == 2
    poll_until(lambda: values_of(first, second) == values, first, second)
    first.close()
    poll_until(lambda: second.owned == set(range(PARTITIONS)), second)
    more = put(server, topic, 1000, 40)
    poll_until(lambda: values_of(second) >= more, second)
    assert not values_of(second) & values_of(first)  # what was read was committed when it left
    second.close()


def test_who_is_killed_loses_its_partitions_to_the_others(server: str) -> None:
    topic, values = filled(server, 40)
    group = new_name("killed")
    other = MemberProcess(server, topic, group)
    assert other.owns() in ({0, 1, 2, 3}, set())
    member = Member(server, topic, group)
    poll_until(lambda: len(member.owned) == 2, member)
    other.kill()
    poll_until(lambda: len(member.owned) == PARTITIONS, member)
    more = put(server, topic, 1000, 40)
    poll_until(lambda: values_of(member) >= more, member)
    assert values_of(member) <= values | more
    member.close()


def test_static_members_are_restarted_without_a_rebalance(server: str) -> None:
    topic, _ = filled(server, 40)
    group = new_name("static")
    session = {"session_timeout_ms": 30_000, "heartbeat_interval_ms": 200}
    stays = Member(server, topic, group, group_instance_id="a", **session)
    goes = Member(server, topic, group, group_instance_id="b", **session)
    poll_until(lambda: shared(PARTITIONS, stays, goes), stays, goes)
    before, events, owned = set(stays.owned), list(stays.events), set(goes.owned)
    goes.close()
    back = Member(server, topic, group, group_instance_id="b", **session)
    poll_until(lambda: bool(back.owned), stays, back)
    assert back.owned == owned
    assert (stays.owned, stays.events) == (before, events)
    intruder = Member(server, topic, group, group_instance_id="b", **session)
    poll_until(lambda: back.fatal is not None, stays, back, intruder)
    assert "fenced" in str(back.fatal).lower()
    poll_until(lambda: intruder.owned == owned, stays, intruder)
    assert (stays.owned, stays.events) == (before, events)
    for member in (stays, back, intruder):
        member.close()


def test_cooperative_members_keep_what_they_keep(server: str) -> None:
    topic, values = filled(server, 40)
    group = new_name("cooperative")
    strategy = {"partition_assignment_strategy": "cooperative-sticky"}
    first = Member(server, topic, group, **strategy)
    poll_until(lambda: len(first.owned) == PARTITIONS, first)
    second = Member(server, topic, group, **strategy)
    poll_until(lambda: shared(PARTITIONS, first, second), first, second)
    (revoked,) = [partitions for kind, partitions in first.events if kind == "revoked"]
    assert set(revoked) == second.owned
    assert len(revoked) == 2
    second.close()
    poll_until(lambda: len(first.owned) == PARTITIONS, first)
    assert [kind for kind, _ in first.events].count("revoked") == 1
    poll_until(lambda: values_of(first, second) == values, first)
    first.close()


def test_tools_list_describe_and_delete_groups(server: str) -> None:
    topic, _ = filled(server, 40)
    group = new_name("tools")
    member = Member(server, topic, group, client_id="reader")
    poll_until(lambda: len(member.records) == 40, member)
    admin = KafkaAdminClient(bootstrap_servers=server)
    assert group in str(admin.list_groups())
    described = str(admin.describe_groups([group]))
    assert "Stable" in described
    assert "reader" in described
    with pytest.raises(Exception, match=r"(?i)non_?empty"):
        _raise_what_failed(admin.delete_groups([group]))
    member.close()
    _raise_what_failed(admin.delete_groups([group]))
    assert group not in str(admin.list_groups())
    admin.close()


def _raise_what_failed(results: Any) -> None:
    """kafka-python's admin answers results in several shapes: whatever names an error is raised."""
    text = str(results)
    if "NonEmptyGroup" in text or "NON_EMPTY" in text:
        raise RuntimeError(text)


def test_java_consumes_in_a_group_and_its_tools_show_it(server: str) -> None:
    topic, values = filled(server, 40)
    group = new_name("java")
    consumed = java_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", server, "--topic", topic,
        "--group", group, "--from-beginning", "--max-messages", "40", "--timeout-ms", "60000",
    ).stdout  # fmt: skip
    assert {line.encode() for line in consumed.splitlines() if line} == values
    described = java_tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server", server,
        "--describe", "--group", group,
    ).stdout  # fmt: skip
    rows = [line.split() for line in described.splitlines() if topic in line]
    # GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG ...
    assert sorted(row[1:6] for row in rows) == [[topic, str(n), "10", "10", "0"] for n in range(PARTITIONS)]


def test_kcat_reads_in_a_group_and_goes_on_where_it_left(server: str) -> None:
    """librdkafka 2.0.2, which knows none of the newer versions."""
    topic, values = filled(server, 40)
    group = new_name("kcat")
    for expected in (values, set()):
        read = kcat(server, "-q", "-G", group, "-e", "-X", "auto.offset.reset=earliest", topic)
        assert set(read.split()) == expected


def test_a_group_goes_on_when_the_gateway_was_killed_under_it() -> None:
    with our_server(None, *QUICK_GROUPS) as server:
        bootstrap = server.bootstrap
        topic, values = filled(bootstrap, 200)
        group = new_name("survives")
        # Longer than a start takes: nobody is given up meanwhile.
        session = {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 200}
        members = [Member(bootstrap, topic, group, **session) for _ in range(2)]
        poll_until(lambda: shared(PARTITIONS, *members), *members)
        for life in range(2):
            values |= put(bootstrap, topic, 1000 * (life + 1), 100)
            owned = [set(member.owned) for member in members]
            server.kill9()
            server.start()
            values |= put(bootstrap, topic, 10_000 * (life + 1), 100)
            poll_until(partial(_have_read, set(values), members), *members)
            assert [member.owned for member in members] == owned
        assert [kind for member in members for kind, _ in member.events].count("lost") == 0
        for member in members:
            member.close()


def _have_read(values: set[bytes], members: Sequence[Member]) -> bool:
    return values_of(*members) == values
