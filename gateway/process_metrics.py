"""What processes show to Prometheus of their logs, stores and nodes. Each figure is read at the scrape."""

from collections.abc import Sequence

from gateway.broker import Broker
from gateway.metrics import Metrics
from mesh.node import Node
from mesh.store.store import Store


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
    _register_offsets(metrics, broker)
    metrics.counter("dafka_segments_opened_total", "Segments opened.", lambda: context.opener.opened)
    metrics.counter(
        "dafka_retention_segments_removed_total",
        "Segments that retention and DeleteRecords have dropped.",
        lambda: context.log_starts.segments_removed,
    )
    metrics.counter(
        "dafka_retention_bytes_removed_total",
        "Bytes of those segments.",
        lambda: context.log_starts.bytes_removed,
    )
    _register_compaction(metrics, broker)
    metrics.counter(
        "dafka_retention_checks_total", "Looks for what retention drops.", lambda: broker.retention.checks
    )
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


def register_store(metrics: Metrics, store: Store) -> None:
    """What a store knows of itself."""
    statistics, ingest, server = store.committer.statistics, store.ingest, store.server
    metrics.gauge("dafka_store_queued_bytes", "Bytes waiting for a commit.", lambda: ingest.queued_bytes)
    metrics.counter("dafka_store_commits_total", "Commits.", lambda: statistics.commits)
    metrics.counter(
        "dafka_store_committed_bytes_total", "Bytes of records committed.", lambda: statistics.bytes
    )
    metrics.counter("dafka_store_stalls_total", "Writes that RocksDB put off.", lambda: statistics.stalls)
    metrics.counter("dafka_store_fsyncs_total", "fsyncs of the write-ahead log.", lambda: statistics.fsyncs)
    metrics.counter("dafka_store_fsync_seconds_total", "Seconds in them.", lambda: statistics.fsync_seconds)
    metrics.gauge(
        "dafka_store_slowest_fsync_seconds", "The slowest one.", lambda: statistics.slowest_fsync_seconds
    )
    metrics.counter("dafka_store_reads_total", "Reads served.", lambda: server.reads)
    metrics.counter(
        "dafka_store_storage_errors_total", "Reads that met corruption.", lambda: server.storage_errors
    )
    reclaimer = store.reclaimer
    metrics.gauge(
        "dafka_store_garbage_bytes",
        "Bytes on the disk that nothing refers to any more, when it was last looked: after every deletion.",
        lambda: reclaimer.garbage_bytes,
    )
    metrics.counter(
        "dafka_store_collections_total",
        "How often what was left was written anew, so that such bytes could be given back.",
        lambda: reclaimer.collections,
    )
    _register_copies(metrics, store)
    _register_native(metrics, store)
    metrics.gauge(
        "dafka_store_durable_head",
        "Highest sequence that is durable, by address of an open segment.",
        lambda: {(address,): head for address, head in ingest.heads().items()},
        ("address",),
    )


def _register_copies(metrics: Metrics, store: Store) -> None:
    """What a store lacks and fetches from others, and what it found when it read its own records again."""
    ingest, catch_up, scrub = store.ingest, store.catch_up, store.scrub
    metrics.gauge(
        "dafka_store_lacking_addresses",
        "Addresses whose records are being fetched from other stores.",
        lambda: catch_up.lacking,
    )
    metrics.counter(
        "dafka_store_copied_records_total", "Records taken from other stores.", lambda: ingest.copied_records
    )
    metrics.counter("dafka_store_copied_bytes_total", "Bytes of those records.", lambda: ingest.copied_bytes)
    metrics.counter(
        "dafka_store_bad_copies_total",
        "Records that another store gave and that failed their checks.",
        lambda: ingest.bad_copies,
    )
    metrics.counter(
        "dafka_store_silent_sources_total",
        "Ranges that another store was asked for and did not answer in time.",
        lambda: catch_up.silences,
    )
    metrics.counter(
        "dafka_store_scrubbed_bytes_total", "Bytes of closed segments read again.", lambda: scrub.bytes
    )
    metrics.counter("dafka_store_scrub_passes_total", "Passes over all of them.", lambda: scrub.passes)
    metrics.gauge(
        "dafka_store_damaged_segments",
        "Closed segments with damage that is not repaired: replace the disk.",
        lambda: len(scrub.damage.addresses) + len(scrub.unreadable),
    )
    metrics.counter(
        "dafka_store_bad_ranges_total",
        "Ranges of closed segments that were found damaged, each once until it is repaired.",
        lambda: scrub.bad_ranges,
    )
    metrics.counter(
        "dafka_store_repaired_ranges_total",
        "Damaged ranges that were written again, as another store keeps them.",
        lambda: scrub.repaired_ranges,
    )
    metrics.gauge(
        "dafka_store_irreparable_ranges",
        "Damaged ranges of which no other store has a good copy: restore one from a copy.",
        lambda: scrub.damage.irreparable,
    )
    metrics.gauge(
        "dafka_store_differing_segments",
        "Closed segments of which another store has other records, each good for itself: see the log.",
        lambda: len(scrub.differing),
    )


def _register_native(metrics: Metrics, store: Store) -> None:
    """What a store keeps of native producers, which are no Kafka topics'."""
    native, keeping = store.native, store.native.keeping
    metrics.gauge(
        "dafka_store_native_addresses",
        "Native addresses: one for each life of a producer.",
        lambda: len(keeping),
    )
    metrics.gauge("dafka_store_native_bytes", "Bytes of native records.", lambda: keeping.bytes)
    metrics.gauge(
        "dafka_store_native_quota_bytes",
        "Bytes from where on the oldest native records go.",
        lambda: keeping.quota_bytes,
    )
    metrics.counter(
        "dafka_store_native_trimmed_bytes_total",
        "Bytes of native records that went, by quota and retention.",
        lambda: keeping.trimmed_bytes,
    )
    metrics.counter(
        "dafka_store_native_begun_later_total",
        "Native addresses that are kept from a later record on than their first, which is nowhere any more.",
        lambda: native.begun_later,
    )
