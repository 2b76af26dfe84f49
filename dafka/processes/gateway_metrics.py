"""What a gateway shows to Prometheus of its partitions, its consumers and its groups.

A table for each source; every figure is read at the scrape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dafka.processes.transaction_metrics import OPEN_TRANSACTIONS, TRANSACTIONS
from gateway.broker import Broker
from gateway.common.metrics import Counter, Figure, Gauge, Metrics
from gateway.fetch.session_cache import FetchSessionCache
from gateway.groups.coordinator import Coordinator
from gateway.log.compaction.compactor import Compaction
from gateway.log.context import LogContext
from gateway.native.publishing import Publishing
from gateway.native.topics import NativeTopics


def register_gateway(metrics: Metrics, broker: Broker) -> None:
    """Register all that a gateway shows; to be called before partitions are recovered."""
    at_start = broker.topics.partition_count()
    metrics.gauge("dafka_partitions_at_start", "Partitions recovered at the start.", lambda: at_start)
    metrics.register(LOG, broker.context)
    metrics.register(BROKER, broker)
    metrics.register(FETCH_SESSIONS, broker.fetch_sessions.cache)
    metrics.register(GROUPS, broker.groups)
    metrics.register(OFFSETS, broker.groups)
    metrics.register(TRANSACTIONS, broker.transactions)
    metrics.register(OPEN_TRANSACTIONS, broker)
    metrics.register(COMPACTION, broker.compaction)
    if broker.native is not None:
        metrics.register(NATIVE, broker.native)
    if broker.publishing is not None:
        metrics.register(PUBLISHING, broker.publishing)


LOG: Final[Sequence[Figure[LogContext]]] = (
    Gauge(
        "dafka_window_bytes",
        "Bytes appended and not yet durable on enough stores.",
        lambda log: log.producer.window_bytes,
    ),
    Counter(
        "dafka_partition_errors_total",
        "Partitions of a Produce or Fetch that were answered with an error, by its name in Kafka.",
        lambda log: log.errors.by_name,
        ("api", "error"),
    ),
    Gauge("dafka_tail_cache_bytes", "Bytes in the tail cache.", lambda log: log.tail_cache.bytes),
    Counter(
        "dafka_cold_reads_total", "Fetches that had to be read from a store.", lambda log: log.cold.reads
    ),
    Counter(
        "dafka_bad_copies_total",
        "Batches that a store gave and that failed their checks.",
        lambda log: log.cold.bad_copies,
    ),
    Counter(
        "dafka_mesh_refused_answers_total",
        "Answers of stores that nobody waited for, or that were not of what was asked.",
        lambda log: log.reader.refused_answers,
    ),
    Gauge(
        "dafka_store_unconfirmed_segments",
        "Closed segments whose end a store has not confirmed: it is away, or catching up.",
        lambda log: {(member,): count for member, count in log.closer.untold().items()},
        ("store",),
    ),
    Counter("dafka_segments_copied_total", "Segments that stores copied.", lambda log: log.copier.copied),
    Counter("dafka_segments_opened_total", "Segments opened.", lambda log: log.opener.opened),
)
"""What it knows of its logs and of the stores that keep them."""

BROKER: Final[Sequence[Figure[Broker]]] = (
    Gauge(
        "dafka_catalog_unreachable",
        "1 while the catalog is not reached: nothing is created, deleted or configured then.",
        lambda broker: int(bool(broker.context.catalog.trouble)),
    ),
    Gauge(
        "dafka_recovery_waiting_partitions",
        "Partitions whose recovery waits for stores that are away.",
        lambda broker: len(broker.recovery.waiting),
    ),
    Gauge(
        "dafka_catalog_too_large_bytes",
        "Bytes of the catalog's entries that a store is to keep, where they are more than it takes.",
        lambda broker: {(store,): size for store, size in broker.context.copies.too_large.items()},
        ("store",),
    ),
    Gauge(
        "dafka_partition_high_watermark",
        "Offset below which every batch is durable.",
        lambda broker: (
            ((topic.name, str(partition.index)), partition.high_watermark)
            for topic in broker.topics.all()
            for partition in topic.partitions
        ),
        ("topic", "partition"),
    ),
    Counter(
        "dafka_retention_segments_removed_total",
        "Segments that retention and DeleteRecords have dropped.",
        lambda broker: broker.context.log_starts.segments_removed,
    ),
    Counter(
        "dafka_retention_bytes_removed_total",
        "Bytes of those segments.",
        lambda broker: broker.context.log_starts.bytes_removed,
    ),
    Gauge(
        "dafka_idempotent_producers",
        "Idempotent producers that are known, of all partitions: one that writes to two counts twice.",
        lambda broker: broker.context.producers.kept,
    ),
    Counter(
        "dafka_retention_checks_total",
        "Looks for what retention drops.",
        lambda broker: broker.retention.checks,
    ),
    Counter(
        "dafka_deletions_refused_total",
        "Segments that a store does not delete, because a newer catalog has told it of them, or another one.",
        lambda broker: broker.deletion.refused,
    ),
)
"""Its partitions, and what is dropped from the beginnings of their logs."""

FETCH_SESSIONS: Final[Sequence[Figure[FetchSessionCache]]] = (
    Gauge("dafka_fetch_sessions", "Fetch sessions of consumers.", len),
    Gauge(
        "dafka_fetch_session_partitions",
        "Partitions in fetch sessions.",
        lambda sessions: sessions.partitions,
    ),
    Gauge("dafka_fetch_session_bytes", "Memory that they take.", lambda sessions: sessions.bytes),
    Counter(
        "dafka_fetch_session_evictions_total",
        "Fetch sessions that had to go for others.",
        lambda sessions: sessions.evictions,
    ),
)
"""What consumers need not repeat in each fetch."""

GROUPS: Final[Sequence[Figure[Coordinator]]] = (
    Gauge("dafka_groups", "Consumer groups.", lambda groups: groups.states(), ("state",)),
    Gauge(
        "dafka_groups_bytes",
        "Bytes held for groups, without their offsets.",
        lambda groups: groups.room.groups.used,
    ),
    Gauge(
        "dafka_group_offsets_bytes",
        "Bytes held for the offsets of groups.",
        lambda groups: groups.room.offsets.used,
    ),
    Counter(
        "dafka_groups_refused_total",
        "Requests that found no room for another group, member or offset of their client.",
        lambda groups: groups.room.refused,
    ),
    Gauge(
        "dafka_groups_partitions_loading",
        "Partitions of __consumer_offsets that are not loaded: their groups are not served yet.",
        lambda groups: groups.partitions_loading,
    ),
    Counter(
        "dafka_groups_unreadable_batches_total",
        "Batches of __consumer_offsets that could not be read when groups were loaded, and were passed over.",
        lambda groups: groups.journal.unreadable_batches,
    ),
    Counter(
        "dafka_group_rebalances_total", "Generations of groups that began.", lambda groups: groups.rebalances
    ),
)
"""Who is in the groups of consumers."""

OFFSETS: Final[Sequence[Figure[Coordinator]]] = (
    Gauge(
        "dafka_group_offsets",
        "Committed offsets of all groups.",
        lambda groups: sum(group.offsets.count for group in groups.loaded()),
    ),
    Gauge(
        "dafka_group_waiting_bytes",
        "Bytes that wait for the batch before them to be written to __consumer_offsets.",
        lambda groups: groups.journal.group_commit.waiting_bytes,
    ),
    Counter(
        "dafka_group_records_total",
        "Records written to __consumer_offsets.",
        lambda groups: groups.journal.group_commit.records,
    ),
    Counter(
        "dafka_group_batches_total",
        "Batches that they were in.",
        lambda groups: groups.journal.group_commit.batches,
    ),
    Counter(
        "dafka_group_offsets_forgotten_total",
        "Offsets whose time was over, or whose topic was deleted.",
        lambda groups: groups.expiry.forgotten,
    ),
)
"""What groups have committed, and how it is written."""

COMPACTION: Final[Sequence[Figure[Compaction]]] = (
    Counter("dafka_compactions_total", "Compactions of a partition.", lambda compaction: compaction.runs),
    Counter(
        "dafka_compaction_failures_total",
        "Compactions that were given up; the log says why, and they are tried again.",
        lambda compaction: compaction.failures,
    ),
    Counter(
        "dafka_compaction_records_removed_total",
        "Records that compactions left out.",
        lambda compaction: compaction.records_removed,
    ),
    Counter(
        "dafka_compaction_bytes_removed_total",
        "Bytes that compactions saved.",
        lambda compaction: compaction.bytes_removed,
    ),
    Gauge(
        "dafka_compaction_dirty_bytes",
        "Bytes of closed segments that no compaction has been through, at its last look.",
        lambda compaction: compaction.dirty_bytes,
    ),
)
"""What compaction does and leaves out."""

NATIVE: Final[Sequence[Figure[NativeTopics]]] = (
    Gauge(
        "dafka_native_topics",
        "Topics with a subject of native producers.",
        lambda native: len(native.intakes),
    ),
    Gauge(
        "dafka_native_topic_addresses",
        "Native addresses whose records come into a topic, as the catalog knows them.",
        lambda native: native.addresses,
    ),
    Counter(
        "dafka_native_topic_records_total",
        "Native records that were appended to topics.",
        lambda native: native.records,
    ),
    Counter(
        "dafka_native_topic_lost_records_total",
        "Native records that no store had any more when their turn to come into a topic came.",
        lambda native: native.lost,
    ),
    Counter(
        "dafka_native_topic_refused_records_total",
        "Native records that are larger than a batch of their topic may be.",
        lambda native: native.refused,
    ),
    Gauge(
        "dafka_native_topic_waiting_bytes",
        "Bytes of native records that topics do not take yet. Beyond 8 MiB a topic they stay in stores.",
        lambda native: native.waiting_bytes,
    ),
    Gauge(
        "dafka_native_topic_lag_records",
        "Native records that stores have told of and that are not in their topics yet, of the addresses that "
        "this gateway takes up.",
        lambda native: native.lag,
    ),
    Counter(
        "dafka_native_topic_rewritten_total",
        "Native addresses that were found to have different contents of one record in different stores.",
        lambda native: native.rewritten,
    ),
)
"""What it knows of native records on their way into topics."""

PUBLISHING: Final[Sequence[Figure[Publishing]]] = (
    Gauge(
        "dafka_published_partitions",
        "Partitions led here whose values native programs can read.",
        lambda publishing: len(publishing.partitions),
    ),
)
"""What it tells stores of that."""
