"""Bad disks: full, failing, slow, or with bytes that are not those that were written. Each heals itself."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import pytest

from mesh.protocol.address_state import AddressState
from mesh.protocol.disk import StoreCorrupt
from mesh.store.db import LOG_DIRECTORY, Database
from mesh.store.keys import record_prefix, row_prefix, sequence_bytes
from mesh.store.opening import examined
from mesh.store.write_ahead.mark import NAME as MARK
from mesh.store.write_ahead.mark import WRITTEN_AT
from mesh.store.write_ahead.reading import ReadFile, read_files
from tests.faults.strace_log import SYNCS, WRITES, calls
from tests.peers.mesh import StoreProcess
from tests.peers.process import ServerProcess
from tests.peers.requirements import require

TO_DISK = "fdatasync,fsync"
ROOMY_BYTES = 256 * 1024 * 1024
ATTACH_SECONDS = 20.0


# full -----------------------------------------------------------------------------------------------------


class SmallDisk:
    """A context manager around a file system in memory, of so many bytes, at a new directory."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self._size = size

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            pytest.skip("mounting takes root")
        self.path.mkdir(parents=True)
        _mount("-t", "tmpfs", "-o", f"size={self._size}", "tmpfs", str(self.path))
        return self

    def __exit__(self, *_exc: object) -> None:
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)

    def grow(self, size: int) -> None:
        """Somebody makes room."""
        _mount("-o", f"remount,size={size}", str(self.path))

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Nobody may write."""
        _mount("-o", "remount,ro", str(self.path))
        try:
            yield
        finally:
            _mount("-o", f"remount,rw,size={self._size}", str(self.path))

    def fill(self, leave: int = 0) -> None:
        """Somebody else fills it, up to so many bytes; what is written here meanwhile may take those."""
        piece = bytes(64 * 1024)
        with self._ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while shutil.disk_usage(self.path).free > leave:
                file.write(piece)

    def empty(self) -> None:
        """Takes `fill` back."""
        self._ballast.unlink()

    @property
    def _ballast(self) -> Path:
        return self.path / "ballast"


def mounted(stack: ExitStack, path: Path, size: int) -> SmallDisk | None:
    """One that lasts as long as the stack; None where nobody may mount."""
    try:
        return stack.enter_context(SmallDisk(path, size))
    except pytest.skip.Exception:
        return None


@contextmanager
def roomy(path: Path) -> Iterator[Path]:
    """A new directory for the data of a test, on a disk of its own that is empty: how full the machine's is
    must not decide what its server says. On the machine's where nobody may mount one.
    """
    with ExitStack() as stack:
        if mounted(stack, path, ROOMY_BYTES) is None:
            path.mkdir(parents=True, exist_ok=True)
        yield path


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")


# failing or slow ------------------------------------------------------------------------------------------


def failing(log: Path, nth: int) -> list[str]:
    """In front of a process's command: its nth fsync fails with EIO. What it synced goes to `log`."""
    inject = f"inject={TO_DISK}:error=EIO:when={nth}"
    return [require("strace"), "-D", "-f", "-yy", "-o", str(log), "-e", f"trace={TO_DISK}", "-e", inject]


def logged(log: Path) -> list[str]:
    """In front of a process's command: what it writes and forces to disk goes to `log` (`cut_to_synced`)."""
    trace = f"trace={','.join(sorted(WRITES | SYNCS))}"
    return [
        require("strace"),
        "-D",
        "-f",
        "--seccomp-bpf",
        "-tt",
        "-yy",
        "-s",
        "0",
        "-o",
        str(log),
        "-e",
        trace,
    ]


@contextmanager
def slow(process: ServerProcess, seconds: float) -> Iterator[None]:
    """Each fsync of a running process takes so much longer."""
    inject = f"inject={TO_DISK}:delay_enter={int(seconds * 1_000_000)}"
    command = [require("strace"), "-f", "-e", f"trace={TO_DISK}", "-e", inject, "-p", str(process.pid)]
    tracer = subprocess.Popen([*command, "-o", os.devnull], stderr=subprocess.DEVNULL)
    try:
        _until_traced(process.pid)
        yield
    finally:
        tracer.send_signal(signal.SIGINT)  # it lets go of the process, which runs on
        tracer.wait(ATTACH_SECONDS)


def _until_traced(pid: int) -> None:
    deadline = time.monotonic() + ATTACH_SECONDS
    while "TracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_text():
        assert time.monotonic() < deadline, f"strace does not attach to {pid}"
        time.sleep(0.01)


# a power loss ---------------------------------------------------------------------------------------------


