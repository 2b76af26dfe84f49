"""A store node: the shell that joins the ingest machine, the committer's thread and the read server to the
mesh.

How a record gets to the disk: `Node` decodes RECORD -> `Ingest.on_record` takes it if it is the next of its
address -> when no more messages wait, `_pump` takes one `Commit` and `Committer.write` writes it -> the
committer's thread fsyncs -> back on the loop `Ingest.committed` gives the ACKs, which are published, and the
next commit is taken. What other stores have and this one lacks `CatchUp` fetches from them, over the same
node; they must be linked both ways.
"""

import contextlib
import logging
import shutil
import socket
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import trio

from mesh.keys.roles import Role
from mesh.links import Context
from mesh.node import Node
from mesh.protocol.catch_up import CATCH_UP_BYTES_PER_SECOND, CatchUp
from mesh.protocol.commit import Commit
from mesh.protocol.disk import StoreCorrupt
from mesh.protocol.ingest import Ingest
from mesh.protocol.native_keeping import NATIVE_BYTES, NATIVE_SECONDS, NativeKeeping
from mesh.protocol.starts import NONCE_BYTES
from mesh.requests import Requests
from mesh.routing import store_routes
from mesh.store.catalog_memory import read_head
from mesh.store.committer import Committer, Fsync
from mesh.store.damage import Damage
from mesh.store.db import Database, StoreFailed, WriteStalled
from mesh.store.identity import Identity, settle
from mesh.store.mender import Mender
from mesh.store.native import NativeStore
from mesh.store.published import PublishedRecords
from mesh.store.reclaimer import Reclaimer
from mesh.store.scrub import SCRUB_BYTES_PER_SECOND, SCRUB_REST_SECONDS, Scrub
from mesh.store.senders import Senders
from mesh.store.server import Server
from mesh.store.starting import OwnStarts
from wireproto.dafka import ids
from wireproto.dafka.additions import ANY_STORE, End, Keep, Ping, Pong, Request
from wireproto.dafka.messages import DirectRecord, Fetch, Head, Record, directed_prefix, directed_topic

STALL_RETRY_SECONDS = 0.005
"""Pause before a write that RocksDB put off (`no_slowdown`) is tried again."""

GAP_TICK_SECONDS = 0.05
"""How often is looked for FETCHes that are due: of gaps, and to other stores."""

FREE_BYTES_SECONDS = 1.0
"""How old the free bytes may be that a PONG tells."""

RESUMED_AT_ONCE = 64
"""Addresses that may lack records, looked at before other tasks run at a start."""

SHORT_NAME_CHARACTERS = 8

