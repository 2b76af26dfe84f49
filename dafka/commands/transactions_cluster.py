"""What the commands ask of transaction coordinators, and of partitions, of a gateway or of any Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from dafka.commands.cluster import Cluster
from dafka.commands.coordinators import OF_TRANSACTIONS, Coordinators, Refused, check, until_ready
from dafka.commands.exits import CommandFailed
from dafka.commands.kafka_client import KafkaClient, error_name
from dafka.commands.transactions import STATES
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.schemas import REQUEST_CLASSES

LIST_TRANSACTIONS_VERSION: Final = 0
DESCRIBE_TRANSACTIONS_VERSION: Final = 0
DESCRIBE_PRODUCERS_VERSION: Final = 0
WRITE_TXN_MARKERS_VERSION: Final = 1
"""The lowest that say all that is shown: every Kafka from 3.0 on has them."""


class Listed(NamedTuple):
    """A transactional id, as the gateway that looks after it lists it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class Described(NamedTuple):
    """A transactional id as its coordinator tells it. `start_ms`: when its transaction began, or the last
    one, ms since 1970; -1 for none.
    """

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    partitions: list[tuple[str, int]]


class Transactions:
    """The transactions of a cluster. Raises KafkaTrouble, CommandFailed."""

    def __init__(self, bootstrap: KafkaClient, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators = Coordinators(bootstrap, cluster, OF_TRANSACTIONS)

    def list(self, states: Sequence[str] = ()) -> list[Listed]:
        """Every transactional id, or those in these states, by name."""
        return [*self._list("cannot list transactions", states=states)]

    def _list(
        self, doing: str, states: Sequence[str] = (), producer_ids: Sequence[int] = ()
    ) -> Sequence[Listed]:
        found: list[Listed] = []
        for broker in self._cluster.metadata([]).brokers:
            try:
                answer = until_ready(partial(self._listed, broker.node_id, states, producer_ids))
            except Refused as refused:
                raise _failed(doing, refused.code) from None
            if answer.unknown_state_filters:
                unknown = ", ".join(answer.unknown_state_filters)
                raise CommandFailed(f"there is no state {unknown}. States are {', '.join(STATES)}.")
            found += [
                Listed(one.transactional_id, broker.node_id, one.producer_id, one.transaction_state)
                for one in answer.transaction_states
            ]
        return sorted(found)

    def _listed(self, node_id: int, states: Sequence[str], producer_ids: Sequence[int]) -> Any:
        answer = self._cluster.leader(node_id).ask(
            ApiKey.LIST_TRANSACTIONS,
            LIST_TRANSACTIONS_VERSION,
            state_filters=[*states],
            producer_id_filters=[*producer_ids],
        )
        check(answer.error_code)
        return answer

    def describe(self, transactional_id: str) -> Described:
        """One id that is there."""
        try:
            answer = self._coordinators.ask(
                transactional_id,
                lambda coordinator: coordinator.ask(
                    ApiKey.DESCRIBE_TRANSACTIONS,
                    DESCRIBE_TRANSACTIONS_VERSION,
                    transactional_ids=[transactional_id],
                ),
                lambda answer: answer.transaction_states[0].error_code,
            )
        except Refused as refused:
            raise _failed(f"transactional id {transactional_id}", refused.code) from None
        told = answer.transaction_states[0]
        return Described(
            transactional_id,
            self._coordinators.node(transactional_id),
            told.transaction_state,
            told.producer_id,
            told.producer_epoch,
            told.transaction_timeout_ms,
            told.transaction_start_time_ms,
            sorted((topic.topic, index) for topic in told.topics for index in topic.partitions),
        )

    def abort(self, topic: str, index: int, start_offset: int, *, force: bool = False) -> int:
        """Abort the transaction that begins there in a partition, by a marker; its producer's id.

        Without `force`, one that a coordinator has is refused: its other partitions could be committed.
        """
        leader = self._leader(topic, index)
        request: Any = REQUEST_CLASSES[ApiKey.DESCRIBE_PRODUCERS]
        told = leader.ask(
            ApiKey.DESCRIBE_PRODUCERS,
            DESCRIBE_PRODUCERS_VERSION,
            topics=[request.TopicRequest(name=topic, partition_indexes=[index])],
        )
        partition = told.topics[0].partitions[0]
        _check(f"{topic}-{index}", partition.error_code)
        found = [one for one in partition.active_producers if one.current_txn_start_offset == start_offset]
        if not found:
            open_ones = sorted(
                one.current_txn_start_offset
                for one in partition.active_producers
                if one.current_txn_start_offset >= 0
            )
            named = ", ".join(map(str, open_ones))
            there = f"Those that are open begin at: {named}." if open_ones else "None is open there."
            raise CommandFailed(
                f"{topic}-{index}: no open transaction begins at offset {start_offset}. {there}"
            )
        (producer,) = found
        if not force:
            self._check_hangs(topic, index, producer.producer_id)
        self._write_abort(leader, topic, index, producer)
        return int(producer.producer_id)

    def _check_hangs(self, topic: str, index: int, producer_id: int) -> None:
        """Raises CommandFailed, if a coordinator has the producer's transaction in this partition."""
        doing = "cannot ask whether a coordinator has the transaction, which --force leaves out"
        for one in self._list(doing, producer_ids=[producer_id]):
            told = self.describe(one.transactional_id)
            if told.producer_id == producer_id and (topic, index) in told.partitions:
                raise CommandFailed(
                    f"{topic}-{index}: the transaction does not hang: it is that of transactional id "
                    f"{told.transactional_id} ({told.state}), and its coordinator ends it, after "
                    f"{told.timeout_ms} ms if its producer does not. --force aborts it in this partition "
                    "alone; the rest of it may be committed."
                )

    def _write_abort(self, leader: KafkaClient, topic: str, index: int, producer: Any) -> None:
        request: Any = REQUEST_CLASSES[ApiKey.WRITE_TXN_MARKERS].WritableTxnMarker
        marker = request(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=[request.WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
            # None has ended a transaction of it here, if that is -1.
            coordinator_epoch=max(0, producer.coordinator_epoch),
        )
        answer = leader.ask(ApiKey.WRITE_TXN_MARKERS, WRITE_TXN_MARKERS_VERSION, markers=[marker])
        _check(f"{topic}-{index}", answer.markers[0].topics[0].partitions[0].error_code)

    def _leader(self, topic: str, index: int) -> KafkaClient:
        (described,) = self._cluster.metadata([topic]).topics
        _check(topic, described.error_code)
        for partition in described.partitions:
            if partition.partition_index == index:
                return self._cluster.leader(partition.leader_id)
        raise CommandFailed(f"{topic} has no partition {index}: it has {len(described.partitions)}.")


REASONS: Final = {
    "TRANSACTIONAL_ID_NOT_FOUND": "there is no such id. 'dafka transactions list' shows those that are there",
    "INVALID_REQUEST": "no transactional id is like that",
    "INVALID_TOPIC_EXCEPTION": "no topic can have that name. 'dafka topics list' shows the topics",
    "UNKNOWN_TOPIC_OR_PARTITION": "it is not there. 'dafka topics list' shows the topics",
    "NOT_LEADER_OR_FOLLOWER": "its leader is another one by now. Try again",
}


def _failed(what: str, code: int) -> CommandFailed:
    name = error_name(code)
    return CommandFailed(f"{what}: {REASONS.get(name, name)}.")


def _check(what: str, code: int) -> None:
    """Raises CommandFailed, if that is an error."""
    if code:
        raise _failed(what, code)
