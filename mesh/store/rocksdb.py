"""RocksDB as a store uses it: how it is set up, and its handles. The only file with rocksdict.

Facts that shaped it (measured; see docs/decisions/rocksdb.md):

* a write stall would keep the interpreter's lock for half a second, `no_slowdown` raises instead;
* of the reads only the list form of `get` gives it up;
* that form ignores the options of a call, and obeys those of its handle;
* only an iterator's `status()` tells of corruption;
* `flush` gives it up;
* without `raw_mode` values are pickled.

Contents go to blob files at flush (from `BLOB_BYTES` up), so compaction moves keys and rows, never batches.
"""

from pathlib import Path
from typing import Any

import rocksdict

WRITE_BUFFER_BYTES = 12 * 1024 * 1024
"""One memtable. It holds what one file of the write-ahead log has, and goes into tables when that is full."""
MAX_WRITE_BUFFERS = 6
"""Memtables before writes stall: 72 MiB in all at the worst, and so what a start replays."""
BLOCK_CACHE_BYTES = 8 * 1024 * 1024
"""Blocks of tables in memory, indexes and filters among them; contents are not cached here."""
METADATA_BLOCK_BYTES = 16 * 1024
"""One piece of a table's index or filter."""
BLOB_BYTES = 512
"""Values from this size up live in blob files."""
BLOB_FILE_BYTES = 256 * 1024 * 1024
"""Size at which the next blob file is begun."""
MAX_OPEN_FILES = 512
"""Files kept open; -1 would open, and read the index of, every file at start."""
TEXT_LOGS_KEPT = 4
TEXT_LOG_BYTES = 1024 * 1024
"""RocksDB's own text logs: how many are kept, and how large one may be."""

COLLECT = {"enable_blob_garbage_collection": "true", "blob_garbage_collection_age_cutoff": "1.0"}
DO_NOT_COLLECT = {"enable_blob_garbage_collection": "false"}
"""Compactions move contents only while `Database.rewrite` is at it: if they always did, each byte would be
written seven times."""

STALLED = "Write stall"
"""RocksDB's words where `no_slowdown` refuses a write."""
SHUTTING_DOWN = "Shutdown in progress"
"""RocksDB's words where a close cuts something short."""


def open_database(path: Path, *, read_only: bool) -> Any:
    """The database in `path`; it is made if it may be written to. Raises Exception with RocksDB's words."""
    access = rocksdict.AccessType.read_only() if read_only else rocksdict.AccessType.read_write()
    return rocksdict.Rdict(str(path), _options(create=not read_only), access_type=access)


def _options(create: bool) -> rocksdict.Options:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(create)
    options.set_paranoid_checks(True)
    # For logs that RocksDB wrote, under earlier versions: by default it drops fsynced records in silence.
    options.set_wal_recovery_mode(rocksdict.DBRecoveryMode.tolerate_corrupted_tail_records())
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(MAX_WRITE_BUFFERS)
    options.set_max_background_jobs(2)
    options.set_max_open_files(MAX_OPEN_FILES)
    options.set_skip_stats_update_on_db_open(True)
    options.set_compression_type(rocksdict.DBCompressionType.none())
    options.set_enable_blob_files(True)
    options.set_min_blob_size(BLOB_BYTES)
    options.set_blob_file_size(BLOB_FILE_BYTES)
    options.set_blob_compression_type(rocksdict.DBCompressionType.none())
    options.set_keep_log_file_num(TEXT_LOGS_KEPT)
    options.set_max_log_file_size(TEXT_LOG_BYTES)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    table = rocksdict.BlockBasedOptions()
    table.set_block_cache(rocksdict.Cache(BLOCK_CACHE_BYTES))
    table.set_bloom_filter(10, False)
    table.set_cache_index_and_filter_blocks(True)
    # In pieces: the index of a large file does not fit into a shard of the cache, and would be read from the
    # disk for every few keys.
    table.set_index_type(rocksdict.BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_metadata_block_size(METADATA_BLOCK_BYTES)
    table.set_pin_top_level_index_and_filter(True)
    options.set_block_based_table_factory(table)
    return options


def unchecked_handle(database: Any) -> Any:
    """A second handle on the same data, whose reads compare no checksum of a blob. What it read by itself
    would be taken for checked by later reads, so it leaves nothing in the block cache.
    """
    options = rocksdict.ReadOptions()
    options.set_verify_checksums(False)
    options.fill_cache(False)  # type: ignore[call-arg]  # the package's stub forgets it
    handle = database.get_column_family("default")
    handle.set_read_options(options)
    return handle


def reads_up_to(end: bytes) -> rocksdict.ReadOptions:
    """For an iterator that goes no further than before `end`."""
    options = rocksdict.ReadOptions()
    options.set_iterate_upper_bound(end)
    return options


def write_batch() -> Any:
    """An empty one: `put`, `delete`, `delete_range`."""
    return rocksdict.WriteBatch(raw_mode=True)


def unlogged_write_options(*, no_slowdown: bool) -> rocksdict.WriteOptions:
    """Writes that RocksDB logs nowhere. With `no_slowdown` it raises where it would have them wait."""
    options: Any = rocksdict.WriteOptions()
    options.disable_wal = True  # a method for the package's stub, and a property in truth
    options.no_slowdown = no_slowdown
    written: rocksdict.WriteOptions = options
    return written


def compact_options(*, rewrite: bool) -> rocksdict.CompactOptions:
    """With `rewrite` everything in the range is written anew, and not only what has changes above it."""
    options = rocksdict.CompactOptions()
    options.set_exclusive_manual_compaction(False)
    if rewrite:
        options.set_bottommost_level_compaction(rocksdict.BottommostLevelCompaction.force_optimized())
    return options
