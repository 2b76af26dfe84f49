"""What a process shows to Prometheus of its logs and nodes. Each figure is read at the scrape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.broker import Broker  # a store shows its nodes, and loads no broker for it
    from gateway.common.metrics import Metrics
    from mesh.node import Node


def register_nodes(metrics: Metrics, nodes: Sequence[Node]) -> None:
    """What the nodes of this process could not read."""
    metrics.counter(
        "dafka_mesh_malformed_messages_total",
        "Mesh messages dropped because they break the wire format.",
        lambda: sum(node.malformed for node in nodes),
    )


def register_log(metrics: Metrics, broker: Broker) -> None:
    """What a gateway knows of its partitions."""
    context = broker.context
    partitions = broker.topics.partition_count()
    metrics.gauge(
        "dafka_window_bytes",
        "Bytes appended and not yet durable on enough stores.",
        lambda: context.producer.window_bytes,
    )
    metrics.gauge("dafka_tail_cache_bytes", "Bytes in the tail cache.", lambda: context.tail_cache.bytes)
    metrics.counter(
        "dafka_cold_reads_total", "Fetches that had to be read from a store.", lambda: context.cold.reads
    )
    metrics.counter(
        "dafka_bad_copies_total",
        "Batches that a store gave and that failed their checks.",
        lambda: context.cold.bad_copies,
    )
    metrics.counter(
        "dafka_mesh_refused_answers_total",
        "Answers of stores that nobody waited for, or that were not of what was asked.",
        lambda: context.reader.refused_answers,
    )
    metrics.gauge(
        "dafka_store_unconfirmed_segments",
        "Closed segments whose end a store has not confirmed: it is away, or catching up.",
        lambda: {(member,): count for member, count in context.closer.untold().items()},
        ("store",),
    )
    metrics.counter(
        "dafka_segments_copied_total", "Segments that stores copied.", lambda: context.copier.copied
    )
    metrics.gauge(
        "dafka_recovery_waiting_partitions",
        "Partitions whose recovery waits for stores that are away.",
        lambda: len(broker.recovery.waiting),
    )
    _register_fetch_sessions(metrics, broker)
    _register_groups(metrics, broker)
    _register_offsets(metrics, broker)
    metrics.counter("dafka_segments_opened_total", "Segments opened.", lambda: context.opener.opened)
    _register_retention(metrics, broker)
    _register_compaction(metrics, broker)
    metrics.gauge("dafka_partitions_at_start", "Partitions recovered at the start.", lambda: partitions)
    metrics.gauge(
        "dafka_partition_high_watermark",
        "Offset below which every batch is durable.",
        lambda: {
            (topic.name, str(partition.index)): partition.high_watermark
            for topic in broker.topics.all()
            for partition in topic.partitions
        },
        ("topic", "partition"),
    )


def _register_fetch_sessions(metrics: Metrics, broker: Broker) -> None:
    """What consumers need not repeat in each fetch."""
    sessions = broker.fetch_sessions.cache
    metrics.gauge("dafka_fetch_sessions", "Fetch sessions of consumers.", lambda: len(sessions))
    metrics.gauge(
        "dafka_fetch_session_partitions", "Partitions in fetch sessions.", lambda: sessions.partitions
    )
    metrics.gauge("dafka_fetch_session_bytes", "Memory that they take.", lambda: sessions.bytes)
    metrics.counter(
        "dafka_fetch_session_evictions_total",
        "Fetch sessions that had to go for others.",
        lambda: sessions.evictions,
    )


def _register_groups(metrics: Metrics, broker: Broker) -> None:
    """Who is in the groups of consumers."""
    groups = broker.groups
    metrics.gauge("dafka_groups", "Consumer groups.", groups.states, ("state",))
    metrics.gauge(
        "dafka_group_members",
        "Members of all groups.",
        lambda: sum(len(group.machine.roster) for group in groups.loaded()),
    )
    metrics.gauge("dafka_groups_bytes", "Bytes held for groups, without their offsets.", lambda: groups.bytes)
    metrics.counter(
        "dafka_groups_refused_total",
        "Requests that found no room for another group or member: all groups together hold what they may.",
        lambda: groups.refused,
    )
    metrics.gauge(
        "dafka_groups_partitions_loading",
        "Partitions of __consumer_offsets that are not loaded: their groups are not served yet.",
        lambda: groups.partitions_loading,
    )
    metrics.counter(
        "dafka_group_rebalances_total", "Generations of groups that began.", lambda: groups.rebalances
    )


def _register_offsets(metrics: Metrics, broker: Broker) -> None:
    """What groups have committed, and how it is written."""
    groups, written = broker.groups, broker.groups.journal.group_commit
    metrics.gauge(
        "dafka_group_offsets",
        "Committed offsets of all groups.",
        lambda: sum(group.offsets.count for group in groups.loaded()),
    )
    metrics.gauge(
        "dafka_group_waiting_bytes",
        "Bytes that wait for the batch before them to be written to __consumer_offsets.",
        lambda: written.waiting_bytes,
    )
    metrics.counter(
        "dafka_group_records_total", "Records written to __consumer_offsets.", lambda: written.records
    )
    metrics.counter("dafka_group_batches_total", "Batches that they were in.", lambda: written.batches)
    metrics.counter(
        "dafka_group_offsets_forgotten_total",
        "Offsets whose time was over, or whose topic was deleted.",
        lambda: groups.expiry.forgotten,
    )


def _register_retention(metrics: Metrics, broker: Broker) -> None:
    """What was dropped from the beginnings of logs."""
    log_starts = broker.context.log_starts
    metrics.counter(
        "dafka_retention_segments_removed_total",
        "Segments that retention and DeleteRecords have dropped.",
        lambda: log_starts.segments_removed,
    )
    metrics.counter(
        "dafka_retention_bytes_removed_total",
        "Bytes of those segments.",
        lambda: log_starts.bytes_removed,
    )
    metrics.counter(
        "dafka_retention_checks_total", "Looks for what retention drops.", lambda: broker.retention.checks
    )


def _register_compaction(metrics: Metrics, broker: Broker) -> None:
    compaction = broker.compaction
    metrics.counter("dafka_compactions_total", "Compactions of a partition.", lambda: compaction.runs)
    metrics.counter(
        "dafka_compaction_failures_total",
        "Compactions that were given up; the log says why, and they are tried again.",
        lambda: compaction.failures,
    )
    metrics.counter(
        "dafka_compaction_records_removed_total",
        "Records that compactions left out.",
        lambda: compaction.records_removed,
    )
    metrics.counter(
        "dafka_compaction_bytes_removed_total",
        "Bytes that compactions saved.",
        lambda: compaction.bytes_removed,
    )
    metrics.gauge(
        "dafka_compaction_dirty_bytes",
        "Bytes of closed segments that no compaction has been through, at its last look.",
        lambda: compaction.dirty_bytes,
    )
    metrics.gauge(
        "dafka_compaction_last_error",
        "Why the latest of the failed compactions was given up: 1, with the text as a label.",
        lambda: {(compaction.last_error,): 1} if compaction.last_error else {},
        ("error",),
    )
