"""What a store shows to Prometheus of itself. Each figure is read at the scrape."""

from gateway.common.metrics import Metrics
from mesh.store.store import Store


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
