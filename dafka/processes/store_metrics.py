"""What a store shows to Prometheus of itself. Every figure is read at the scrape."""

from collections.abc import Sequence
from typing import Final

from gateway.common.metrics import Counter, Figure, Gauge, Histogram, Metrics
from mesh.store.native import NativeStore
from mesh.store.store import Store


def register_store(metrics: Metrics, store: Store) -> None:
    """Register all that a store shows."""
    fsync = Histogram()
    store.committer.statistics.observe_fsync = fsync.observe
    metrics.histogram(
        "dafka_store_fsync_seconds", "Seconds that an fsync of the write-ahead log took.", fsync
    )
    metrics.register(RECORDS, store)
    metrics.register(COPIES, store)
    metrics.register(NATIVE, store.native)


RECORDS: Final[Sequence[Figure[Store]]] = (
    Gauge("dafka_store_queued_bytes", "Bytes waiting for a commit.", lambda store: store.ingest.queued_bytes),
    Counter("dafka_store_commits_total", "Commits.", lambda store: store.committer.statistics.commits),
    Counter(
        "dafka_store_committed_bytes_total",
        "Bytes of records committed.",
        lambda store: store.committer.statistics.bytes,
    ),
    Counter(
        "dafka_store_stalls_total",
        "Writes that RocksDB put off.",
        lambda store: store.committer.statistics.stalls,
    ),
    Gauge(
        "dafka_store_slowest_fsync_seconds",
        "The slowest fsync since the start.",
        lambda store: store.committer.statistics.slowest_fsync_seconds,
    ),
    Gauge(
        "dafka_store_disk_size_bytes",
        "Size of the file system that the store is on; 0 if it does not say.",
        lambda store: store.disk()[1],
    ),
    Gauge(
        "dafka_store_disk_free_bytes",
        "Bytes that are free on it, seconds ago at most.",
        lambda store: store.disk()[0],
    ),
    Counter("dafka_store_reads_total", "Reads served.", lambda store: store.server.reads),
    Counter(
        "dafka_store_storage_errors_total",
        "Reads that met corruption.",
        lambda store: store.server.storage_errors,
    ),
    Gauge(
        "dafka_store_garbage_bytes",
        "Bytes on the disk that nothing refers to any more, when it was last looked: after every deletion.",
        lambda store: store.reclaimer.garbage_bytes,
    ),
    Counter(
        "dafka_store_collections_total",
        "How often what was left was written anew, so that such bytes could be given back.",
        lambda store: store.reclaimer.collections,
    ),
    Gauge(
        "dafka_store_durable_head",
        "Highest sequence that is durable, by address of an open segment.",
        lambda store: {(address,): head for address, head in store.ingest.heads().items()},
        ("address",),
    ),
)
"""What it writes, reads and deletes."""

COPIES: Final[Sequence[Figure[Store]]] = (
    Gauge(
        "dafka_store_lacking_addresses",
        "Addresses whose records are being fetched from other stores.",
        lambda store: store.catch_up.lacking,
    ),
    Counter(
        "dafka_store_copied_records_total",
        "Records taken from other stores.",
        lambda store: store.ingest.copied_records,
    ),
    Counter(
        "dafka_store_copied_bytes_total", "Bytes of those records.", lambda store: store.ingest.copied_bytes
    ),
    Counter(
        "dafka_store_bad_copies_total",
        "Records that another store gave and that failed their checks.",
        lambda store: store.ingest.bad_copies,
    ),
    Counter(
        "dafka_store_silent_sources_total",
        "Ranges that another store was asked for and did not answer in time.",
        lambda store: store.catch_up.silences,
    ),
    Counter(
        "dafka_store_scrubbed_bytes_total",
        "Bytes of closed segments read again.",
        lambda store: store.scrub.bytes,
    ),
    Counter("dafka_store_scrub_passes_total", "Passes over all of them.", lambda store: store.scrub.passes),
    Gauge(
        "dafka_store_damaged_segments",
        "Closed segments with damage that is not repaired: replace the disk.",
        lambda store: len(store.scrub.damage.addresses) + len(store.scrub.unreadable),
    ),
    Counter(
        "dafka_store_bad_ranges_total",
        "Ranges of closed segments that were found damaged, each once until it is repaired.",
        lambda store: store.scrub.bad_ranges,
    ),
    Counter(
        "dafka_store_repaired_ranges_total",
        "Damaged ranges that were written again, as another store keeps them.",
        lambda store: store.scrub.repaired_ranges,
    ),
    Gauge(
        "dafka_store_irreparable_ranges",
        "Damaged ranges of which no other store has a good copy: restore one from a copy.",
        lambda store: store.scrub.damage.irreparable,
    ),
    Gauge(
        "dafka_store_differing_segments",
        "Closed segments of which another store has other records, each good for itself: see the log.",
        lambda store: len(store.scrub.differing),
    ),
    Gauge(
        "dafka_store_absent_copies",
        "Closed segments that another store lacked when they were last compared, and copies again.",
        lambda store: len(store.scrub.absent),
    ),
)
"""What it lacks and fetches from others, and what it found when it read its own records again."""

NATIVE: Final[Sequence[Figure[NativeStore]]] = (
    Gauge(
        "dafka_store_native_addresses",
        "Native addresses: one for each life of a producer.",
        lambda native: len(native.keeping),
    ),
    Gauge("dafka_store_native_bytes", "Bytes of native records.", lambda native: native.keeping.bytes),
    Gauge(
        "dafka_store_native_quota_bytes",
        "Bytes from where on the oldest native records go.",
        lambda native: native.keeping.quota_bytes,
    ),
    Counter(
        "dafka_store_native_trimmed_bytes_total",
        "Bytes of native records that went, by quota and retention.",
        lambda native: native.keeping.trimmed_bytes,
    ),
    Counter(
        "dafka_store_native_untaken_bytes_total",
        "Bytes of native records that went, by quota, before the topics that take them up had all of them.",
        lambda native: native.keeping.untaken_bytes,
    ),
    Counter(
        "dafka_store_native_begun_later_total",
        "Native addresses that are kept from a later record on than their first, which is nowhere any more.",
        lambda native: native.begun_later,
    ),
    Gauge(
        "dafka_store_published_partitions",
        "Partitions whose values native readers can get here.",
        lambda native: len(native.readers.publications),
    ),
    Counter(
        "dafka_store_published_records_total",
        "Values of partitions that native readers were sent, empty records among them.",
        lambda native: native.readers.published_records,
    ),
    Counter(
        "dafka_store_published_refused_total",
        "Pieces of partitions that leaders told and for which there was no room.",
        lambda native: native.readers.publications.refused,
    ),
    Counter(
        "dafka_store_native_dropped_requests_total",
        "Requests of native readers that found too many others waiting. They come again.",
        lambda native: native.readers.dropped,
    ),
)
"""What it keeps of native producers, which are no Kafka topics', and gives native readers."""
