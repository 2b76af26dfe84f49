"""A catalog that another process of this machine serves (`gateway.catalog.served.server`).

Rule: the connection is all that this process has of the catalog. When it ends this process ends: nobody could
say what has become of what was under way, whoever serves the catalog is gone, and with the connection the
leases have ended that were granted to it.
"""

from __future__ import annotations

import itertools
import math
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import trio

from gateway.catalog.history import History, Watch
from gateway.catalog.interface import CatalogLost, Change, Compare, CompareFailed, Entry, LeaseNotFound
from gateway.catalog.mirror import Mirror, Transaction, check_transaction
from gateway.catalog.mirrored import PUT_BACK
from gateway.catalog.served import words
from mesh.unix_sockets import short_name

OPEN_SECONDS: Final = 10.0
"""Longest wait for all that there is when the catalog is opened."""

TROUBLE_SECONDS: Final = 3.0
"""A question that waits for so long is told."""

READ_BYTES: Final = 256 * 1024
"""Bytes of changes and answers that are read at once: they are taken in some milliseconds."""


class _Question:
    __slots__ = ("answer", "answered", "asked")

    def __init__(self) -> None:
        self.asked = trio.current_time()
        self.answered = trio.Event()
        self.answer: Mapping[str, Any] = {}


class ServedCatalog:
    """See `Catalog`. `run` has to run before anything is changed."""

    def __init__(self, path: Path) -> None:
        """Connect and read all of it. Blocks: before serving. Raises CatalogLost."""
        self._path = path
        self._frames = words.Frames()
        self._pieces: list[Entry] = []
        """Of all that there is, as far as it has come."""
        self._mirror = Mirror()
        self._history = History(0)
        self._numbers = itertools.count(1)
        self._questions: dict[int, _Question] = {}
        self._sending = trio.Lock()
        self._stream: trio.SocketStream | None = None
        self._runs = trio.Event()
        self._lost: Exception | None = None
        """What everything raises from now on."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._open()
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._socket.close()
            raise CatalogLost(
                f"the catalog {path} cannot be had: {error}. It is served by the process that starts the "
                "gateways: let that one start this one"
            ) from error

    def _open(self) -> None:
        self._socket.settimeout(OPEN_SECONDS)
        with short_name(self._path) as name:
            self._socket.connect(name)
        is_whole = False
        while not is_whole:
            data = self._socket.recv(READ_BYTES)
            if not data:
                raise OSError("whoever serves it has closed the connection")
            for frame in self._frames.feed(data):
                if "entries" in frame.told and not frame.told["more"]:
                    is_whole = True
                self._take(frame)
        self._socket.setblocking(False)

    # reads ------------------------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        return self._mirror.revision

    @property
    def sequence(self) -> int:
        return self._mirror.revision

    @property
    def trouble(self) -> str:
        oldest = min((one.asked for one in self._questions.values()), default=math.inf)
        silent = trio.current_time() - oldest
        is_silent = silent > TROUBLE_SECONDS
        return f"the catalog {self.where} has not answered for {silent:.0f} s" if is_silent else ""

    @property
    def where(self) -> str:
        return str(self._path)

    @property
    def put_back(self) -> str:
        return PUT_BACK

    def get(self, key: str) -> Entry | None:
        return self._mirror.get(key)

    def range(self, prefix: str, *, after: str = "", limit: int | None = None) -> list[Entry]:
        return self._mirror.range(prefix, after=after, limit=limit)

    def watch(self, prefix: str, from_revision: int) -> Watch:
        return Watch(self._history, prefix, from_revision)

    def changes(self, from_revision: int) -> list[Change]:
        return self._history.kept_since(from_revision)

    async def fresh(self) -> None:
        await self._ask("fresh")

    # changes ----------------------------------------------------------------------------------------------

    async def transact(
        self,
        compares: Sequence[Compare],
        puts: Mapping[str, bytes],
        deletes: Sequence[str] = (),
        lease: int | None = None,
    ) -> int:
        step = Transaction(tuple(compares), dict(puts), tuple(deletes), lease or 0)
        check_transaction(step)
        number = next(self._numbers)
        return int(await self._answer_to(number, words.transaction(number, step)))

    async def grant_lease(self, ttl_seconds: float) -> int:
        return int(await self._ask("grant", seconds=ttl_seconds))

    async def keep_alive(self, lease: int) -> None:
        await self._ask("keep", lease=lease)

    async def revoke(self, lease: int) -> None:
        await self._ask("revoke", lease=lease)

    async def _ask(self, do: str, **details: Any) -> Any:
        number = next(self._numbers)
        return await self._answer_to(number, words.question(number, do, **details))

    async def _answer_to(self, number: int, asked: bytes) -> Any:
        question = self._questions[number] = _Question()
        try:
            await self._send(asked)
            await question.answered.wait()
        finally:
            del self._questions[number]
        match question.answer:
            case {"done": done}:
                return done
            case {"compare": str(key)}:
                raise CompareFailed(key)
            case {"no_lease": int(lease)}:
                raise LeaseNotFound(lease)
        raise self._lose()

    async def _send(self, asked: bytes) -> None:
        await self._runs.wait()
        if self._lost is not None:
            raise self._lost
        assert self._stream is not None
        try:
            async with self._sending:
                # Half a frame would be the end of the connection.
                with trio.CancelScope(shield=True):
                    await self._stream.send_all(asked)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise self._lose() from None

    # following --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """See `Catalog`."""
        if self._lost is None:
            self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(self._socket))
            self._runs.set()
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                while data := await self._stream.receive_some(READ_BYTES):
                    try:
                        for frame in self._frames.feed(data):
                            self._take(frame)
                    except (KeyError, TypeError, ValueError) as error:
                        raise self._lose(f"said what cannot be understood ({error!r})") from None
        lost = self._lose()
        if not isinstance(lost, trio.ClosedResourceError):
            raise lost

    def _take(self, frame: words.Frame) -> None:
        told = frame.told
        if "changes" in told:
            plan = words.plan_in(frame, self._mirror)
            self._mirror.apply(plan)
            self._history.add(plan.revision, plan.changes)
        elif "entries" in told:
            self._pieces += words.entries_in(frame)
            if not told["more"]:
                pieces, self._pieces = self._pieces, []
                self._replace(pieces, int(told["revision"]))
        elif (question := self._questions.get(told["id"])) is not None:
            question.answer = told
            question.answered.set()

    def _replace(self, entries: Sequence[Entry], revision: int) -> None:
        """This is all that there is."""
        is_first = self._mirror.revision == 0
        plan = self._mirror.until(entries, revision)
        self._mirror.apply(plan)
        if is_first:
            self._history = History(revision)
        else:
            self._history.add(revision, plan.changes)

    # ends -------------------------------------------------------------------------------------------------

    def _lose(self, why: str = "has ended") -> Exception:
        """Nothing is done any more; the first reason counts."""
        if self._lost is None:
            self._lost = CatalogLost(
                f"the process that serves the catalog {self._path} {why}, so this one ends, too. Nothing "
                "that was acknowledged is lost: start that one again"
            )
        self._history.fail(self._lost)
        self._runs.set()
        for question in self._questions.values():
            question.answered.set()
        return self._lost

    async def aclose(self) -> None:
        if self._lost is None:
            self._lost = trio.ClosedResourceError("the catalog is closed")
        self._lose()
        if self._stream is not None:
            await self._stream.aclose()
        self._socket.close()
