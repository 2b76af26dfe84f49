"""The Kafka endpoint: accepts connections, keeps their deadlines, and stops in order.

    async with trio.open_nursery() as nursery:
        server = Server(registry=load_apis(), broker=broker, metrics=metrics)
        await nursery.start(server.serve, await open_listeners(specs))
        ...
        server.shut_down()      # serve() returns when the answers in flight are out, within 10 s

Stopping is in this order: no new connections; no further request is received; `shutting_down` is set, so that
parked fetches answer at once; what is in flight is answered; after the grace period what is left is cut off.
"""

from __future__ import annotations

import errno
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import trio

from gateway.audit.audit import Audit
from gateway.common.budget import Budget, Gate
from gateway.common.clients import client_of
from gateway.common.failures import ProcessEnds, ends_process
from gateway.common.handlers import Registry
from gateway.common.log_limit import LogLimit
from gateway.common.metrics import Figure, Gauge, Metrics
from gateway.common.open_files import raise_file_limit
from gateway.common.shared_budget import Share, SharedBudget
from gateway.front.clients import REFUSALS, Client, Clients
from gateway.front.connection import Connection
from gateway.front.context import ConnectionContext
from gateway.front.departures import Departures
from gateway.front.dispatch import Dispatcher
from gateway.front.limits import ACCEPT_BACKOFF_SECONDS, CHECK_SECONDS, HURRY_SECONDS, MAX_LINGERING, Limits
from gateway.front.listener_sockets import ListenerSocket, close_all
from gateway.front.listeners import Listener, join_host_port
from gateway.front.principal_rules import PrincipalRules
from gateway.front.quota_metrics import QUOTAS, Quotas
from gateway.quotas.client_quotas import ClientQuotas
from gateway.quotas.connection_rates import ConnectionRates
from gateway.quotas.places import Places
from gateway.security.access import Access, Unrestricted, java_address
from gateway.security.principal import Principal
from gateway.security.sasl_session import SaslSession

if TYPE_CHECKING:
    from gateway.broker import Broker

ACCEPT_CAPACITY_ERRNOS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
"""accept() failed because something has run out; it may be back in a moment."""

ACCEPT_IGNORED_ERRNOS = frozenset(
    getattr(errno, name)
    for name in (
        "ECONNABORTED", "EPERM", "EPROTO", "ENETDOWN", "ENOPROTOOPT", "EHOSTDOWN", "ENONET", "EHOSTUNREACH",
        "EOPNOTSUPP", "ENETUNREACH", "ETIMEDOUT", "EINTR",
    )
    if hasattr(errno, name)
)  # fmt: skip
"""accept() failed for the one connection it would have given (accept(2): treat them like EAGAIN)."""

ACCEPTS_IN_A_ROW = 4
"""Connections accepted from one listener before others have their turn: each takes 0.1 ms."""

MAX_HELD_BACK = 100
"""Connections that were made too fast and are not closed yet: each holds a file descriptor, of those that are
reserved. Others are closed at once."""

RESERVED_FILES = 256
"""File descriptors left for everything but clients (RocksDB's files, the catalog); at most half of all."""

logger = logging.getLogger(__name__)


def _now_ms() -> int:
    """A clock that does not go back."""
    return int(trio.current_time() * 1_000)


MEMORY: Final[Sequence[Figure[Mapping[tuple[str], SharedBudget]]]] = (
    Gauge(
        "dafka_memory_bytes",
        "Bytes held for Kafka clients.",
        lambda budgets: {name: budget.used for name, budget in budgets.items()},
        ("what",),
    ),
    Gauge(
        "dafka_memory_waiting",
        "Connections that wait until such bytes are free.",
        lambda budgets: {name: budget.waiting for name, budget in budgets.items()},
        ("what",),
    ),
)
"""What is shown of the memory that is held for clients."""


