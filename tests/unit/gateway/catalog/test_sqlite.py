"""What only the catalog in a file does: it survives, and it refuses files that it must not touch."""

import errno
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.catalog import sqlite_files, sqlite_rows
from gateway.catalog.interface import CatalogFailed, Change, Entry, HistoryLost
from gateway.catalog.mirror import Plan
from gateway.catalog.sqlite import SqliteCatalog
from gateway.catalog.sqlite_files import set_aside
from mesh.data_directory import DataDirectoryRefused, sync_directory
from tests.unit.gateway.catalog.memory import MemoryCatalog


def with_catalog(path: Path, use: Callable[[SqliteCatalog], Awaitable[None]]) -> None:
    async def main() -> None:
        catalog = SqliteCatalog(path)
        try:
            await use(catalog)
        finally:
            await catalog.aclose()

    trio.run(main)


async def fill(catalog: SqliteCatalog) -> None:
    lease = await catalog.grant_lease(30)
    await catalog.transact([], {"a": b"\0\xff", "b": b"1", "c": b"2"})
    await catalog.transact([], {"b": b"3"}, ["c"])
    await catalog.transact([], {"leased": b""}, lease=lease)


def refusal(path: Path) -> DataDirectoryRefused:
    with pytest.raises(DataDirectoryRefused) as caught:
        SqliteCatalog(path)
    return caught.value


