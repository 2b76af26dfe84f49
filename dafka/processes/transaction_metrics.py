"""What a gateway shows to Prometheus of transactions: those of its coordinator, and those that are open in
the partitions that it leads. Every figure is read at the scrape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gateway.broker import Broker
from gateway.common.metrics import Counter, Figure, Gauge
from gateway.log.idempotence.state import ProducerState
from gateway.transactions.coordinator import MAX_TIMEOUT_MS, TransactionCoordinator

LATE_MS: Final = MAX_TIMEOUT_MS + 5 * 60_000
"""Who has written nothing for so long in a transaction that is open has been given up by its coordinator, if
that knows of it at all (KIP-664; Kafka's metric `PartitionsWithLateTransactionsCount`)."""

TRANSACTIONS: Final[Sequence[Figure[TransactionCoordinator]]] = (
    Gauge(
        "dafka_transactional_ids",
        "Transactional ids that this gateway coordinates.",
        lambda transactions: transactions.states(),
        ("state",),
    ),
    Gauge(
        "dafka_transactional_ids_bytes",
        "Bytes held for transactional ids, with the partitions of their transactions.",
        lambda transactions: transactions.room.held.used,
    ),
    Counter(
        "dafka_transactional_ids_refused_total",
        "Requests that found no room for another transactional id, or another partition of one.",
        lambda transactions: transactions.room.refused,
    ),
    Gauge(
        "dafka_transactions_partitions_loading",
        "Partitions of __transaction_state that are not loaded: their transactional ids are not served yet.",
        lambda transactions: transactions.partitions_loading,
    ),
    Counter(
        "dafka_transactions_timed_out_total",
        "Transactions that were aborted because they were open for longer than their timeout.",
        lambda transactions: transactions.timed_out,
    ),
    Counter(
        "dafka_transaction_markers_total",
        "Ends of transactions that partitions have taken, of any gateway, from this one's coordinator.",
        lambda transactions: transactions.markers.written,
    ),
)
"""What the coordinator has."""

OPEN_TRANSACTIONS: Final[Sequence[Figure[Broker]]] = (
    Gauge(
        "dafka_partition_transactions_open",
        "Transactions that are open in the partitions that this gateway leads, each counted in each of them.",
        lambda broker: sum(len(state.transactions) for state in _with_transactions(broker)),
    ),
    Gauge(
        "dafka_partitions_with_late_transactions",
        "Partitions with an open transaction that nobody writes to any more, nor ends: "
        "`kafka-transactions.sh find-hanging` names them.",
        lambda broker: sum(
            state.has_open_since(broker.context.now_ms() - LATE_MS) for state in _with_transactions(broker)
        ),
    ),
)
"""What is open in partitions."""


def _with_transactions(broker: Broker) -> Iterator[ProducerState]:
    for topic in broker.topics.all():
        for partition in topic.partitions:
            if partition.producers.has_transactions:
                yield partition.producers.state
