"""A transaction that its coordinator does not know: it cannot be begun, and is found and aborted where a loss
has left one, with Kafka's own tool (KIP-664) and with `dafka transactions abort`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from java_tools.tables import table
from kafka.protocol.admin import DescribeProducersRequest, ListTransactionsRequest
from kafka.protocol.producer import ProduceRequest

from dafka.cli import run
from gateway.journal.internal_topic import partition_for
from gateway.transactions.records import transaction_key
from tests.clients.stored import committed_records, create_topic
from tests.differential.batches import TRANSACTIONAL, Record, batch
from tests.differential.transactional import add_partitions, init
from tests.differential.wire import Connection
from tests.peers.java import java_tool
from tests.peers.standalone import Standalone

SECONDS = 60.0
HOUR_MS = 3_600_000
STATE, STATE_PARTITIONS = "__transaction_state", 50
NO_ERROR, INVALID_TXN_STATE, TRANSACTION_ABORTABLE = 0, 48, 120
OLDEST, VERIFIES = 3, 11
"""Versions of Produce with transactions of which none adds the partition by itself, as 12 does."""

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Standalone]:
    """Whoever calls himself `__admin_client` may write to internal topics: so tests make losses."""
    with Standalone(None, "--admin-client-writes", "--fsync", "never", directory=tmp_path) as started:
        yield started


def transactions_tool(server: Standalone, *arguments: str) -> list[str]:
    """What kafka-transactions.sh prints."""
    main_class = "org.apache.kafka.tools.TransactionsCommand"
    said = java_tool(main_class, "--bootstrap-server", server.bootstrap, *arguments).stdout
    return [line for line in said.splitlines() if line.strip()]


def listed(server: Standalone, *filters: str) -> dict[str, str]:
    """Transactional ids and their states."""
    rows = table(transactions_tool(server, "list", *filters), "TransactionalId")
    return {row["TransactionalId"]: row["TransactionState"] for row in rows}


def hanging(server: Standalone, *where: str) -> list[tuple[str, str, str]]:
    """Topic, partition, first offset of each."""
    rows = table(transactions_tool(server, "find-hanging", *where), "Topic")
    return [(row["Topic"], row["Partition"], row["StartOffset"]) for row in rows]


def open_from(server: Standalone, topic: str) -> list[int]:
    """Where the transactions begin that are open in its partition."""
    of = DescribeProducersRequest.TopicRequest
    request = DescribeProducersRequest(version=0, topics=[of(name=topic, partition_indexes=[0])])
    with Connection(server.bootstrap) as connection:
        found = connection.ask(request).topics[0].partitions[0].active_producers
    return [one.current_txn_start_offset for one in found if one.current_txn_start_offset >= 0]


def values(server: Standalone, topic: str) -> list[bytes | None]:
    """What a reader of committed records gets."""
    return [record.value for _, record in committed_records(server.bootstrap, topic)]


def begun(server: Standalone, name: str, topic: str, value: bytes, at_ms: int) -> Producer:
    """Its transaction is open, with this record."""
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, value, partition=0, timestamp=at_ms)
    assert producer.flush(SECONDS) == 0
    return producer


def written(
    server: Standalone, topic: str, value: bytes | None, key: bytes | None = None, part: int = 0
) -> None:
    """Without a transaction, by somebody who may write anywhere."""
    producer = Producer(
        {"bootstrap.servers": server.bootstrap, "client.id": "__admin_client", "log_level": 0}
    )
    failed: list[object] = []
    producer.produce(topic, value, key, partition=part, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(SECONDS) == 0
    assert failed == [None]


def forget(server: Standalone, *names: str) -> None:
    """As after a loss of what the coordinator wrote of them."""
    for name in names:
        written(server, STATE, None, transaction_key(name), partition_for(name, STATE_PARTITIONS))
    server.restart()


@pytest.mark.parametrize(
    ("version", "error"), [(OLDEST, INVALID_TXN_STATE), (VERIFIES, TRANSACTION_ABORTABLE)]
)
def test_nobody_can_begin_one(server: Standalone, version: int, error: int) -> None:
    """A batch of a transaction that has not begun, and one into a partition that the transaction has not."""
    topic, other = (create_topic(server.bootstrap, name) for name in ("orders", "payments"))
    with Connection(server.bootstrap) as connection:
        made = connection.ask(init("someone"))
        pid, epoch = made.producer_id, made.producer_epoch
        request = transactional_batch(version, "someone", topic, pid, epoch)
        for _ in range(2):
            found = connection.ask(request).responses[0].partition_responses[0]
            assert found.error_code == error
            connection.ask(add_partitions("someone", pid, epoch, {other: [0]}))
        request = transactional_batch(version, "someone", other, pid, epoch)
        assert connection.ask(request).responses[0].partition_responses[0].error_code == NO_ERROR
    assert open_from(server, topic) == []
    assert open_from(server, other) == [0]


def transactional_batch(version: int, name: str, topic: str, producer_id: int, epoch: int) -> ProduceRequest:
    """A Produce of the first batch of this producer."""
    records = batch(
        [Record(b"first")],
        attributes=TRANSACTIONAL,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
    )
    of = ProduceRequest.TopicProduceData
    data = of(name=topic, partition_data=[of.PartitionProduceData(index=0, records=records)])
    return ProduceRequest(
        version=version, transactional_id=name, acks=-1, timeout_ms=10_000, topic_data=[data]
    )


def test_one_is_found_and_aborted(server: Standalone) -> None:
    topic = create_topic(server.bootstrap, "orders")
    now_ms = int(time.time() * 1000)
    written(server, topic, b"before")
    kept = [begun(server, "old", topic, b"of an hour ago", now_ms - HOUR_MS)]
    kept += [begun(server, "new", topic, b"of now", now_ms)]
    written(server, topic, b"after")
    first, second = open_from(server, topic)
    assert values(server, topic) == [b"before"]
    assert hanging(server, "--topic", topic, "--max-transaction-timeout", "0") == []

    forget(server, "old", "new")
    del kept
    assert listed(server) == {}
    assert sorted(open_from(server, topic)) == sorted([first, second])
    assert values(server, topic) == [b"before"]

    one, other = ((topic, "0", str(offset)) for offset in sorted([first, second]))
    assert hanging(server, "--broker-id", "1") == [one]
    assert hanging(server, "--topic", topic, "--partition", "0") == [one]
    found = hanging(server, "--topic", topic, "--max-transaction-timeout", "0")
    assert sorted(found) == [one, other]

    transactions_tool(server, "abort", "--topic", topic, "--partition", "0", "--start-offset", one[2])
    assert open_from(server, topic) == [int(other[2])]
    where = ("--partition", "0", "--start-offset", other[2], "--bootstrap", server.bootstrap)
    assert run(["transactions", "abort", topic, *where]) == 0
    assert open_from(server, topic) == []
    assert hanging(server, "--topic", topic, "--max-transaction-timeout", "0") == []
    assert values(server, topic) == [b"before", b"after"]


def test_the_filters_of_the_list(server: Standalone) -> None:
    topic = create_topic(server.bootstrap, "orders")
    producers = {name: begun(server, name, topic, b"x", 0) for name in ("orders-1", "orders-2", "bills-1")}
    producers["orders-2"].commit_transaction(SECONDS)
    done = ("CompleteCommit", "PrepareCommit")
    open_ones = {"orders-1": "Ongoing", "bills-1": "Ongoing"}

    everything = listed(server)
    assert everything.pop("orders-2") in done
    assert everything == open_ones
    # By when the last transaction began: Kafka lists those, too, that have ended.
    assert set(listed(server, "--duration-filter", "1")) == {*open_ones, "orders-2"}
    assert listed(server, "--duration-filter", str(HOUR_MS)) == {}
    assert set(listed(server, "--transactional-id-pattern", "orders-.*")) == {"orders-1", "orders-2"}
    both = ("--transactional-id-pattern", "orders-.*", "--duration-filter", "1")
    assert set(listed(server, *both)) == {"orders-1", "orders-2"}
    assert listed(server, *both[:2], "--duration-filter", str(HOUR_MS)) == {}
    assert of_producers(server, "orders-1") == {"orders-1"}


def of_producers(server: Standalone, name: str) -> set[str]:
    """Asked for by the producer's id, as find-hanging does it."""
    with Connection(server.bootstrap) as connection:
        everything = connection.ask(ListTransactionsRequest(version=1, duration_filter=-1))
        (pid,) = (one.producer_id for one in everything.transaction_states if one.transactional_id == name)
        of = ListTransactionsRequest(version=1, producer_id_filters=[pid], duration_filter=-1)
        return {one.transactional_id for one in connection.ask(of).transaction_states}