def cut_to_synced(log: Path, data: Path) -> int:
    """What a power loss leaves of a killed store's write-ahead log: what was forced to disk, and zeros for
    the rest. The bytes lost.

    `log` is strace's of all lives of the process since the log was made (`logged`).
    """
    waiting: dict[str, list[tuple[int, int]]] = {}
    covers: dict[tuple[int, str], int] = {}
    with log.open(errors="replace") as lines:
        for call in calls(lines):
            if f"/{LOG_DIRECTORY}/" not in call.target:
                continue
            writes = waiting.setdefault(call.target, [])
            if call.name in WRITES and not call.begins and call.result > 0:
                assert call.position >= 0, call
                writes.append((call.position, call.result))
            elif call.name in SYNCS and call.begins:
                covers[call.pid, call.target] = len(writes)
            elif call.name in SYNCS and call.result == 0:
                waiting[call.target] = writes[covers.pop((call.pid, call.target), 0) :]
    lost = 0
    for name, writes in waiting.items():
        if not Path(name).exists():
            continue
        with Path(name).open("r+b") as file:
            for position, size in writes:
                file.seek(position)
                file.write(bytes(size))
                lost += size
    of_another_boot(data / "db")
    return lost


def of_another_boot(database: Path) -> None:
    """The machine was started anew: nobody knows what was written in the boot before and not fsynced."""
    with (database / LOG_DIRECTORY / MARK).open("r+b") as page:
        page.seek(WRITTEN_AT)
        page.write(bytes(16))


def newest_log(database: Path) -> ReadFile:
    """The file of a store's write-ahead log that was written last."""
    return read_files(database / LOG_DIRECTORY, 0)[-1]


def needed_of_log(database: Path) -> tuple[Path, int]:
    """A file of a killed store's write-ahead log, and a byte of it without which something is lost: no table
    has that commit yet, and a later one says that it was fsynced.
    """
    replayed = examined(database).verdict.replayed
    fsynced = max(entry.fsynced for _, entry in replayed)
    file, entry = next((file, entry) for file, entry in replayed if entry.number <= fsynced)
    return file.path, (entry.changes_start + entry.end) // 2


# wrong bytes ----------------------------------------------------------------------------------------------


def flip_stored_bytes(store: StoreProcess) -> int:
    """A bit of every 4 KiB of a stopped store's contents; how many."""
    # An open moves what is in the write-ahead log to files of their own.
    Database(store.data / "db").close()
    flipped = 0
    for path in (store.data / "db").glob("*.blob"):
        content = bytearray(path.read_bytes())
        # Not where RocksDB keeps what the file is, and reads at its open.
        for place in range(4096, len(content) - 64, 4096):
            content[place] ^= 0x10
            flipped += 1
        path.write_bytes(content)
    return flipped


def alter_records(store: StoreProcess, every: int = 10) -> int:
    """In a stopped store, one byte of every so-manieth record of each address, so that only the record's own
    checksum tells; how many.
    """
    changed = 0
    contents = store.contents()
    database = Database(store.data / "db")
    try:
        for address, records in contents.items():
            for sequence in range(0, len(records), every):
                content = bytearray(records[sequence])
                content[-1] ^= 0x01
                database._db[record_prefix(address) + sequence_bytes(sequence)] = bytes(content)
                changed += 1
    finally:
        database.close()
    return changed


def flip_table_byte(store: StoreProcess) -> int:
    """A byte of a stopped store's table file, in a block that has records and rows only; how many of those
    cannot be read for it.
    """
    # An open moves what is in the write-ahead log to files of their own.
    database = Database(store.data / "db")
    segments = [database.load(address) for address in database.addresses("", 1_000_000)]
    whole = [state for state in segments if state is not None and state.head >= 0]
    rows = [database.row(state.address, at)[0] for state in whole for at in range(state.head, -1, -7)]
    database.close()
    for path in (store.data / "db").glob("*.sst"):
        before = path.read_bytes()
        for row in rows:
            at = before.find(row)
            if at < 0:
                continue
            path.write_bytes(before[:at] + bytes([before[at] ^ 0x10]) + before[at + 1 :])
            unreadable = _unreadable(store.data / "db", whole)
            if unreadable:
                return unreadable
        path.write_bytes(before)
    raise AssertionError("records and rows have no block of their own: write more of them")


def _unreadable(path: Path, segments: Sequence[AddressState]) -> int:
    """How many records and rows cannot be read; 0 if anything else cannot be, either."""
    database = Database(path, read_only=True)
    try:
        database.cluster_id()
        for state in segments:
            database.load(state.address)
            assert state.announcement is not None
            database.highest_epoch(state.announcement.log)
        database.addresses("", 1_000_000)
        database.unfinished("", 1_000_000)
        return sum(
            not _can_be_read(database, prefix(state.address) + sequence_bytes(sequence))
            for state in segments
            for sequence in range(state.head + 1)
            for prefix in (record_prefix, row_prefix)
        )
    except StoreCorrupt:
        return 0
    finally:
        database.close()


def _can_be_read(database: Database, key: bytes) -> bool:
    try:
        database.get(key)
    except StoreCorrupt:
        return False
    return True