BELL_BYTES = 64
"""Bytes taken at once from the committer's thread: one for each report, and there is one at a time."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StoreSettings:
    """How one store runs. `incarnation` comes with its data directory; without a name it is called by the
    first characters of it.
    """

    path: Path
    incarnation: str
    name: str = "store"
    fsync: Fsync = Fsync.ALWAYS
    fsync_interval_seconds: float = 1.0
    catch_up_bytes_per_second: float = CATCH_UP_BYTES_PER_SECOND
    scrub_bytes_per_second: float = SCRUB_BYTES_PER_SECOND
    scrub_interval_seconds: float = SCRUB_REST_SECONDS
    native_bytes: int = NATIVE_BYTES
    native_seconds: float = NATIVE_SECONDS


def _settled(settings: StoreSettings, database: Database, identity: Identity | None) -> StoreSettings:
    """The settings with who the store is, and what it is called."""
    if identity is not None:
        settings = replace(settings, incarnation=settle(database, identity))
    return replace(settings, name=settings.name or settings.incarnation[:SHORT_NAME_CHARACTERS])


class Store:
    """One store. `run` serves until cancelled, and raises `StoreFailed` when its disk does."""

    def __init__(self, context: Context, settings: StoreSettings, identity: Identity | None = None) -> None:
        """Open the database. With `identity` the store is whom that and the database agree on, in place of
        `settings.incarnation`. Raises `StoreFailed`, `StoreCorrupt`, and what the identity raises.
        """
        self._context = context
        self.database = Database(settings.path)
        unique = uuid4().hex.upper()
        self.life = unique[:16]
        """Begins the requester ids of what this store copies from others. Nobody else is told it, so that no
        native listens to what is copied (`mesh.keys.hearing`)."""
        try:
            settings = self.settings = _settled(settings, self.database, identity)
            self.starts = OwnStarts(self.database, uuid4().bytes[:NONCE_BYTES])
        except BaseException:
            self.database.close()
            raise
        self.node = Node(context)
        self.ingest = Ingest(
            settings.incarnation, self.database, self.database.cluster_id(), self.starts.nonce
        )
        self.ingest.catalog_memory.begin(read_head(self.database))
        self.catch_up = CatchUp(self.ingest, self.life, settings.catch_up_bytes_per_second, self._is_linked)
        self._more = trio.Event()
        """Set when there is more to do than one turn of the loop should take."""
        self._disk_seen = 0, 0
        self._disk_seen_at = -FREE_BYTES_SECONDS
        self.requests = Requests(self.node, unique[16:])
        """What the scrub asks of other stores."""
        self.damage = Damage()
        self.server = Server(
            self.node.publisher,
            settings.incarnation,
            self.ingest,
            self.database,
            self.damage,
            self.starts.nonce,
        )
        self.reclaimer = Reclaimer(self.database)
        self.native = NativeStore(
            self.node,
            settings.incarnation,
            self.ingest,
            self.database,
            self.reclaimer,
            NativeKeeping(settings.native_bytes, settings.native_seconds),
            PublishedRecords(self.database, self.ingest, self.damage),
            self._fail,
        )
        self.mender = Mender(self.database, self.ingest, self.requests, self._is_linked, self._pump)
        self.scrub = Scrub(
            self.database,
            self.damage,
            self.mender,
            settings.scrub_bytes_per_second,
            settings.scrub_interval_seconds,
        )
        self.server.on_corrupt = self.native.readers.on_corrupt = self.scrub.hurry
        self._reports: deque[tuple[Commit, StoreFailed | None]] = deque()
        """From the committer's thread; each is followed by a byte from `_bell` to `_ear`."""
        self._bell: socket.socket
        self._ear: socket.socket
        self._failed = trio.Event()
        self._error: StoreFailed | None = None
        self._busy = False
        self._stopping = False
        """The sockets are closed or about to be: nothing is sent, and nothing more is written."""
        self._turn: float | None = None
        """When the turn of messages that is under way began, once it has brought a record: trio's clock."""
        self._stalled: trio.MemorySendChannel[Commit]
        self._put_off: trio.MemoryReceiveChannel[Commit]
        self._stalled, self._put_off = trio.open_memory_channel(1)
        self.committer = Committer(
            self.database, settings.fsync, settings.fsync_interval_seconds, self._report_from_thread
        )
        self._listen()

    def _listen(self) -> None:
        node, incarnation = self.node, self.settings.incarnation
        for everybodys in (ids.RECORD, ids.HEAD):
            node.subscribe(everybodys)
        for answer_id in (ids.DIRECT_RECORD, ids.END):
            for requester in (incarnation, self.life):
                node.subscribe(answer_id + requester.encode())
        node.subscribe(directed_prefix(ids.FETCH, incarnation))
        for request_id in ids.REQUESTS:
            node.subscribe(request_id + directed_topic(incarnation, ""))
        node.subscribe(directed_prefix(ids.PING, ANY_STORE))
        node.route(store_routes(self, self.server, self.native, self.requests))
        node.on_drained(self._pump)
        node.on_admit(Senders(self.ingest, self.database).admits)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; then finish the commit at hand and close. Raises `StoreFailed`.

        What was not acknowledged by then may be kept or not.
        """
        self._bell, self._ear = socket.socketpair()
        self._ear.setblocking(False)
        self.committer.start()
        try:
            await trio.to_thread.run_sync(self.native.load)
            async with trio.open_nursery() as nursery:
                await nursery.start(self._run_node)
                nursery.start_soon(self._hear_committer)
                nursery.start_soon(self.server.run)
                nursery.start_soon(self.native.run)
                nursery.start_soon(self.reclaimer.run)
                nursery.start_soon(self.scrub.run)
                nursery.start_soon(self._fetch_due)
                nursery.start_soon(self._resume)
                nursery.start_soon(self._write_stalled)
                task_status.started()
                await self._failed.wait()
                nursery.cancel_scope.cancel()
        finally:
            await self._stop()
        if self._error is not None:
            raise self._error

    async def _run_node(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        try:
            await self.node.run(task_status=task_status)
        finally:
            # In the same turn of the loop as the sockets are closed: a read under way may hold up the others.
            self._stopping = True

    async def _stop(self) -> None:
        self._stopping = True
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self.committer.stop)
            if self._error is None:
                await trio.to_thread.run_sync(self.database.close)
        self._bell.close()
        self._ear.close()

    # events -----------------------------------------------------------------------------------------------

    def on_record(self, record: Record) -> None:
        """A producer has published a record. All of one turn have come at one time."""
        now = self._turn
        if now is None:
            now = self._turn = trio.current_time()
        self.ingest.on_record(record, now)

    def on_head(self, head: Head) -> None:
        """A producer says how far it is."""
        self.ingest.on_head(head, trio.current_time())

    def on_direct_record(self, record: DirectRecord) -> None:
        """A record that was asked for: by this store, by what it copies, or by the scrub."""
        if record.requester == self.settings.incarnation:
            if not self.native.takes(record):
                return
            again = Record(record.address, record.subject, record.sequence, record.content)
            self.ingest.on_record(again, trio.current_time())
        elif record.requester.startswith(self.requests.prefix):
            self.requests.on_record(record)
        else:
            self.catch_up.on_record(record, trio.current_time())

    def on_end(self, end: End) -> None:
        """The end of what was asked for, as `on_direct_record`."""
        if end.requester.startswith(self.requests.prefix):
            self.requests.on_answer(end)
        elif end.requester == self.settings.incarnation:
            self.native.on_end(end)
        else:
            self.catch_up.on_end(end, trio.current_time())

    def _is_linked(self, store: str) -> bool:
        """Whether another store would hear a FETCH that is directed at it."""
        return self.node.publisher.subscribed(directed_prefix(ids.FETCH, store))

    def on_request(self, request: Request) -> None:
        """A request with a list; BEGINNINGS is for reading, and PUBLISH about native readers."""
        if request.store != self.settings.incarnation:
            return
        if request.id == ids.BEGINNINGS:
            self.server.on_beginnings(request)
        elif request.id == ids.PUBLISH:
            self.native.readers.on_publish(request, self.starts.nonce)
        else:
            sender = self.node.sender
            self.ingest.on_request(request, sender is not None and sender.role is Role.STORE)

    def on_keep(self, keep: Keep) -> None:
        """A gateway has something of its catalog kept here, or asks what is."""
        if keep.store == self.settings.incarnation:
            self.ingest.on_keep(keep)

    def on_ping(self, ping: Ping) -> None:
        """A gateway asks who is there."""
        if ping.store in (ANY_STORE, self.settings.incarnation):
            incarnation, name = self.settings.incarnation, self.settings.name
            self.ingest.on_asked(ping.requester)
            starts, asked = self.starts, ping.remembered
            pong = Pong(
                ping.requester,
                incarnation,
                self.ingest.cluster_id,
                name,
                *self.disk(),
                starts.nonce,
                starts.durable_commit,
                asked,
                starts.last_commit_of(asked) if asked else -1,
            )
            self.node.send(pong)

    def disk(self) -> tuple[int, int]:
        """Bytes that are free on the disk, and its size; 0 if it does not say."""
        now = trio.current_time()
        if now - self._disk_seen_at >= FREE_BYTES_SECONDS:
            self._disk_seen_at = now
            try:
                usage = shutil.disk_usage(self.settings.path)
                self._disk_seen = usage.free, usage.total
            except OSError:
                self._disk_seen = 0, 0
        return self._disk_seen

    # commits ----------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """All waiting messages are handled: send what needs no disk, and write the next commit."""
        self._turn = None
        if self._stopping:
            return
        now = trio.current_time()
        for effect in self.ingest.take_effects(now):
            allowed = self.native.allowed(effect) if isinstance(effect, Fetch) else effect
            if allowed is not None:
                self.node.send(allowed)
        if self.native.resends.unasked:
            for ask in self.native.take_asks(now):
                self.node.send(ask)
        for fetch in self.catch_up.take_effects(now):
            self.node.send(fetch)
        if self.catch_up.has_more:
            self._more.set()
        while not self._busy and self._error is None:
            commit = self.ingest.take_commit()
            if commit is None:
                return
            self._write(commit)

    def _write(self, commit: Commit) -> None:
        try:
            if self.committer.write(commit):
                self._on_durable(commit)
            else:
                self._busy = True
        except WriteStalled:
            self.committer.statistics.stalls += 1
            self._busy = True
            self._stalled.send_nowait(commit)
        except StoreFailed as error:
            self._fail(error)

    async def _write_stalled(self) -> None:
        """Try a commit again that RocksDB put off; what arrives meanwhile waits."""
        async for commit in self._put_off:
            await trio.sleep(STALL_RETRY_SECONDS)
            if self._stopping:
                return
            self._busy = False
            self._write(commit)
            self._pump()

    def _report_from_thread(self, commit: Commit, error: StoreFailed | None) -> None:
        self._reports.append((commit, error))
        with contextlib.suppress(OSError):  # the loop is gone
            self._bell.send(b"\0")

    async def _hear_committer(self) -> None:
        """Take the committer's reports: as `run_sync_soon`, with fewer steps, since every ACK waits here."""
        while True:
            await trio.lowlevel.wait_readable(self._ear)
            self._ear.recv(BELL_BYTES)
            while self._reports:
                self._on_fsynced(*self._reports.popleft())

    def _on_fsynced(self, commit: Commit, error: StoreFailed | None) -> None:
        self._busy = False
        if error is not None:
            self._fail(error)
            return
        if self._stopping:
            return
        self._context.deliver_after(self._go_on, commit)

    def _go_on(self, commit: Commit) -> None:
        self._on_durable(commit)
        self._pump()

    def _on_durable(self, commit: Commit) -> None:
        for effect in self.ingest.committed(commit):
            self.node.send(effect)
        for state in commit.deletions:
            self.reclaimer.add(state.address)
        if commit.repairs:
            self.mender.on_durable(commit.repairs)
        self.native.committed(commit)

    def _fail(self, error: StoreFailed) -> None:
        """Nothing is acknowledged from here on; `run` raises the error."""
        self._error = error
        self._failed.set()

    async def _fetch_due(self) -> None:
        while True:
            with trio.move_on_after(GAP_TICK_SECONDS):
                await self._more.wait()
            self._more = trio.Event()
            now = trio.current_time()
            for due in (self.ingest.next_due(), self.catch_up.next_due()):
                if due is not None and due <= now:
                    self._pump()
                    break

    async def _resume(self) -> None:
        """Take up what lacked records when the store was last stopped."""
        last = ""
        while True:
            try:
                addresses = await trio.to_thread.run_sync(self.database.unfinished, last, RESUMED_AT_ONCE)
            except StoreCorrupt as error:
                logger.error("%s: what they lack is fetched when a gateway asks for it", error)
                return
            for address in addresses:
                self.ingest.resume(address)
            self._pump()
            if len(addresses) < RESUMED_AT_ONCE:
                return
            last = addresses[-1]
