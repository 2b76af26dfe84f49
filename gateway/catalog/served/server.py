"""Serves a catalog of this process to others of the same machine, through a Unix socket.

Who may write the socket's directory may change the catalog; nothing listens on a network for it.

Each connection is told all that there is, and then every commit, before the answers to what was asked. A
frame is packed once for all connections. One that does not read is told no more once so much waits for it;
it gets all that there is anew when it reads again.

Rule: a lease that was granted to a connection ends with it. The kernel closes the connections of a process
that dies, so its death is seen at once; one that is stopped keeps its lease for as long as the lease says.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import trio

from gateway.catalog.interface import Compare, CompareFailed, LeaseNotFound
from gateway.catalog.mirror import Plan
from gateway.catalog.mirrored import MirroredCatalog
from gateway.catalog.served import words
from mesh.unix_sockets import listening

MAX_UNREAD_BYTES: Final = 32 * 1024 * 1024
"""Bytes of changes that wait for one connection to read them."""

MAX_UNDER_WAY: Final = 64
"""Questions of one connection that are under way at once; further ones are not read meanwhile."""

READ_BYTES: Final = 256 * 1024
"""Bytes of questions that are read at once."""

BACKLOG: Final = 128
"""Processes that connect at the same moment."""

logger = logging.getLogger(__name__)


class CatalogServer:
    """Of one catalog, whose `run` runs."""

    def __init__(self, catalog: MirroredCatalog) -> None:
        self._catalog = catalog
        self._connections: set[_Connection] = set()
        catalog.on_commit(self._tell)

    async def serve(
        self, path: Path, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until cancelled. What lies at `path` is of an earlier process. Raises OSError."""
        with listening(path, BACKLOG) as made:
            task_status.started()
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(made))
            await trio.serve_listeners(self._serve, [listener])

    async def _serve(self, stream: trio.SocketStream) -> None:
        connection = _Connection(self._catalog, stream)
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            await connection.end_leases()

    def _tell(self, plan: Plan) -> None:
        if plan.changes and self._connections:
            frame = words.changes(plan)
            for connection in self._connections:
                connection.tell(frame)


class _Connection:
    """One that uses the catalog."""

    def __init__(self, catalog: MirroredCatalog, stream: trio.SocketStream) -> None:
        self._catalog = catalog
        self._stream = stream
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._is_behind = True
        """It is to be told all that there is."""
        self._answers: list[bytes] = []
        """What waits until it is told all that there is."""
        self._something = trio.Event()
        self._leases: set[int] = set()
        self._places = trio.Semaphore(MAX_UNDER_WAY)

    def tell(self, frame: bytes) -> None:
        """Something was changed."""
        if self._is_behind:
            return
        self._unsent.append(frame)
        self._unsent_bytes += len(frame)
        if self._unsent_bytes > MAX_UNREAD_BYTES:
            self._is_behind = True
            self._unsent, self._unsent_bytes = [], 0
        self._something.set()

    def _answer(self, frame: bytes) -> None:
        if self._is_behind:
            self._answers.append(frame)
        else:
            self._unsent.append(frame)
            self._unsent_bytes += len(frame)
        self._something.set()

    async def run(self) -> None:
        """Serve it until it is gone, or cannot be understood."""
        try:
            async with self._stream, trio.open_nursery() as nursery:
                nursery.start_soon(self._send)
                await self._receive(nursery)
                nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # gone
        except* words.Malformed as error:
            logger.error("a process that uses the catalog said what cannot be understood: %s", error)

    async def end_leases(self) -> None:
        """What was promised through it holds no more."""
        with trio.CancelScope(shield=True):
            for lease in self._leases:
                with contextlib.suppress(LeaseNotFound, trio.ClosedResourceError):
                    await self._catalog.revoke(lease)

    async def _send(self) -> None:
        while True:
            if self._is_behind:
                # What is committed while this is sent is told behind it; so are answers, which say less.
                self._is_behind = False
                frames = words.all_entries(self._catalog.range(""), self._catalog.revision)
                self._unsent = [*frames, *self._answers]
                self._unsent_bytes, self._answers = 0, []
            unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
            for frame in unsent:
                await self._stream.send_all(frame)
            if not self._unsent and not self._is_behind:
                self._something = trio.Event()
                await self._something.wait()

    async def _receive(self, nursery: trio.Nursery) -> None:
        frames = words.Frames(words.MAX_QUESTION_JSON_BYTES)
        while data := await self._stream.receive_some(READ_BYTES):
            for frame in frames.feed(data):
                await self._places.acquire()
                nursery.start_soon(self._do, frame)

    async def _do(self, frame: words.Frame) -> None:
        told = frame.told
        try:
            number, act = told["id"], _ACTS[told["do"]]
            try:
                answer: Mapping[str, Any] = {"done": await act(self, frame)}
            except CompareFailed as failed:
                answer = {"compare": failed.key}
            except LeaseNotFound as lost:
                answer = {"no_lease": lost.lease}
        except (KeyError, TypeError, ValueError) as error:
            raise words.Malformed(f"{told.get('do')!r}: {error!r}") from None
        finally:
            self._places.release()
        self._answer(words.pack({"id": number, **answer}))

    async def _transact(self, frame: words.Frame) -> int:
        told = frame.told
        compares = [Compare(key, revision) for key, revision in told["compares"]]
        puts = words.puts_in(frame)
        return await self._catalog.transact(compares, puts, told["deletes"], told["lease"] or None)

    async def _grant(self, frame: words.Frame) -> int:
        lease = await self._catalog.grant_lease(float(frame.told["seconds"]))
        self._leases.add(lease)
        return lease

    async def _keep(self, frame: words.Frame) -> None:
        await self._catalog.keep_alive(int(frame.told["lease"]))

    async def _revoke(self, frame: words.Frame) -> None:
        lease = int(frame.told["lease"])
        self._leases.discard(lease)
        await self._catalog.revoke(lease)

    async def _fresh(self, _frame: words.Frame) -> None:
        await self._catalog.fresh()


_ACTS: Final[Mapping[str, Callable[[_Connection, words.Frame], Awaitable[Any]]]] = {
    "transact": _Connection._transact,
    "grant": _Connection._grant,
    "keep": _Connection._keep,
    "revoke": _Connection._revoke,
    "fresh": _Connection._fresh,
}
