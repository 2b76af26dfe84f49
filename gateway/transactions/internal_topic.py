"""The topic that transactional ids live in, `__transaction_state`."""

from __future__ import annotations

from typing import Final

from gateway.journal.internal_topic import InternalTopic

TRANSACTION_TOPIC: Final = "__transaction_state"

TRANSACTION_TOPIC_PARTITIONS: Final = 50
"""Partitions of the topic: Kafka's `transaction.state.log.num.partitions`. The number never changes, since it
decides where an id is."""

TRANSACTION_TOPIC_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "uncompressed",
    "segment.bytes": str(100 * 1024 * 1024),
}
"""As `TransactionStateManager.transactionTopicConfigs`, whose replicas are the stores' business here."""

TRANSACTIONS: Final = InternalTopic(
    TRANSACTION_TOPIC, TRANSACTION_TOPIC_PARTITIONS, TRANSACTION_TOPIC_CONFIGS
)
