"""A catalog through a Unix socket: what becomes of those who use it when somebody is gone, or slow."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from gateway.catalog.interface import CatalogLost, Change, Compare, CompareFailed, Entry, HistoryLost
from gateway.catalog.mirror import Mirror, Transaction
from gateway.catalog.served import server as server_module
from gateway.catalog.served import words
from gateway.catalog.served.catalog import ServedCatalog
from gateway.catalog.served.server import CatalogServer
from tests.unit.gateway.catalog.memory import MemoryCatalog, put_many

LONG = 3600.0

NOTHING = {"id": 1, "do": "transact", "compares": [], "puts": [], "deletes": [], "lease": 0}

Body = Callable[[MemoryCatalog, Path, trio.Nursery], Awaitable[None]]


def run(body: Body, tmp_path: Path) -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(catalog.run)
            path = tmp_path / "catalog.sock"
            await nursery.start(CatalogServer(catalog).serve, path)
            try:
                with trio.fail_after(20):
                    await body(catalog, path, nursery)
            finally:
                with trio.CancelScope(shield=True):
                    while _opened:
                        await _opened.pop().aclose()
            nursery.cancel_scope.cancel()

    trio.run(main)


_opened: list[ServedCatalog] = []
"""By the test that runs."""


async def opened(path: Path) -> ServedCatalog:
    _opened.append(await trio.to_thread.run_sync(ServedCatalog, path))
    return _opened[-1]


async def use(path: Path, nursery: trio.Nursery) -> ServedCatalog:
    handle = await opened(path)
    nursery.start_soon(handle.run)
    return handle


def test_the_end_of_a_process_is_the_end_of_its_leases(tmp_path: Path) -> None:
    async def body(catalog: MemoryCatalog, path: Path, nursery: trio.Nursery) -> None:
        gone, other = await use(path, nursery), await use(path, nursery)
        for name, handle in {"gone": gone, "other": other}.items():
            lease = await handle.grant_lease(LONG)
            await handle.transact([], {name: b"alive"}, lease=lease)
        watch = other.watch("gone", other.revision + 1)
        await gone.aclose()
        assert (await anext(watch)).value is None
        assert other.get("gone") is None
        assert other.get("other") is not None
        assert catalog.get("other") is not None

    run(body, tmp_path)


def test_who_serves_it_is_gone(tmp_path: Path) -> None:
    """Also for what waits, and for what comes later."""

    async def body(catalog: MemoryCatalog, path: Path, nursery: trio.Nursery) -> None:
        lost: list[str] = []
        ended = trio.Event()

        async def wait(handle: ServedCatalog) -> None:
            with pytest.raises(CatalogLost):
                await handle.transact([], {"a": b""})
            lost.append("transaction")

        async def follow(handle: ServedCatalog) -> None:
            with pytest.raises(CatalogLost):
                async for _ in handle.watch("", handle.revision + 1):
                    pass
            lost.append("watch")

        async def go_on(handle: ServedCatalog) -> None:
            with pytest.raises(CatalogLost, match="has ended, so this one ends, too"):
                await handle.run()
            lost.append("run")
            ended.set()

        own, serving, began = path.with_name("own.sock"), trio.CancelScope(), trio.Event()

        async def serve() -> None:
            with serving:
                async with trio.open_nursery() as server:
                    await server.start(CatalogServer(catalog).serve, own)
                    began.set()

        nursery.start_soon(serve)
        await began.wait()
        handle = await opened(own)
        async with trio.open_nursery() as using:
            for task in (go_on, wait, follow):
                using.start_soon(task, handle)
            with catalog.held():
                await trio.sleep(0.01)
                serving.cancel()
                await ended.wait()
        assert sorted(lost) == ["run", "transaction", "watch"]
        with pytest.raises(CatalogLost):
            await handle.fresh()
        with pytest.raises(CatalogLost, match="cannot be had"):
            await trio.to_thread.run_sync(ServedCatalog, own)

    run(body, tmp_path)


def test_who_is_too_slow_is_told_all_that_there_is_and_misses_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "MAX_UNREAD_BYTES", 100_000)
    monkeypatch.setattr(words, "PIECE_BYTES", 50_000)

    async def body(catalog: MemoryCatalog, path: Path, nursery: trio.Nursery) -> None:
        await catalog.transact([], {"stays": b"1", "goes": b"1", "changes": b"1"})
        handle = await opened(path)  # it does not run: nobody reads
        before = handle.revision
        for number in range(60):
            await catalog.transact([], {f"new/{number}": b"x" * 20_000, "changes": b"%d" % number})
        await catalog.transact([], {}, ["goes"])
        nursery.start_soon(handle.run)
        await handle.fresh()
        assert handle.range("") == catalog.range("")
        assert handle.revision == catalog.revision
        told = handle.changes(before + 1)
        assert [change.revision for change in told] == sorted(change.revision for change in told)
        last = {change.key: change.value for change in told}
        new = {f"new/{number}": b"x" * 20_000 for number in range(60)}
        assert last == {**new, "changes": b"59", "goes": None}
        await catalog.transact([], {"later": b""})
        await handle.fresh()
        assert handle.changes(handle.revision) == [Change(handle.revision, "later", b"")]

    run(body, tmp_path)


def test_answers_come_after_what_they_say_has_happened(tmp_path: Path) -> None:
    async def body(catalog: MemoryCatalog, path: Path, nursery: trio.Nursery) -> None:
        handle = await use(path, nursery)
        for number in range(50):
            revision = await handle.transact([], {"a": b"%d" % number})
            entry = handle.get("a")
            assert entry is not None
            assert (entry.value, entry.mod_revision) == (b"%d" % number, revision)
            await catalog.transact([], {"a": b"other"})
            with pytest.raises(CompareFailed):
                await handle.transact([Compare("a", revision)], {"a": b""})
            assert handle.get("a") == catalog.get("a")

    run(body, tmp_path)


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff" * 8,
        words.LENGTHS.pack(2, 0) + b"[]",
        words.LENGTHS.pack(3, 0) + b"{{{",
        words.pack({"id": 1, "do": "what"}),
        words.pack({"do": "fresh"}),
        words.pack({**NOTHING, "puts": [["a", 5]]}),
        words.pack({**NOTHING, "compares": 7}),
        words.pack({"id": 1, "do": "keep", "lease": "x"}),
    ],
)
def test_what_cannot_be_understood_closes_that_connection_alone(sent: bytes, tmp_path: Path) -> None:
    async def body(catalog: MemoryCatalog, path: Path, nursery: trio.Nursery) -> None:
        handle = await use(path, nursery)
        async with await trio.open_unix_socket(str(path)) as stream:
            await stream.send_all(sent)
            while await stream.receive_some(65536):
                pass
        await handle.transact([], {"a": b"1"})
        assert catalog.get("a") is not None

    run(body, tmp_path)


def test_somebody_else_at_the_socket_is_said(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def answer() -> None:
            connection, _ = listening.accept()
            connection.sendall(b"SSH-2.0 hello and more")
            connection.close()

        async def main() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, answer)
                with pytest.raises(CatalogLost, match="cannot be had"):
                    await trio.to_thread.run_sync(ServedCatalog, path)

        trio.run(main)


keys = st.sampled_from(["a", "b", "ä/\0", "c"])
steps = st.lists(
    st.tuples(st.dictionaries(keys, st.binary(max_size=20)), st.sets(keys)).map(
        lambda both: Transaction([], both[0], sorted(both[1] - both[0].keys()))
    ),
    max_size=6,
)


@given(commits=st.lists(steps, max_size=5), cut=st.integers(1, 64))
def test_a_mirror_of_what_is_told_is_the_catalog(commits: list[list[Transaction]], cut: int) -> None:
    there, told = Mirror(), Mirror()
    sent = bytearray()
    for commit in commits:
        plan = there.plan(commit)
        if plan.changes:
            sent += words.changes(plan)
        there.apply(plan)
    frames = words.Frames()
    changes = 0
    for start in range(0, len(sent), cut):
        for frame in frames.feed(bytes(sent[start : start + cut])):
            plan = words.plan_in(frame, told)
            told.apply(plan)
            changes += 1
    assert told.range("") == there.range("")
    assert told.revision == there.revision
    entries: list[Entry] = []
    for whole in words.all_entries(there.range(""), there.revision):
        (frame,) = words.Frames().feed(whole)
        entries += words.entries_in(frame)
    assert entries == there.range("")


async def _many(catalog: MemoryCatalog) -> None:
    await put_many(catalog, {f"k/{number}": b"" for number in range(11_000)})


def test_changes_that_are_not_kept_are_history_that_is_lost(tmp_path: Path) -> None:
    async def body(catalog: MemoryCatalog, path: Path, nursery: trio.Nursery) -> None:
        handle = await use(path, nursery)
        before = handle.revision
        await _many(catalog)
        await handle.fresh()
        with pytest.raises(HistoryLost):
            handle.changes(before + 1)

    run(body, tmp_path)
