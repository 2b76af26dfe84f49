"""Producer ids on two gateways with SASL: real clients write as always, and nobody with another one's id."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka.protocol.producer import ProduceRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from gateway.security.producer_ids import BOUND
from tests.applications.test_ephemeral import SECONDS
from tests.differential.principals import plain_token
from tests.differential.transactional import init
from tests.differential.wire import Connection
from tests.peers.supervised import Supervised
from wireproto.kafka.errors import ErrorCode
from wireproto.records.builder import build_batch

PASSWORDS = {"alice": "of-alice", "bob": "of-bob"}
PARTITIONS = 8
NONE, NOT_LEADER = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervised]:
    folder = tmp_path_factory.mktemp("owners")
    for user, password in PASSWORDS.items():
        (folder / f"{user}.password").write_text(password)
    run(
        folder,
        "init",
        "--data",
        "data",
        "--kind",
        "gateways",
        "--admin",
        "alice",
        "--password-file",
        "alice.password",
    )
    made = Supervised(folder, 2, 1)
    made.listen = "SASL_PLAINTEXT://127.0.0.1:0"
    try:
        made.start()
        alice = [
            "--security-protocol",
            "SASL_PLAINTEXT",
            "--sasl-user",
            "alice",
            "--sasl-password-file",
            "alice.password",
        ]
        run(
            folder,
            "users",
            "create",
            "bob",
            "--password-file",
            "bob.password",
            "--bootstrap",
            made.bootstrap,
            *alice,
        )
        yield made
    finally:
        made.kill9()


def run(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "dafka", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr


def settings(cluster: Supervised, user: str, **others: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": PASSWORDS[user],
        **others,
    }


def topic(cluster: Supervised, name: str) -> str:
    admin = AdminClient(settings(cluster, "alice"))
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(SECONDS)
    return name


def values(cluster: Supervised, name: str) -> dict[int, list[bytes]]:
    """By partition, what is committed."""
    quick = {"group.id": "none", "enable.auto.commit": False, "fetch.wait.max.ms": 10}
    reader = Consumer(settings(cluster, "alice", **quick, **{"enable.partition.eof": True}))
    reader.assign([TopicPartition(name, partition, 0) for partition in range(PARTITIONS)])
    found: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    ended = 0
    while ended < PARTITIONS:
        message = reader.poll(SECONDS)
        assert message is not None
        if message.error() is None:
            found[message.partition() or 0].append(bytes(message.value() or b""))
        else:
            assert message.error().name() == "_PARTITION_EOF"
            ended += 1
    reader.close()
    return found


def settled(cluster: Supervised, name: str, expected: list[bytes]) -> dict[int, list[bytes]]:
    """`values`, once each partition has as many or time is over: a commit is answered before every partition
    has its marker, as Kafka's is.
    """
    deadline = time.monotonic() + SECONDS
    while True:
        found = values(cluster, name)
        if all(len(one) >= len(expected) for one in found.values()) or time.monotonic() > deadline:
            return found


def logged_in(address: str, user: str) -> Connection:
    connection = Connection(address)
    assert connection.ask(SaslHandshakeRequest(version=1, mechanism="PLAIN")).error_code == NONE
    token = plain_token(user, PASSWORDS[user])
    assert connection.ask(SaslAuthenticateRequest(version=2, auth_bytes=token)).error_code == NONE
    return connection


def send(connection: Connection, name: str, value: bytes, pid: int, sequence: int) -> dict[int, ErrorCode]:
    """A batch to each partition; what is said by partition."""
    data = ProduceRequest.TopicProduceData
    records: list[Any] = [(None, value, [], 1_700_000_000_000)]
    content = bytes(build_batch(records, producer_id=pid, producer_epoch=0, base_sequence=sequence))
    parts = [data.PartitionProduceData(version=9, index=n, records=content) for n in range(PARTITIONS)]
    answer = connection.ask(
        ProduceRequest(
            version=9,
            transactional_id=None,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[data(version=9, name=name, partition_data=parts)],
        )
    )
    return {one.index: ErrorCode(one.error_code) for one in answer.responses[0].partition_responses}


def taken_by_each(connections: list[Connection], name: str, value: bytes, pid: int, sequence: int) -> None:
    """Each gateway takes what it leads, of a topic that was made just now; what is sent again counts once."""
    deadline = time.monotonic() + SECONDS
    while True:
        taken = [send(connection, name, value, pid, sequence) for connection in connections]
        by_partition = [{one[partition] for one in taken} for partition in range(PARTITIONS)]
        if all(said == {NONE, NOT_LEADER} for said in by_partition):
            assert all(NONE in one.values() for one in taken)
            return
        assert time.monotonic() < deadline, by_partition
        assert all(said <= {NONE, NOT_LEADER} for said in by_partition), by_partition
        time.sleep(0.1)


def test_every_gateway_knows_whose_an_id_is_whichever_gave_it(cluster: Supervised) -> None:
    name = topic(cluster, "attacked")
    users = {user: [logged_in(one, user) for one in cluster.addresses] for user in PASSWORDS}
    assert len(users["alice"]) == 2
    expected: list[bytes] = []
    for giving in users["alice"]:
        pid = giving.ask(init(None)).producer_id
        assert pid >= BOUND
        for sequence in range(2):
            for connection in users["bob"]:
                said = send(connection, name, b"forged", pid, sequence)
                assert set(said.values()) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
            value = b"%d of %d" % (sequence, pid)
            expected.append(value)
            taken_by_each(users["alice"], name, value, pid, sequence)
    assert values(cluster, name) == dict.fromkeys(range(PARTITIONS), expected)
    for connections in users.values():
        for connection in connections:
            connection.close()


@pytest.mark.parametrize("user", ["alice", "bob"])
def test_idempotent_and_transactional_producers_write_as_always(cluster: Supervised, user: str) -> None:
    name = topic(cluster, f"written-by-{user}")
    idempotent = Producer(settings(cluster, user, **{"enable.idempotence": True, "linger.ms": 0}))
    for number in range(3):
        for partition in range(PARTITIONS):
            idempotent.produce(name, b"idempotent %d" % number, partition=partition)
        assert idempotent.flush(SECONDS) == 0
    transactional = Producer(settings(cluster, user, **{"transactional.id": f"tx-{user}", "linger.ms": 0}))
    transactional.init_transactions(SECONDS)
    for number in range(3):
        transactional.begin_transaction()
        for partition in range(PARTITIONS):
            transactional.produce(name, b"transaction %d" % number, partition=partition)
        if number == 1:
            transactional.abort_transaction(SECONDS)
        else:
            transactional.commit_transaction(SECONDS)
    expected = [b"idempotent 0", b"idempotent 1", b"idempotent 2", b"transaction 0", b"transaction 2"]
    assert settled(cluster, name, expected) == dict.fromkeys(range(PARTITIONS), expected)
