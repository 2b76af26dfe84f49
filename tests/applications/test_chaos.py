"""`--chaos` and `dafka chaos`: what real clients see of faults on order."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from confluent_kafka import Consumer, KafkaException, Producer

from dafka import cli
from dafka.commands.kafka_client import KafkaClient, KafkaTrouble, Trouble, parse_bootstrap
from dafka.operators.socket import OperatorRefused, ask_at
from gateway.front.registry import load_apis
from tests.applications.test_ephemeral import SECONDS
from tests.clients.group_members import Member, poll_until
from tests.clients.stored import create_topic, stored_batches
from tests.differential.batches import records_of
from tests.in_process.in_process import running
from tests.peers.standalone import Standalone
from wireproto.kafka.api_keys import ApiKey


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    directory = tmp_path_factory.mktemp("chaos")
    quick = (
        "--fsync",
        "never",
        "--group-initial-rebalance-delay-ms",
        "0",
        "--group-min-session-timeout-ms",
        "0",
    )
    with Standalone(None, *quick, "--chaos", str(directory / "s"), directory=directory) as server:
        yield server


@pytest.fixture
def chaos(server: Standalone) -> Iterator[Path]:
    yield server.directory / "s"
    ask_at(server.directory / "s", "chaos.clear")


@pytest.fixture
def topic(server: Standalone, request: pytest.FixtureRequest) -> str:
    return create_topic(server.bootstrap, request.node.name.replace("[", "-").replace("]", ""), 1)


def order(chaos: Path, *arguments: str) -> None:
    """As on the command line."""
    assert cli.run(["chaos", *arguments, "--socket", str(chaos)]) == 0


def met(chaos: Path) -> list[int]:
    return [fault["met"] for fault in ask_at(chaos, "chaos.list")]


def send(server: Standalone, topic: str, *values: bytes, **settings: Any) -> list[str]:
    """Produce each value; the names of errors."""
    errors: list[Any] = []
    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 0, **settings})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(SECONDS) == 0
    return [error.name() for error in errors if error is not None]


def values(server: Standalone, topic: str) -> list[bytes | None]:
    batches = stored_batches(server.bootstrap, topic)
    return [record.value for batch in batches for _, record in records_of(batch)]


def consumed(server: Standalone, topic: str, group: str) -> bytes | None:
    """The first record. Raises KafkaException."""
    consumer = Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic])
        message = consumer.poll(SECONDS)
        assert message is not None
        if (error := message.error()) is not None:
            raise KafkaException(error)
        value = message.value()
        assert isinstance(value, bytes | None)
        return value
    finally:
        consumer.close()


def test_a_produce_that_fails_for_good_and_one_that_is_sent_again(
    server: Standalone, chaos: Path, topic: str
) -> None:
    order(chaos, "error", "produce", "invalid_record", "--topic", topic)
    assert send(server, topic, b"refused") == ["INVALID_RECORD"]
    order(chaos, "error", "Produce", "NOT_LEADER_OR_FOLLOWER", "--times", "3")
    assert send(server, topic, b"taken") == []
    assert values(server, topic) == [b"taken"]
    assert ask_at(chaos, "chaos.list") == []


def test_others_are_left_alone(server: Standalone, chaos: Path, topic: str) -> None:
    order(chaos, "error", "Produce", "INVALID_RECORD", "--topic", "another", "--times", "0")
    order(chaos, "error", "Produce", "INVALID_RECORD", "--client-id", "mine", "--times", "0")
    assert send(server, topic, b"a") == []
    assert send(server, topic, b"b", **{"client.id": "mine"}) == ["INVALID_RECORD"]
    assert met(chaos) == [0, 1]
    order(chaos, "clear")
    assert send(server, topic, b"c", **{"client.id": "mine"}) == []


def test_an_answer_that_is_lost_does_not_make_a_record_twice(
    server: Standalone, chaos: Path, topic: str
) -> None:
    """Without idempotence it does: the fault is what it says."""
    order(chaos, "drop", "Produce", "--lose-answer", "--topic", topic)
    assert send(server, topic, b"once", **{"enable.idempotence": True}) == []
    assert values(server, topic) == [b"once"]
    order(chaos, "drop", "Produce", "--lose-answer", "--topic", topic)
    assert send(server, topic, b"twice", **{"enable.idempotence": False}) == []
    assert values(server, topic) == [b"once", b"twice", b"twice"]
    order(chaos, "drop", "Produce", "--topic", topic)
    assert send(server, topic, b"dropped before", **{"enable.idempotence": False}) == []
    assert values(server, topic)[3:] == [b"dropped before"]


@pytest.mark.parametrize("acks", [0, 1])
def test_who_wants_no_answer_is_cut_off(server: Standalone, chaos: Path, topic: str, acks: int) -> None:
    order(chaos, "error", "Produce", "NOT_LEADER_OR_FOLLOWER", "--topic", topic)
    assert send(server, topic, b"a", acks=acks) == []
    assert values(server, topic) == ([] if acks == 0 else [b"a"])


def test_fetches_fail_and_go_on(server: Standalone, chaos: Path, topic: str) -> None:
    send(server, topic, b"a")
    order(chaos, "error", "Fetch", "UNKNOWN_TOPIC_OR_PARTITION", "--topic", topic, "--times", "2")
    assert consumed(server, topic, "one") == b"a"
    assert ask_at(chaos, "chaos.list") == []
    order(chaos, "error", "Fetch", "TOPIC_AUTHORIZATION_FAILED", "--topic", topic)
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        consumed(server, topic, "another")


def test_a_delay_holds_up_what_is_asked_and_not_the_rest(server: Standalone, chaos: Path, topic: str) -> None:
    order(chaos, "delay", "ListGroups", "300")
    with KafkaClient(*parse_bootstrap(server.bootstrap)) as client:
        client.negotiate()
        started = time.monotonic()
        client.ask(ApiKey.LIST_GROUPS, 4, states_filter=[])
        assert time.monotonic() - started >= 0.3
    assert met(chaos) == [1]
    order(chaos, "delay", "Produce", "10", "--topic", topic, "--times", "1")
    assert send(server, topic, b"a") == []
    assert values(server, topic) == [b"a"]
    assert met(chaos) == [1]


def test_connections_are_dropped(server: Standalone, chaos: Path) -> None:
    order(chaos, "drop", "ListGroups")
    with KafkaClient(*parse_bootstrap(server.bootstrap)) as client:
        client.negotiate()
        with pytest.raises(KafkaTrouble) as dropped:
            client.ask(ApiKey.LIST_GROUPS, 4, states_filter=[])
        assert dropped.value.trouble is Trouble.CLOSED
    with KafkaClient(*parse_bootstrap(server.bootstrap)) as client:
        client.negotiate()
        assert ask_at(chaos, "chaos.disconnect") >= 1
        with pytest.raises(KafkaTrouble):
            client.ask(ApiKey.LIST_GROUPS, 4, states_filter=[])


def test_a_member_expires_and_comes_back(server: Standalone, chaos: Path, topic: str) -> None:
    member = Member(server.bootstrap, topic, topic, session_timeout_ms=45_000)
    try:
        poll_until(lambda: member.owned == {0}, member)
        order(chaos, "expire", topic)
        poll_until(lambda: ("lost", (0,)) in member.events and member.owned == {0}, member)
    finally:
        member.close()


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Heartbeat", "REBALANCE_IN_PROGRESS"),
        ("JoinGroup", "COORDINATOR_NOT_AVAILABLE"),
        ("SyncGroup", "REBALANCE_IN_PROGRESS"),
        ("OffsetCommit", "NOT_COORDINATOR"),
        ("LeaveGroup", "NOT_COORDINATOR"),
    ],
)
def test_a_group_lives_through_each_error(
    server: Standalone, chaos: Path, topic: str, api: str, error: str
) -> None:
    send(server, topic, b"a")
    order(chaos, "error", api, error, "--times", "2" if api != "LeaveGroup" else "1")
    member = Member(server.bootstrap, topic, topic, auto_commit_interval_ms=100)
    try:
        poll_until(lambda: bool(member.records) and (api == "LeaveGroup" or met(chaos) == []), member)
    finally:
        member.close()
    assert met(chaos) == []


def test_what_there_is_not_is_refused_and_what_there_is_listed(
    chaos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, why in (
        (["error", "Prodce", "INVALID_RECORD"], "no API is called 'Prodce'"),
        (["error", "Produce", "BAD_LUCK"], "Kafka has no error 'BAD_LUCK'"),
        (["error", "Produce", "NONE"], "NONE is no error"),
        (["error", "Metadata", "INVALID_RECORD"], "Metadata cannot be made to fail"),
        (["drop", "Metadata", "--topic", "t"], "Metadata is not narrowed to a topic"),
        (["expire", "nobodys"], "there is no group 'nobodys'"),
    ):
        assert cli.run(["chaos", *arguments, "--socket", str(chaos)]) == 2
        assert why in capsys.readouterr().err
    order(chaos, "error", "Fetch", "OFFSET_OUT_OF_RANGE", "--topic", "t", "--times", "2")
    order(chaos, "delay", "Heartbeat", "5")
    order(chaos, "list", "--json")
    shown = json.loads(capsys.readouterr().out)
    found = [(one["kind"], one["left"], one["delay_ms"]) for one in shown]
    assert found == [("error", 2, 0), ("delay", None, 5)]
    order(chaos, "list")
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["FAULT", "API", "ERROR", "LEFT", "TOPIC", "CLIENT", "MET"],
        ["error", "Fetch", "OFFSET_OUT_OF_RANGE", "2", "t", "-", "0"],
        ["delay", "5", "ms", "Heartbeat", "-", "all", "-", "-", "0"],
    ]
    with pytest.raises(OperatorRefused, match="no such request"):
        ask_at(chaos, "stores.list")


def test_the_socket_is_its_owners_alone(chaos: Path) -> None:
    assert chaos.stat().st_mode & 0o777 == 0o600


def test_without_the_flag_nothing_is_before_the_handlers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing looks for faults, and the shorter ways to an answer are there."""

    async def look() -> None:
        async with running(tmp_path, monkeypatch) as (server, _):
            assert server._registry is load_apis()

    trio.run(look)