class Server:
    """One Kafka endpoint with its connections.

    `produce_gate` is for the log: closed, it makes producers' connections wait. `broker` is handed to the
    handlers. `hurry` is called when the memory of requests is waited for whose answers are put off: with the
    client that waits for itself, or with None if others wait, too. `begin_session`, `tls_of`,
    `principal_rules`, `grant`, `audit` and `quotas`: see `ConnectionContext`. `connection_rates` and `places`
    bound connections as Kafka does.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        broker: Broker,
        metrics: Metrics,
        limits: Limits | None = None,
        produce_gate: Gate | None = None,
        hurry: Callable[[str | None], None] = lambda _client: None,
        begin_session: Callable[[Listener], SaslSession | None] = lambda _listener: None,
        tls_of: Callable[[Listener], ssl.SSLContext | None] = lambda _listener: None,
        principal_rules: PrincipalRules | None = None,
        grant: Callable[[Principal, str], Access] = lambda principal, _address: Unrestricted(principal),
        audit: Audit | None = None,
        quotas: ClientQuotas | None = None,
        connection_rates: ConnectionRates | None = None,
        places: Places | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.metrics = metrics
        self.context = ConnectionContext(
            dispatcher=Dispatcher(registry, metrics),
            broker=broker,
            limits=self.limits,
            metrics=metrics,
            request_memory=SharedBudget(self.limits.request_memory_bytes),
            small_request_memory=SharedBudget(self.limits.small_request_memory_bytes),
            decoded_memory=SharedBudget(self.limits.decoded_memory_bytes),
            produced_memory=SharedBudget(self.limits.produced_memory_bytes),
            room_memory=Budget(self.limits.room_memory_bytes),
            response_memory=SharedBudget(self.limits.response_memory_bytes),
            produce_gate=produce_gate or Gate(),
            log=LogLimit(logging.getLogger("gateway.front.connection")),
            begin_session=begin_session,
            tls_of=tls_of,
            principal_rules=principal_rules or PrincipalRules(),
            grant=grant,
            audit=audit,
            quotas=quotas or ClientQuotas(_now_ms),
        )
        self._connection_rates = connection_rates or ConnectionRates(_now_ms)
        self._places = places or Places()
        self._held_back = 0
        """Connections that are refused, and closed later."""
        self._hurry = hurry
        self.addresses: tuple[str, ...] = ()
        """Where it accepts clients, as HOST:PORT."""
        self.connections: set[Connection] = set()
        self._clients = Clients(self.context)
        self.context.identify = self._clients.identify
        self._departures = Departures()
        self._lingering = 0
        self._is_suspended = False
        self._accepting = trio.CancelScope()
        self._connections_scope = trio.CancelScope()
        budgets = self._budgets = {
            ("large requests",): self.context.request_memory,
            ("small requests",): self.context.small_request_memory,
            ("decoded requests",): self.context.decoded_memory,
            ("decoded Produce requests",): self.context.produced_memory,
            ("large answers",): self.context.response_memory,
        }
        metrics.register(MEMORY, budgets)
        metrics.register(QUOTAS, Quotas(self.context.quotas, self._connection_rates))

    async def serve(
        self,
        sockets: Sequence[ListenerSocket],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serves until `shut_down`, or until cancelled; closes the listening sockets.

        Raises ProcessEnds when a handler did.
        """
        _mention_wildcards(sockets)
        self.addresses = tuple(join_host_port(*entry.socket.getsockname()[:2]) for entry in sockets)
        self._clients.allow(min(self.limits.max_connections, connections_allowed_by_files()))
        try:
            with self._connections_scope:
                async with trio.open_nursery() as connections:
                    await self._accept_all(sockets, connections, task_status)
                    self._stop_connections()
            if self._connections_scope.cancelled_caught:
                logger.warning("some requests were not answered within the time for stopping")
        except BaseExceptionGroup as group:
            # What callers act on must not hide in groups of groups.
            if (failure := _first(group, ProcessEnds)) is not None:
                raise failure from group
            raise
        finally:
            close_all(sockets)

    def memory_used(self) -> dict[str, int]:
        """Bytes that are held for clients, by what for."""
        return {what: budget.used for (what,), budget in self._budgets.items()}

    def memory_waited_for(self) -> dict[str, int]:
        """Connections that wait for such memory, by what for; those for which any does."""
        return {what: budget.waiting for (what,), budget in self._budgets.items() if budget.waiting}

    def shut_down(self) -> None:
        """Begins to stop; `serve` returns when that is done. Doing it twice changes nothing."""
        self._accepting.cancel()

    def suspend(self) -> None:
        """Answers nobody until `resume`: closes all connections, and those that come at once, so that clients
        look for another gateway.
        """
        self._is_suspended = True
        for connection in list(self.connections):
            connection.close("suspended")

    def resume(self) -> None:
        """Answers clients again."""
        self._is_suspended = False

    async def _accept_all(
        self,
        sockets: Sequence[ListenerSocket],
        connections: trio.Nursery,
        task_status: trio.TaskStatus[None],
    ) -> None:
        with self._accepting:
            async with trio.open_nursery() as nursery:
                for entry in sockets:
                    nursery.start_soon(self._accept, entry, connections)
                nursery.start_soon(self._keep_deadlines)
                nursery.start_soon(self._departures.run)
                nursery.start_soon(self.context.readiness.run)
                task_status.started()
        close_all(sockets)

    def revoke(self, principal: Principal, mechanisms: Collection[str]) -> None:
        """End the connections of somebody who came in by one of these mechanisms: what he has shown is not
        right any more. (He may come again.)
        """
        ended = 0
        for connection in list(self.connections):
            sasl = connection.sasl
            if sasl is None or sasl.token_id or sasl.principal != principal:
                continue
            if sasl.mechanism in mechanisms:
                connection.close("revoked")
                ended += 1
        if ended:
            logger.info("closed %d connections of %s, whose password was changed", ended, principal)

    def revoke_token(self, token_id: str) -> None:
        """End the connections that have come in by a delegation token: it is gone, or is over sooner than
        they know. (They may come again, if it is not over.)
        """
        for connection in list(self.connections):
            if connection.sasl is not None and connection.sasl.token_id == token_id:
                connection.close("revoked")

    def _stop_connections(self) -> None:
        self.context.shutting_down.set()
        self._connections_scope.deadline = trio.current_time() + self.limits.shutdown_grace_seconds
        for connection in self.connections:
            connection.stop_reading()

    # ------------------------------------------------------------------------------------------ accept

    async def _accept(self, entry: ListenerSocket, connections: trio.Nursery) -> None:
        while True:
            await trio.lowlevel.wait_readable(entry.socket)
            try:
                for _ in range(ACCEPTS_IN_A_ROW):
                    sock, address = entry.socket.accept()
                    self._admit(sock, address[0], entry.listener, connections)
                    if rest_ms := self._places.rest_ms(_now_ms()):
                        await trio.sleep(rest_ms / 1_000)
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno in ACCEPT_CAPACITY_ERRNOS:
                    self.context.log.warning(
                        "cannot accept connections: %s; existing ones go on (`ulimit -n` sets the limit)",
                        error.strerror,
                    )
                    await trio.sleep(ACCEPT_BACKOFF_SECONDS)
                elif error.errno not in ACCEPT_IGNORED_ERRNOS:
                    raise

    @contextmanager
    def visit(self, host: str) -> Iterator[Client | None]:
        """The client at `host` for the length of the block, with its shares of the memory: for what is done
        for it by another way than a Kafka connection, and takes the place of one. None: there is no place.
        """
        client = self._clients.admit(host, trio.current_time())
        if isinstance(client, str):
            yield None
            return
        try:
            yield client
        finally:
            self._clients.leave(client, trio.current_time())

    def _admit(self, sock: socket.socket, host: str, listener: Listener, connections: trio.Nursery) -> None:
        if self._is_suspended:
            sock.close()
            self.metrics.connection_refused("suspended")
            return
        address = java_address(host)
        if self._connection_rates.is_on and (
            excess_ms := self._connection_rates.excess_ms(address, client_of(host))
        ):
            self._hold_back(sock, excess_ms / 1_000, connections)
            return
        client = self._places.refusal(address) or self._clients.admit(host, trio.current_time())
        if isinstance(client, str):
            # Closed before a byte is read: the client sees at once that it must go elsewhere or wait.
            sock.close()
            self.metrics.connection_refused(client)
            self.context.log.warning(
                "refused a connection of %s: of %d, %s", host, len(self.connections), REFUSALS[client]
            )
            return
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # as Kafka's `Acceptor`
            connection = Connection(sock, listener, self.context, client, address)
            self._departures.watch(sock, connection.client_left)
        except OSError:
            sock.close()  # the client has left already
            self._clients.leave(client, trio.current_time())
            return
        self._places.take(address)
        self.connections.add(connection)
        self.metrics.connections_accepted += 1
        self.metrics.connections_open += 1
        connections.start_soon(self._run, connection)

    def _hold_back(self, sock: socket.socket, seconds: float, connections: trio.Nursery) -> None:
        """A connection came too soon after others of its address. It is closed a little later, so that who
        connects again at once has to wait; nothing is read or written.
        """
        self.metrics.connection_refused("rate")
        if self._held_back >= MAX_HELD_BACK:
            sock.close()
        else:
            self._held_back += 1
            connections.start_soon(self._close_later, sock, seconds)

    async def _close_later(self, sock: socket.socket, seconds: float) -> None:
        try:
            with trio.move_on_after(seconds):
                await self.context.shutting_down.wait()
        finally:
            self._held_back -= 1
            sock.close()

    async def _run(self, connection: Connection) -> None:
        try:
            await connection.run()
        except Exception as error:
            if ends_process(error):
                raise
            # A bug of the connection itself: as with one of a handler, nobody else suffers.
            connection.reason = "bug"
            logger.exception("the connection of %s failed unexpectedly", connection.client_address)
        finally:
            self._departures.forget(connection.socket)
            self.context.readiness.forget(connection.socket)
            self.connections.discard(connection)
            self._clients.leave(connection.place, trio.current_time())
            if connection.client is not connection.place:
                self._clients.part(connection.client)
            self._places.leave(connection.address)
            self.metrics.connections_open -= 1
            self.metrics.connection_closed(connection.reason or "shutdown")
            self._lingering += 1
            try:
                await connection.finish(linger=self._lingering <= MAX_LINGERING)
            finally:
                self._lingering -= 1

    # --------------------------------------------------------------------------------------- deadlines

    async def _keep_deadlines(self) -> None:
        """Closes connections that are over their time; looks at all of them once a second."""
        while True:
            await trio.sleep(CHECK_SECONDS)
            now = trio.current_time()
            for connection in list(self.connections):
                if connection.gone(now):
                    connection.close("client")
                    continue
                why = connection.overdue(now)
                if why is not None:
                    logger.info("closing the connection of %s: %s", connection.client_address, why)
                    connection.close("deadline")
            self._look_who_waits(now)

    def _look_who_waits(self, now: float) -> None:
        """Has memory given back that others have waited for too long."""
        context, starved = self.context, self.limits.starved_seconds
        waiting: set[str | None] = set()
        for memory in (context.request_memory, context.small_request_memory, context.decoded_memory):
            waiting.update(
                share.client if share.waits_for_itself else None
                for share in memory.waiting_for(HURRY_SECONDS, now)
            )
        for client in {None} if None in waiting else waiting:
            self._hurry(client)
        for memory, held, what in (
            (context.request_memory, _receiving, "a request it has not sent to the end"),
            (context.response_memory, _unread, "answers it has not read"),
        ):
            for share in list(memory.waiting_for(starved, now)):
                self._free_memory(share, share.wanted(starved, now), held, what)

    def _free_memory(self, waits: Share, wanted: int, held: Callable[[Connection], int], what: str) -> None:
        """Closes connections that hold so many bytes of the memory that others wait for: of the client that
        holds most, or of the one that waits for itself.
        """
        hogs = [connection for connection in self.connections if held(connection)]
        by_client: Counter[str] = Counter()
        for hog in hogs:
            by_client[hog.client.name] += held(hog)
        if not hogs:
            return
        (greedy, _), *_ = by_client.most_common(1)
        if waits.waits_for_itself and waits.client in by_client:
            greedy = waits.client
        for hog in sorted((one for one in hogs if one.client.name == greedy), key=held, reverse=True):
            if wanted <= 0:
                return
            wanted -= held(hog)
            self.context.log.warning(
                "closing the connection of %s: others wait for the %d bytes held by %s",
                hog.client_address,
                held(hog),
                what,
            )
            hog.close("memory")


def _receiving(connection: Connection) -> int:
    return connection.memory.receiving


def _unread(connection: Connection) -> int:
    return connection.memory.answers.held


def _mention_wildcards(sockets: Sequence[ListenerSocket]) -> None:
    """Says what clients are told where the user left it open: it is wrong behind NAT and in a container."""
    for listener in dict.fromkeys(entry.listener for entry in sockets):
        if listener.is_wildcard and listener.advertised_host is None:
            where = join_host_port(listener.host, listener.port)
            logger.info(
                "listener %s accepts on every address and tells each client the one it connected to; "
                "if clients cannot use that one, give it: --listen %s@HOST:PORT",
                where,
                where,
            )


def connections_allowed_by_files() -> int:
    """How many connections the limit on file descriptors leaves room for."""
    limit = raise_file_limit()
    return max(1, limit - min(RESERVED_FILES, limit // 2))


def _first(group: BaseExceptionGroup[BaseException], kind: type[ProcessEnds]) -> ProcessEnds | None:
    """The first exception of this kind in a tree of groups."""
    for error in group.exceptions:
        if isinstance(error, kind):
            return error
        if isinstance(error, BaseExceptionGroup) and (found := _first(error, kind)) is not None:
            return found
    return None
