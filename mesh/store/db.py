"""A store's database: one atomic write per commit, point reads, ranges by multi-get. How RocksDB is set
up, and the facts about it that shaped what is done here, are in `rocksdb`; what a commit puts in `changes`;
how values look in `values` and `keys`. The log that makes it durable is our own (`mesh.store.write_ahead`).
"""

import contextlib
import logging
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mesh.private_files import make_directory, refuse_foreign_link
from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.commit import Commit
from mesh.protocol.disk import StoreCorrupt
from mesh.store import changes, keys, rocksdb, values
from mesh.store.logged_batch import LoggedBatch
from mesh.store.write_ahead.log import WriteAheadLog
from mesh.store.write_ahead.overlay import Overlay
from mesh.store.write_ahead.replaying import Examined, begin, cut, examine, replay, replayed
from wireproto.records.batch import InvalidBatch
from wireproto.records.row import Row

LOG_DIRECTORY = "write-ahead"
"""The files of the write-ahead log, in the directory of the database."""
NOT_KNOWN = 1 << 63
"""More than any commit's number."""
CHECKED_AT_ONCE = 16
"""Contents read together before they are moved."""

logger = logging.getLogger(__name__)


class StoreFailed(Exception):
    """The disk or RocksDB failed: the process acknowledges nothing more and ends. The text has cause and next
    step.
    """

    exit_code = 4


class LogDamaged(StoreFailed):
    """The write-ahead log lacks what was acknowledged."""

    def __init__(self, examined: Examined) -> None:
        super().__init__(examined.verdict.cause)
        self.examined = examined


class WriteStalled(Exception):
    """RocksDB asks to wait with writing (`no_slowdown`): try the same commit again in a moment."""