def damage(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as database:
        database.execute(statement)
    database.close()


def test_everything_survives_but_the_history(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with_catalog(path, fill)

    async def look(catalog: SqliteCatalog) -> None:
        assert catalog.revision == 3
        leased = catalog.get("leased")
        assert leased is not None
        assert catalog.range("") == [Entry("a", b"\0\xff", 1, 1), Entry("b", b"3", 1, 2), leased]
        assert leased.lease > 0
        with pytest.raises(HistoryLost):
            await anext(catalog.watch("", 3))
        watch = catalog.watch("", 4)
        await catalog.revoke(leased.lease)
        assert await anext(watch) == Change(4, "leased", None)

    with_catalog(path, look)
    with_catalog(
        path, lambda catalog: check_range(catalog, [Entry("a", b"\0\xff", 1, 1), Entry("b", b"3", 1, 2)])
    )


async def check_range(catalog: SqliteCatalog, expected: list[Entry]) -> None:
    await trio.lowlevel.checkpoint()
    assert catalog.range("") == expected


def test_a_lease_has_its_whole_time_again_after_a_start(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with_catalog(path, fill)
    clock = MockClock()

    async def main() -> None:
        catalog = SqliteCatalog(path)
        watch = catalog.watch("", 4)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(catalog.run)
            await wait_all_tasks_blocked()
            clock.jump(29)
            await wait_all_tasks_blocked()
            assert catalog.get("leased") is not None
            clock.jump(1)
            assert await anext(watch) == Change(4, "leased", None)
            nursery.cancel_scope.cancel()
        await catalog.aclose()

    trio.run(main, clock=clock)


KILLED = """
import os, sys, trio
from gateway.catalog.sqlite import SqliteCatalog
async def main():
    catalog = SqliteCatalog(sys.argv[1])
    for number in range(3):
        await catalog.transact([], {"n": b"%d" % number})
    os.kill(os.getpid(), 9)
trio.run(main)
"""


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode == -9
    with_catalog(path, lambda catalog: check_range(catalog, [Entry("n", b"2", 1, 3)]))


def test_the_journal_is_fsynced_with_every_commit(tmp_path: Path) -> None:
    async def look(catalog: SqliteCatalog) -> None:
        database = catalog._database
        assert database is not None
        modes = [database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
        assert modes == ["wal", 2]
        await trio.lowlevel.checkpoint()

    with_catalog(tmp_path / "catalog.sqlite", look)


class SlowCatalog(SqliteCatalog):
    """Counts its commits; the first one waits for `go_on`."""

    commits = 0

    def __init__(self, path: Path) -> None:
        self.go_on = threading.Event()
        self.begun = threading.Event()
        super().__init__(path)

    def _write(self, plan: Plan) -> None:
        self.commits += 1
        self.begun.set()
        self.go_on.wait()
        super()._write(plan)


def test_those_that_come_during_a_commit_share_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        catalog = SlowCatalog(tmp_path / "catalog.sqlite")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(catalog.transact, [], {"first": b""})
            await trio.to_thread.run_sync(catalog.begun.wait)
            for number in range(100):
                nursery.start_soon(catalog.transact, [], {f"k{number:02}": b"%d" % number})
            await wait_all_tasks_blocked()
            meanwhile = (catalog.commits, catalog.revision, catalog.get("first"))
            catalog.go_on.set()
        assert meanwhile == (1, 0, None)
        assert catalog.revision == 101
        assert [entry.value for entry in catalog.range("k")] == [b"%d" % number for number in range(100)]
        assert catalog.commits == 2
        await catalog.aclose()

    trio.run(main)


def test_cancelled_during_its_commit_it_has_happened(tmp_path: Path) -> None:
    async def main() -> None:
        catalog = SlowCatalog(tmp_path / "catalog.sqlite")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(catalog.transact, [], {"a": b""})
            await trio.to_thread.run_sync(catalog.begun.wait)
            nursery.cancel_scope.cancel()
            catalog.go_on.set()
        assert catalog.get("a") == Entry("a", b"", 1, 1)
        await catalog.aclose()

    trio.run(main)


def test_after_a_disk_error_nothing_is_written_any_more(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"

    async def use(catalog: SqliteCatalog) -> None:
        await catalog.transact([], {"kept": b"1"})
        assert catalog._database is not None
        (pages,) = catalog._database.execute("PRAGMA page_count").fetchone()
        catalog._database.execute(f"PRAGMA max_page_count = {pages}")
        watch = catalog.watch("", 2)
        with pytest.raises(CatalogFailed, match="disk is full") as failed:
            await catalog.transact([], {"lost": b"x" * 100_000})
        assert failed.value.exit_code == 4
        catalog._database.execute(f"PRAGMA max_page_count = {pages + 1_000}")
        with pytest.raises(CatalogFailed):
            await catalog.transact([], {"small": b""})
        with pytest.raises(CatalogFailed):
            await anext(watch)
        assert catalog.range("") == [Entry("kept", b"1", 1, 1)]

    with_catalog(path, use)
    with_catalog(path, lambda catalog: check_range(catalog, [Entry("kept", b"1", 1, 1)]))


def test_all_that_shared_the_failed_commit_are_told() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        catalog.fail_next_commit = True
        failed = 0

        async def transact(number: int) -> None:
            nonlocal failed
            with pytest.raises(CatalogFailed):
                await catalog.transact([], {str(number): b""})
            failed += 1

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(transact, number)
        assert failed == 5
        assert catalog.range("") == []

    trio.run(main)


def test_a_file_in_use_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"

    async def use(catalog: SqliteCatalog) -> None:
        await catalog.transact([], {"a": b""})
        refused = refusal(path)
        assert (refused.cause, refused.exit_code) == ("another process is using it", 3)

    with_catalog(path, use)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with_catalog(path, fill)
    damage(path, "PRAGMA user_version = 3")
    assert refusal(path).cause == "it has format version 3, and this program knows 2 at most"


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    damage(path, "CREATE TABLE songs (name TEXT)")
    before = path.read_bytes()
    assert refusal(path).cause == "it is a database, but not Dafka's catalog"
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET value = x'00fe' WHERE key = 'a'",
        "UPDATE entries SET key = 'A' WHERE key = 'a'",
        "UPDATE entries SET mod_revision = 2 WHERE key = 'a'",
        "UPDATE entries SET create_revision = 0 WHERE key = 'b'",
        "UPDATE entries SET lease = 5 WHERE key = 'b'",
        "UPDATE entries SET value = 'text' WHERE key = 'b'",
        "UPDATE state SET revision = 1",
        "UPDATE state SET content = x'00'",
        "DELETE FROM state",
        "UPDATE leases SET ttl_seconds = 'text'",
        "DROP TABLE leases",
    ],
)
def test_a_damaged_row_is_refused(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "catalog.sqlite"
    with_catalog(path, fill)
    damage(path, statement)
    refused = refusal(path)
    assert "damaged" in refused.cause
    assert "--rebuild-catalog" in refused.next_step
    assert refused.exit_code == 3


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "catalog.sqlite"
    path.write_bytes(content)
    assert "damaged" in refusal(path).cause
    assert path.read_bytes() == content


def test_a_directory_in_its_place_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path).exit_code == 2


def test_a_catalog_set_aside_makes_room_for_another(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    assert set_aside(path) is None
    for number in (1, 2):
        with_catalog(path, fill)
        path.with_name("catalog.sqlite-wal").write_bytes(b"rest")
        assert set_aside(path) == tmp_path / f"catalog.sqlite.broken-{number}"
        assert not path.exists()
        assert (tmp_path / f"catalog.sqlite.broken-{number}-wal").read_bytes() == b"rest"
        assert not path.with_name("catalog.sqlite-wal").exists()
    with_catalog(path, lambda catalog: check_range(catalog, []))


def test_a_crash_while_it_is_set_aside_leaves_no_older_catalog(tmp_path: Path) -> None:
    """Nor a log that would be applied to the next one."""
    path = tmp_path / "catalog.sqlite"
    log = path.with_name("catalog.sqlite-wal")
    with_catalog(path, fill)
    log.write_bytes(b"rest")
    path.rename(tmp_path / "catalog.sqlite.broken-1")
    refused = refusal(path)
    assert "it is gone, and its log catalog.sqlite-wal is not" in refused.cause
    assert not path.exists()
    assert set_aside(path) == tmp_path / "catalog.sqlite.broken-1"
    assert (tmp_path / "catalog.sqlite.broken-1-wal").read_bytes() == b"rest"
    with_catalog(path, lambda catalog: check_range(catalog, []))


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM entries WHERE key = 'a'",
        "DELETE FROM leases",
        "UPDATE leases SET ttl_seconds = 31",
        "INSERT INTO leases VALUES (7, 30)",
    ],
)
def test_rows_that_are_missing_or_too_many_are_refused(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "catalog.sqlite"
    with_catalog(path, fill)
    damage(path, statement)
    refused = refusal(path)
    assert refused.cause == "it has not the rows that revision 3 left in it"
    assert "--rebuild-catalog" in refused.next_step


async def fill_more(catalog: SqliteCatalog) -> None:
    for number in range(30):
        await catalog.transact([], {f"/segments/{number % 7}/{number}": b"x" * 300, "n": b"%d" % number})
        if number % 5 == 4:
            await catalog.transact([], {}, [f"/segments/{(number - 2) % 7}/{number - 2}"])


def content_of(path: Path) -> tuple[list[Entry], int]:
    catalog = SqliteCatalog(path)
    try:
        return catalog.range(""), catalog.revision
    finally:
        catalog._shut()


def test_a_flipped_bit_in_the_file_is_never_another_catalog(tmp_path: Path) -> None:
    path, copy = tmp_path / "catalog.sqlite", tmp_path / "copy.sqlite"
    with_catalog(path, fill_more)
    good, content = content_of(path), path.read_bytes()
    dice = random.Random(3)
    pages = range(0, len(content), 4096)
    places = [page + (100 if page == 0 else 0) + dice.randrange(12) for page in pages for _ in range(20)]
    places += [dice.randrange(len(content)) for _ in range(200)]
    refused = 0
    for place in places:
        flipped = bytearray(content)
        flipped[place] ^= 1 << dice.randrange(8)
        copy.write_bytes(flipped)
        try:
            assert content_of(copy) == good
        except DataDirectoryRefused:
            refused += 1
    assert refused > 20


def copy_files(folder: Path, to: Path) -> None:
    for file in folder.glob("catalog.sqlite*"):
        shutil.copy(file, to)


def test_a_flipped_bit_in_the_log_takes_no_acknowledged_commit(tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    killed.mkdir()

    async def kill(catalog: SqliteCatalog) -> None:
        await fill_more(catalog)
        copy_files(tmp_path, killed)

    with_catalog(tmp_path / "catalog.sqlite", kill)
    content = (killed / "catalog.sqlite-wal").read_bytes()
    good = content_of(tmp_path / "catalog.sqlite")
    dice = random.Random(4)
    causes = []
    for number in range(60):
        folder = tmp_path / f"{number}"
        shutil.copytree(killed, folder)
        flipped = bytearray(content)
        flipped[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
        (folder / "catalog.sqlite-wal").write_bytes(flipped)
        try:
            assert content_of(folder / "catalog.sqlite") == good
        except DataDirectoryRefused as error:
            causes.append(error.cause)
    assert len(causes) > 30
    assert all("its log is damaged" in cause for cause in causes)


def killed_catalog(folder: Path) -> Path:
    """A catalog as a SIGKILL leaves it: with its log, and n=2 at revision 3."""
    folder.mkdir()
    path = folder / "catalog.sqlite"
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert path.with_name("catalog.sqlite-wal").exists()
    return path


AFTER_KILLED = ([Entry("n", b"2", 1, 3)], 3)


def test_a_file_that_lost_its_bytes_is_no_new_catalog(tmp_path: Path) -> None:
    """SQLite would delete the log, which may be all that there is."""
    path = killed_catalog(tmp_path / "k")
    log = path.with_name("catalog.sqlite-wal")
    content = log.read_bytes()
    path.write_bytes(b"")
    assert "it is empty, and its log" in refusal(path).cause
    assert log.read_bytes() == content


KILLED_ANEW = """
import os, shutil, sys
from pathlib import Path
from gateway.catalog import sqlite, sqlite_files
def die(*_):
    os.kill(os.getpid(), 9)
def second(*arguments, calls=[]):
    calls.append(arguments)
    return die() if len(calls) == 2 else copy(*arguments)
copy = shutil.copyfile
match sys.argv[2]:
    case "copy": shutil.copyfile = die
    case "copy of the log": shutil.copyfile = second
    case "check": sqlite.read_all = die
    case "fsync": os.fsync = die
    case "replace": Path.replace = die
    case "sync_directory": sqlite_files.sync_directory = die
    case "remove": sqlite.remove_log = die
sqlite.SqliteCatalog(sys.argv[1])
"""


@pytest.mark.parametrize(
    "step", ["copy", "copy of the log", "check", "fsync", "replace", "sync_directory", "remove"]
)
def test_killed_while_it_is_written_anew(tmp_path: Path, step: str) -> None:
    path = killed_catalog(tmp_path / "k")
    done = subprocess.run([sys.executable, "-c", KILLED_ANEW, str(path), step], check=False)
    assert done.returncode == -9
    before = path.stat().st_ino
    assert content_of(path) == AFTER_KILLED
    assert path.stat().st_ino != before
    assert sorted(file.name for file in path.parent.iterdir()) == ["catalog.sqlite"]


def test_a_disk_that_is_full_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = killed_catalog(tmp_path / "k")
    log = path.with_name("catalog.sqlite-wal").read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfile", full)
        refused = refusal(path)
    assert (refused.exit_code, refused.next_step) == (4, "Free space or replace the disk")
    assert "No space left on device" in refused.cause
    assert len(log) > 0
    assert content_of(path) == AFTER_KILLED


def test_the_copy_is_on_the_disk_before_it_takes_the_place_and_that_before_the_log_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = killed_catalog(tmp_path / "k")
    happened: list[str] = []
    fsync, replace, unlink = os.fsync, Path.replace, Path.unlink

    def name_of(descriptor: int) -> str:
        return Path(f"/proc/self/fd/{descriptor}").readlink().name

    def seen_fsync(descriptor: int) -> None:
        happened.append(f"fsync {name_of(descriptor)}")
        fsync(descriptor)

    def seen_replace(file: Path, target: Path) -> Path:
        happened.append(f"{file.name} replaces {target.name}")
        return replace(file, target)

    def seen_unlink(file: Path, **options: bool) -> None:
        if file.exists():
            happened.append(f"{file.name} goes")
        unlink(file, **options)

    def seen_sync(directory: Path) -> None:
        happened.append("fsync of the directory")
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", fsync)
            sync_directory(directory)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", seen_fsync)
        patched.setattr(Path, "replace", seen_replace)
        patched.setattr(Path, "unlink", seen_unlink)
        patched.setattr(sqlite_files, "sync_directory", seen_sync)
        assert content_of(path) == AFTER_KILLED
    log = [event for event in happened if event.endswith("goes") and "-shm" not in event]
    assert log == ["catalog.sqlite-wal goes"]
    assert happened[:4] == [
        "fsync catalog.sqlite.new",
        "catalog.sqlite.new replaces catalog.sqlite",
        "fsync of the directory",
        "catalog.sqlite-wal goes",
    ]


def test_what_cannot_be_believed_is_not_put_in_the_file_s_place(tmp_path: Path) -> None:
    path = killed_catalog(tmp_path / "k")
    inode = path.stat().st_ino
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sqlite_rows, "crc_of", lambda _entry: 0)
        assert "is damaged" in refusal(path).cause
    assert path.stat().st_ino == inode
    assert content_of(path) == AFTER_KILLED


def test_what_is_made_is_the_owners_alone(tmp_path: Path) -> None:
    """As it runs, and after it was killed; a library or a test may have another umask."""
    before = os.umask(0o022)
    try:
        catalog = SqliteCatalog(tmp_path / "catalog.sqlite")
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
        trio.run(catalog.aclose)
        path = killed_catalog(tmp_path / "k")
        for part in path.parent.iterdir():
            part.chmod(0o644)
        trio.run(SqliteCatalog(path).aclose)
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes links of other users")
def test_behind_somebody_elses_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    for name in (target, tmp_path / "nothing"):
        link = tmp_path / "catalog.sqlite"
        link.unlink(missing_ok=True)
        link.symlink_to(name)
        os.lchown(link, 4711, 4711)
        with pytest.raises(DataDirectoryRefused, match="symbolic links"):
            SqliteCatalog(link)
        assert not name.exists()


def test_behind_a_link_and_with_its_mode(tmp_path: Path) -> None:
    target = killed_catalog(tmp_path / "k")
    target.chmod(0o600)
    link = tmp_path / "link.sqlite"
    link.symlink_to(target)
    before = target.stat().st_ino
    assert content_of(link) == AFTER_KILLED
    assert link.is_symlink()
    assert target.stat().st_ino != before
    assert target.stat().st_mode & 0o777 == 0o600


def test_what_was_set_aside_before_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    for name in ("broken-1", "broken-1-wal", "broken-3-wal"):
        (tmp_path / f"catalog.sqlite.{name}").write_bytes(name.encode())
    log = path.with_name("catalog.sqlite-wal")
    log.write_bytes(b"second")
    assert set_aside(path) == tmp_path / "catalog.sqlite.broken-2"
    log.write_bytes(b"third")
    assert set_aside(path) == tmp_path / "catalog.sqlite.broken-4"
    kept = {file.name.removeprefix("catalog.sqlite."): file.read_bytes() for file in tmp_path.iterdir()}
    assert kept == {
        "broken-1": b"broken-1",
        "broken-1-wal": b"broken-1-wal",
        "broken-2-wal": b"second",
        "broken-3-wal": b"broken-3-wal",
        "broken-4-wal": b"third",
    }


def test_after_a_kill_nobody_believes_the_page_cache(tmp_path: Path) -> None:
    """The file is written anew, and is whole without the log of before."""
    path = tmp_path / "catalog.sqlite"
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    before = path.stat().st_ino
    content_of(path)
    assert path.stat().st_ino != before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["catalog.sqlite"]
    after = path.stat().st_ino
    assert content_of(path) == ([Entry("n", b"2", 1, 3)], 3)
    assert path.stat().st_ino == after


def make_format_1(path: Path, revision: int) -> None:
    damage(path, "DROP TABLE state")
    damage(path, "CREATE TABLE revision (only_row INTEGER PRIMARY KEY, revision INTEGER NOT NULL)")
    damage(path, f"INSERT INTO revision VALUES (0, {revision})")
    damage(path, "PRAGMA user_version = 1")


def test_format_1_with_rows_of_a_later_revision_is_refused(tmp_path: Path) -> None:
    """It has no sum of its rows: that they are its own is told by their revisions alone."""
    path = tmp_path / "catalog.sqlite"
    with_catalog(path, fill)
    make_format_1(path, 2)
    assert "is damaged" in refusal(path).cause


def test_format_1_is_brought_to_this_one(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with_catalog(path, fill)
    expected = content_of(path)
    make_format_1(path, 3)
    assert content_of(path) == expected
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (2,)
    database.close()
    assert content_of(path) == expected