class Database:
    """An open store. `write` and `write_native` are for the loop, `flush` for the committer's thread, reads
    for any.
    """

    _read_only = False
    _commit: int | None = None
    """The number of the last write; None until somebody asks."""

    examined: Examined
    """What the write-ahead log of a database has that is only read."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open, or make, the database in `path`. Raises `StoreFailed` with RocksDB's words, `LogDamaged`.

        With `read_only` it must be there, and not a byte of the directory is changed; a log that is damaged
        is read up to there (`examined` tells).
        """
        try:
            refuse_foreign_link(path)
            if not read_only:
                make_directory(path)
            self._db: Any = rocksdb.open_database(path, read_only=read_only)
        except Exception as error:
            raise StoreFailed(str(error)) from None
        self._unchecked = rocksdb.unchecked_handle(self._db)
        self._write_options = rocksdb.unlogged_write_options(no_slowdown=True)
        self._compaction = rocksdb.compact_options(rewrite=False)
        self._rewriting = rocksdb.compact_options(rewrite=True)
        self._reclaiming = threading.Lock()
        self._closing = False
        self._read_only = read_only
        self._open_log(path / LOG_DIRECTORY)

    # the log ----------------------------------------------------------------------------------------------

    def _open_log(self, directory: Path) -> None:
        """Replay what is not in tables. Raises `LogDamaged`, `StoreFailed`."""
        try:
            self._refuse_without_log(directory)
            examined = examine(directory, self._commit_in_tables())
            if self._read_only:
                self.examined = examined
                self._db = self._unchecked = Overlay(self._db, replayed(examined))
                if examined.verdict.last != NOT_KNOWN:
                    self._commit = examined.verdict.last
                return
            self._replay(examined)
            self._log = WriteAheadLog(directory, begin(directory), self._db.flush)
        except StoreFailed:
            self._abandon()
            raise
        except StoreCorrupt as error:
            self._abandon()
            raise StoreFailed(str(error)) from None
        except Exception as error:
            self._abandon()
            raise StoreFailed(f"the write-ahead log cannot be opened: {error}") from None

    def _refuse_without_log(self, directory: Path) -> None:
        """Raises `StoreFailed` where the whole log of a store that has one is gone."""
        if directory.is_dir():
            return
        if values.unpack_number("format", self.get(keys.FORMAT_KEY)) >= keys.OWN_LOG_FORMAT:
            raise StoreFailed(
                f"its write-ahead log is gone: there is no {directory}. Put it back; to go on without what"
                " was in it alone, make an empty directory of that name"
            )

    def _commit_in_tables(self) -> int:
        """The last commit that is in tables. Raises `StoreCorrupt`, unless they are only read: then nothing
        of the log is laid over tables that cannot say how far they go.
        """
        try:
            return self.last_commit
        except StoreCorrupt:
            if self._read_only:
                return NOT_KNOWN
            raise

    def _replay(self, examined: Examined) -> None:
        """Have everything of the log in tables, and nothing left of it that would not count. Raises
        `LogDamaged`, OSError, what RocksDB raises.
        """
        verdict = examined.verdict
        if verdict.kind == "corrupt":
            raise LogDamaged(examined)
        if verdict.replayed:
            options = rocksdb.unlogged_write_options(no_slowdown=False)
            replay(examined, rocksdb.write_batch, lambda batch: self._db.write(batch, options))
            self._db.flush()
        if verdict.kind == "torn":
            logger.warning("%s: cut off, as nothing says that it was ever fsynced", verdict.cause)
        cut(examined)
        self._commit = verdict.last

    def _abandon(self) -> None:
        """Close what cannot be used; why it cannot is what counts, and not what this says."""
        self._unchecked = self._db
        with contextlib.suppress(Exception):
            self._db.close()

    @property
    def durable_commit(self) -> int:
        """The number of the last write that this handle has fsynced; 0 before the first."""
        return self._log.fsynced

    # writing ----------------------------------------------------------------------------------------------

    def write(self, commit: Commit) -> None:
        """Write one commit, atomically, not yet fsynced. Raises `WriteStalled`, `StoreFailed`."""
        batch = LoggedBatch(rocksdb.write_batch())
        changes.put_commit(batch, commit)
        self._write(batch)

    def write_native(
        self,
        counts: Mapping[str, bytes],
        trims: Sequence[tuple[str, int]],
        gone: Sequence[str],
        *,
        whole: bool,
        wanted: bytes | None = None,
    ) -> None:
        """What is kept of native addresses: their counts; the records before a sequence go (`trims`); they
        are no native ones any more (`gone`), and if `whole` nothing else either; which topics have subjects
        (`wanted`, if that is another). Raises as `write`.
        """
        batch = LoggedBatch(rocksdb.write_batch())
        changes.put_native(batch, counts, trims, gone, whole=whole, wanted=wanted)
        self._write(batch)

    def _write(self, batch: LoggedBatch) -> None:
        """To memtables first, which may ask to wait: then nothing is in the log. If they are in tables before
        the log has the commit, it is only durable early.
        """
        if not batch.changes:
            return
        if failure := self._log.keeper.failure:
            raise _not_moved(failure)
        number = self.last_commit + 1
        batch.put(keys.COMMIT, values.pack_number(number))
        try:
            self._db.write(batch.batch, self._write_options)
        except Exception as error:
            if rocksdb.STALLED in str(error):
                raise WriteStalled from None
            raise StoreFailed(f"writing to the store failed: {error}{_next_step(str(error))}") from None
        try:
            self._log.append(number, batch.changes)
        except OSError as error:
            raise StoreFailed(f"writing to the store's write-ahead log failed: {error}") from None
        self._commit = number

    def count_written(self) -> None:
        """What is written is acknowledged, without an fsync: as long as the machine runs it must be there."""
        self._log.count_written(self._commit or 0)

    def flush(self) -> None:
        """Fsync the write-ahead log. Raises `StoreFailed`: then nothing since the last flush may be
        acknowledged.
        """
        self._fsync()

    def _fsync(self) -> None:
        try:
            self._log.fsync(self._commit or 0)
        except OSError as error:
            raise StoreFailed(f"fsync of the store's write-ahead log failed: {error}") from None

    @property
    def last_commit(self) -> int:
        """The number of the last write, 0 before the first. Raises `StoreCorrupt`."""
        if self._commit is None:
            self._commit = values.unpack_number("commit number", self.get(keys.COMMIT))
        return self._commit

    def put_now(self, puts: Mapping[bytes, bytes]) -> None:
        """Write these values, fsynced, before the store serves. Raises `StoreCorrupt`, `StoreFailed`."""
        batch = LoggedBatch(rocksdb.write_batch())
        for key, value in puts.items():
            batch.put(key, value)
        try:
            self._write(batch)
        except WriteStalled:
            raise StoreFailed("RocksDB asks to wait with the store's first write") from None
        self._fsync()

    def to_tables(self) -> None:
        """Have all that was written in tables, where a version that knows no log of ours finds it, too.
        Raises `StoreFailed`.
        """
        try:
            self._db.flush()
        except Exception as error:
            raise _not_moved(str(error)) from None

    def is_empty(self) -> bool:
        """Whether nothing was ever written here. Raises `StoreCorrupt`."""
        return next(self.scan(b"\0", b"\xff", values=False), None) is None

    def reclaim(self, address: str) -> None:
        """Give the space of a deleted address back to the file system. Slow: for a worker thread of its own,
        one at a time; `close` cuts it short.
        """
        with self._reclaiming:
            for prefix in (keys.record_prefix(address), keys.row_prefix(address)):
                if not self._closing:
                    self._db.compact_range(prefix, keys.prefix_end(prefix), self._compaction)

    def garbage(self) -> tuple[int, int]:
        """Bytes of the blob files that no key refers to any more, and bytes of those files."""
        number = self._db.property_int_value
        garbage = number("rocksdb.live-blob-file-garbage-size") or 0
        return garbage, number("rocksdb.live-blob-file-size") or 0

    def check_contents(self, address: str) -> None:
        """Read all contents of an address. Raises `StoreCorrupt`. Slow, as `reclaim`."""
        prefix = keys.record_prefix(address)
        first = next(iter(self.scan(prefix, keys.prefix_end(prefix), values=False)), None)
        sequence = 0 if first is None else keys.sequence_of(first[0])
        more = first is not None
        while more and not self._closing:
            at_once = range(sequence, sequence + CHECKED_AT_ONCE)
            more = self.get_many([prefix + keys.sequence_bytes(number) for number in at_once])[-1] is not None
            sequence += CHECKED_AT_ONCE

    def rewrite(self, address: str) -> None:
        """Write the contents of one address to new blob files, so that the old ones, which may have others'
        garbage, can go; its neighbours come with it. Slow, as `reclaim`.

        All contents must be readable: RocksDB ends all writing, for good, when it meets others in a
        compaction.
        """
        prefix = keys.record_prefix(address)
        with self._reclaiming:
            if self._closing:
                return
            self._db.set_options(rocksdb.COLLECT)
            try:
                self._db.compact_range(prefix, keys.prefix_end(prefix), self._rewriting)
            finally:
                self._db.set_options(rocksdb.DO_NOT_COLLECT)

    # reading ----------------------------------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        """One value. Raises `StoreCorrupt`."""
        return self.get_many([key])[0]

    def get_many(self, wanted: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys, in order; gives up the interpreter's lock while it reads. Raises
        `StoreCorrupt`.
        """
        try:
            found: list[bytes | None] = self._db.get(list(wanted))
        except Exception as error:
            raise StoreCorrupt(f"a stored value cannot be read: {error}") from None
        return found

    def get_unchecked(self, wanted: Sequence[bytes]) -> list[bytes | None]:
        """As `get_many`, but bytes of blob files come as the disk gives them: the caller has to check each
        value by what it carries itself. Raises `StoreCorrupt`.

        Tables are checked as ever: the seeks take their blocks into the cache, where the read finds them. One
        flipped bit in a block that nobody checks ends the process (RocksDB follows it out of the block). The
        bound lies at the first key, so no seek reads a value.
        """
        options = rocksdb.reads_up_to(wanted[0])
        try:
            iterator = self._db.iter(options)
            for key in wanted:
                iterator.seek(key)
                iterator.status()
            found: list[bytes | None] = self._unchecked.get(list(wanted))
        except Exception as error:
            raise StoreCorrupt(f"a stored value cannot be read: {error}") from None
        return found

    def load(self, address: str) -> AddressState | None:
        """What is kept of an address, or None. Raises `StoreCorrupt`."""
        meta, head = self.get_many([keys.meta_key(address), keys.head_key(address)])
        if meta is None and head is None:
            return None
        try:
            return AddressState.unpack(address, meta, values.unpack_head(head))
        except (ValueError, struct.error) as error:
            raise StoreCorrupt(f"the record of address {address} cannot be read: {error}") from None

    def row(self, address: str, sequence: int) -> tuple[bytes, int]:
        """A record's row and the running maximum timestamp in it; (b"", -1) where none is kept. Raises
        `StoreCorrupt`.
        """
        row = self.get(keys.row_prefix(address) + keys.sequence_bytes(sequence))
        if row is None:
            return b"", -1
        try:
            return row, Row.unpack(row).running_max_timestamp
        except InvalidBatch as error:
            raise StoreCorrupt(f"address {address}: row {sequence} cannot be read: {error}") from None

    def highest_epoch(self, log: str) -> tuple[int, str]:
        """The highest epoch announced for a log and the life that did, (-1, "") for none. Raises
        `StoreCorrupt`.
        """
        return self.highest_epochs([log])[0]

    def highest_epochs(self, logs: Sequence[str]) -> list[tuple[int, str]]:
        """As `highest_epoch`, of many logs with one multi-get. Raises `StoreCorrupt`."""
        found = self.get_many([keys.epoch_key(log) for log in logs])
        return [values.unpack_epoch(log, value) for log, value in zip(logs, found, strict=True)]

    def highest_epoch_of_all(self) -> int:
        """The highest epoch of any log, -1 for none: a scan of all logs. Raises `StoreCorrupt`."""
        found = self.scan(keys.EPOCHS, keys.prefix_end(keys.EPOCHS))
        return max((values.unpack_epoch(str(key), value)[0] for key, value in found), default=-1)

    def newest_segment(self, log: str) -> tuple[str, int, int]:
        """The segment of a log that begins last, of those that were announced and are not deleted, its start
        offset, and the offset after what is here of it; ("", -1, -1) for none. Segments of a version that did
        not list them count from when they are sealed or closed. Raises `StoreCorrupt`.
        """
        prefix = keys.log_prefix(log)
        try:
            iterator = self._db.iter()  # without a lower bound: with rocksdict's it gives keys below that
            iterator.seek_for_prev(keys.prefix_end(prefix))
            if iterator.valid() and iterator.key().startswith(prefix):
                start, address = keys.start_and_address(log, iterator.key())
                _, row, _, _ = values.unpack_head(self.get(keys.head_key(address)))
                return address, start, Row.unpack(row).last_offset + 1 if row else start
            iterator.status()
        except Exception as error:
            raise StoreCorrupt(f"the segments of log {log} cannot be listed: {error}") from None
        return "", -1, -1

    def unended(self, log: str) -> list[str]:
        """The addresses in a log's list that do not say that they are closed: those that are open or sealed,
        and what version 2 listed. Raises `StoreCorrupt`.
        """
        prefix = keys.log_prefix(log)
        closed = keys.phase_value(Phase.CLOSED)
        try:
            return [
                keys.start_and_address(log, key)[1]
                for key, value in self.scan(prefix, keys.prefix_end(prefix))
                if value != closed
            ]
        except (ValueError, struct.error) as error:
            raise StoreCorrupt(f"the segments of log {log} cannot be listed: {error}") from None

    def native_addresses(self) -> Iterator[tuple[str, bytes]]:
        """Every native address with what `write_native` last kept of it, b"" if nothing. Raises
        `StoreCorrupt`.
        """
        if self.get(keys.NATIVE_LISTED) is None:
            self._list_native()
        for key, value in self.scan(b"n", b"o"):
            yield keys.name_of(key), value

    def native_wanted(self) -> bytes:
        """What `write_native` last kept of the topics that have subjects, b"" if nothing."""
        return self.get(keys.NATIVE_WANTED) or b""

    def _list_native(self) -> None:
        """Find the native addresses of a store that did not list them: once."""
        batch = LoggedBatch(rocksdb.write_batch())
        for key, _ in self.scan(b"h", b"i", values=False):
            address = keys.name_of(key)
            listed = self.get_many([keys.meta_key(address), keys.native_key(address)])
            if listed == [None, None]:
                batch.put(keys.native_key(address), b"")
        batch.put(keys.NATIVE_LISTED, b"")
        try:
            self._write(batch)
        except WriteStalled:
            return  # the next start does it

    def cluster_id(self) -> str:
        """The cluster this store belongs to, "" before its first OPEN."""
        return (self.get(keys.CLUSTER_ID) or b"").decode()

    def addresses(self, first: str, count: int, *, behind: bool = False) -> list[str]:
        """Addresses that were announced, sealed or closed, from `first` on, or after it. Raises
        `StoreCorrupt`.
        """
        return self._names(b"a", keys.meta_key(first) if first else b"a", count, behind=behind)

    def unfinished(self, behind: str, count: int) -> list[str]:
        """Addresses that may lack records, after this one ("": from the first). Raises `StoreCorrupt`."""
        return self._names(b"u", keys.unfinished_key(behind) if behind else b"u", count, behind=bool(behind))

    def names_from(self, letter: bytes, start: bytes) -> tuple[str, bytes] | None:
        """The first name in keys of this letter from `start` on, and where to look for the next one; None
        after the last one. Raises `StoreCorrupt`.
        """
        for key, _ in self.scan(start, letter + b"\xff" * 2, values=False):
            try:
                name = keys.name_of(key)
            except ValueError as error:
                raise StoreCorrupt(f"the key {key.hex()} cannot be read: {error}") from None
            prefix = keys.name_key(letter, name)
            return name, keys.prefix_end(prefix) if letter in b"mr" else prefix + b"\0"
        return None

    def scan(self, first: bytes, end: bytes, *, values: bool = True) -> Iterator[tuple[bytes, bytes]]:
        """The keys from `first` to before `end`, with their values, in order. Raises `StoreCorrupt` at the
        first that cannot be read. It keeps the interpreter's lock while it reads: for nobody who serves.
        """
        options = rocksdb.reads_up_to(end)
        try:
            iterator = self._db.iter(options)
            iterator.seek(first)
            while iterator.valid() and (key := iterator.key()) < end:
                yield key, iterator.value() if values else b""
                iterator.next()
            iterator.status()
        except Exception as error:
            raise StoreCorrupt(f"a stored value cannot be read: {error}") from None

    def _names(self, letter: bytes, key: bytes, count: int, *, behind: bool) -> list[str]:
        """The names in keys of this letter from `key` on, or after it."""
        iterator = self._db.iter()
        iterator.seek(key + b"\0" if behind else key)
        found: list[str] = []
        while len(found) < count and iterator.valid():
            key = iterator.key()
            if key[:1] != letter:
                break
            found.append(key[2:].decode())
            iterator.next()
        try:
            iterator.status()
        except Exception as error:
            raise StoreCorrupt(f"the list of addresses cannot be read: {error}") from None
        return found

    def close(self) -> None:
        """Flush and close. Raises `StoreFailed`.

        A compaction that is under way is cut short. That takes the flush of the memtables with it: what they
        have is in the write-ahead log, and the next start reads it from there.
        """
        self._closing = True
        self._unchecked = self._db  # a handle of its own would keep the database open
        if self._read_only:
            self._db.close()
            return
        try:
            self._log.fsync(self._commit or 0)
            self._log.keeper.close()  # first: its thread uses RocksDB
            if self._reclaiming.locked():
                self._db.cancel_all_background(False)
            else:
                self._db.flush()
                self._log.forget()
            with self._reclaiming:
                self._db.close()
            self._log.close()
        except Exception as error:
            if rocksdb.SHUTTING_DOWN not in str(error):
                raise StoreFailed(f"closing the store failed: {error}") from None


def _not_moved(error: str) -> StoreFailed:
    return StoreFailed(f"moving what was written into tables failed: {error}{_next_step(error)}")


def _next_step(error: str) -> str:
    """What to do when RocksDB met a damaged file as it merged some: it takes no writes any more then."""
    if not error.startswith("Corruption"):
        return ""
    return (
        ". A file of this store is damaged: start an empty store on another disk, and let it take this one's "
        "place (dafka store replace)"
    )
