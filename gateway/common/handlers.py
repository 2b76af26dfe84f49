"""Which Kafka APIs exist here: each module of `gateway.api` registers one, ApiVersions is built from that.

A handler is one of two kinds.

* `async def handler(request, broker) -> Response`: the usual one. It runs when its turn comes, after all
  earlier requests of its connection are answered.
* `async def begin(request, broker) -> PendingResponse`, registered with `begin=True`: two-phase, for Produce.
  `begin` does what must happen in request order (append); the pending response says when it is ready, so the
  next Produce of the connection may begin before it is. Its body has a `timeout_ms`, which bounds how long
  the request may be held back before it begins. Most requests begin without giving up control; one that has
  to wait does so in `Request.wait_for_room` or `Request.wait`, so that earlier answers leave first. Until it
  has begun nothing more of its connection is read, and TCP holds back the client.

Beside its handler, an API that is asked all the time may register one of two shorter ways:

* `def begin_small(request, broker) -> PendingResponse`, for requests below `MIN_COUNTED_REQUEST_BYTES` of
  `gateway.front.limits`: as `begin`, and never waits: what waits for the log needs no task for that.
* `at_once`, for requests up to `MAX_AT_ONCE_BYTES`: `def answer(header, frame, local_address, access, broker)
  -> Response | None`, from the bytes and what is in memory. None: the handler is to be asked. It must say
  what the handler would.

A handler's exceptions: `MalformedRequest` closes the connection, `KafkaError` must be caught by the handler
(only it knows where in the answer the code belongs), anything else is a bug: logged, and the connection
is closed. `ProcessEnds` ends the process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import trio

from gateway.common.budget import Budget, Memory
from gateway.common.clients import NOBODY
from gateway.common.work import Work
from gateway.quotas.client_quotas import Charges
from gateway.security.access import UNRESTRICTED, Access
from gateway.security.sasl_session import SaslSession
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.headers import RequestHeader
from wireproto.kafka.requests import decode_request

MAX_AT_ONCE_BYTES = 32 * 1024
"""Bytes of a request that may be answered from what is in memory, without a task: ListOffsets of 1,900
partitions. Larger ones would keep others waiting for milliseconds."""

LARGE_ANSWER_BYTES = 64 * 1024
"""An answer of more takes from the memory of large answers, as Fetch's do (`Request.reserve_if_large`)."""

ADMINISTRATION: Final = frozenset(
    (
        ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS, ApiKey.WRITE_TXN_MARKERS,
        ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS, ApiKey.ALTER_CONFIGS, ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_GROUPS, ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.OFFSET_DELETE,
        ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER, ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN,
    )
)  # fmt: skip
"""APIs that change what others rely on, or tell by what others come in."""

Buffer: TypeAlias = bytes | bytearray | memoryview

Response: TypeAlias = bytes | list[Buffer] | None
"""A framed response, whole or in pieces that are written one after the other without being joined. None:
the client gets no answer (Produce with acks=0)."""


class PendingResponse(Protocol):
    """What `begin` returns: the request took effect (or failed), its answer comes later. It is one of these:
    not ready and nobody waits; somebody waits (`when_ready`); ready.
    """

    @property
    def ready(self) -> bool:
        """The answer can be given."""

    def when_ready(self, call: Callable[[], None], /) -> None:
        """Have `call` called once, soon after it has become ready. It neither blocks nor raises."""

    def forget(self) -> None:
        """Nobody waits any more: the client is gone."""

    def response(self) -> Response:
        """The answer: asked for once, when it is `ready` and all requests before it are answered."""


class NoRoom(Exception):
    """Too much memory is held already by requests that want no answer and wait for room in a log: the
    connection of this one is to be closed.
    """


def _nothing_to_let_go(_request: Request) -> None:
    """For requests whose memory nobody counts."""


def _nothing_to_flush() -> None:
    """For requests that come from no connection."""


def _nothing_to_give_up() -> None:
    """For requests that are not parked."""


class Request:
    """One decoded request and where it came from.

    `arrived` is when it was received whole (trio's clock): the timeout that it names counts from there.
    `client` is who shares what is shared fairly (`gateway.common.clients`). `local_address` is the (host,
    port) that Metadata answers on this connection. `shutting_down` is set when the gateway stops: a handler
    that waits (Fetch) answers at once then. For one with a `begin`, `before_waiting` writes the answers that
    are ready; and `held_bytes` is the memory that it holds while it waits for room, which `room_memory`
    bounds. `gone`: the client has closed its sending side. `work` is what is left of its connection's turn:
    steps that a client may ask for many times are charged there. `access` is what the client may do. `sasl`
    is how it says who it is, where it has to; a handler sets `closes` to have the connection closed once the
    answer is out, as a sentence for the log. `charges` is what it is charged for, where there are quotas.
    """

    __slots__ = (
        "_give_up",
        "access",
        "arrived",
        "before_waiting",
        "body",
        "charges",
        "client",
        "client_address",
        "closes",
        "frame",
        "gone",
        "header",
        "held_bytes",
        "holds_frame",
        "let_go",
        "local_address",
        "reserved",
        "response_memory",
        "room_memory",
        "sasl",
        "shutting_down",
        "work",
    )

    def __init__(
        self,
        header: RequestHeader,
        body: Any,
        frame: memoryview,
        local_address: tuple[str, int],
        client_address: str,
        shutting_down: trio.Event,
        response_memory: Memory | None = None,
        arrived: float = 0.0,
        client: str = NOBODY,
        work: Work | None = None,
    ) -> None:
        self.arrived = arrived
        self.client = client
        self.header = header
        self.body = body
        self.frame = frame
        self.local_address = local_address
        self.client_address = client_address
        self.shutting_down = shutting_down
        self.response_memory = response_memory
        self.work = Work() if work is None else work
        self.reserved = 0
        self.room_memory: Budget | None = None
        self.held_bytes = 0
        self.before_waiting: Callable[[], object] = _nothing_to_flush
        self.holds_frame = True
        self.let_go: Callable[[Request], None] = _nothing_to_let_go
        self.gone = False
        self.access: Access = UNRESTRICTED
        self.sasl: SaslSession | None = None
        self.closes = ""
        self.charges: Charges | None = None
        self._give_up: Callable[[], object] = _nothing_to_give_up

    def forget_frame(self) -> None:
        """Give back the memory of the request before it is answered; its `frame` is of no use after that.

        For handlers that may wait for minutes (JoinGroup) and have taken out of `body` what they keep.
        """
        if self.holds_frame:
            self.holds_frame = False
            self.let_go(self)

    def park(self, give_up: Callable[[], object]) -> None:
        """Have `give_up` called, perhaps now, when the client has gone. It ends a wait that may be long."""
        self._give_up = give_up
        if self.gone:
            give_up()

    def unpark(self) -> None:
        """The long wait is over."""
        self._give_up = _nothing_to_give_up

    def client_left(self) -> None:
        """The client has closed its sending side: what is parked is given up."""
        self.gone = True
        self._give_up()

    def try_reserve(self, size: int) -> bool:
        """As `reserve`, if it need not wait; False otherwise."""
        if self.response_memory is None:
            return True
        if self.reserved:
            raise RuntimeError("an answer's memory is reserved once")
        if not self.response_memory.try_reserve(size):
            return False
        self.reserved = min(size, self.response_memory.total)
        return True

    async def reserve(self, size: int) -> None:
        """Waits until `size` more bytes may be held for this answer; given back once the answer is written.

        For handlers whose answers are large (Fetch): call it before reading the records, with no more than
        what will be read, and not while waiting for records to come.
        """
        if self.response_memory is not None:
            # The amount is taken in one step per request: holding some while waiting for more could
            # leave every connection waiting for the others.
            if self.reserved:
                raise RuntimeError("an answer's memory is reserved once")
            await self.response_memory.reserve(size)
            self.reserved = min(size, self.response_memory.total)

    async def reserve_if_large(self, size: int) -> None:
        """As `reserve`, for an answer that is small most of the time: one of up to LARGE_ANSWER_BYTES takes
        nothing.
        """
        if size > LARGE_ANSWER_BYTES:
            await self.reserve(size)

    async def wait(self, work: Callable[[], Awaitable[None]]) -> None:
        """Waits until `work()` returns: for a `begin`, where it needs work of the gateway's own."""
        self.before_waiting()
        await work()

    async def wait_for_room(self, room: Callable[[], Awaitable[None]]) -> None:
        """Waits until `room()` returns, for a request that wants no answer and so cannot be refused.

        It may be as long as stores are away. Raises NoRoom if too much waits in this way already.
        """
        self.before_waiting()
        memory = self.room_memory
        if memory is None:
            await room()
            return
        if not memory.try_reserve(self.held_bytes):
            raise NoRoom
        try:
            await room()
        finally:
            memory.release(self.held_bytes)


Handler: TypeAlias = Callable[[Request, Any], Awaitable[Response]]
Begin: TypeAlias = Callable[[Request, Any], Awaitable[PendingResponse]]
BeginSmall: TypeAlias = Callable[[Request, Any], PendingResponse]
Decoder: TypeAlias = Callable[[int, memoryview, int], Any]
"""(api_version, frame, body offset) -> the body. Raises MalformedRequest."""

AtOnce: TypeAlias = Callable[[RequestHeader, memoryview, tuple[str, int], Access, Any], Response]
"""(header, frame, local address, access, broker) -> the answer; None: ask the handler. Raises
MalformedRequest."""


@dataclass(frozen=True, slots=True)
class Api:
    """One API key. Exactly one of `handler` and `begin` is set; the two last may be beside a handler.

    Where there is a `large_decoder`, `decoder` raises `ManyPartitions` for what it does not decode.
    """

    key: int
    name: str
    min_version: int
    max_version: int
    advertised_min: int
    decoder: Decoder
    handler: Handler | None = None
    begin: Begin | None = None
    large_decoder: Decoder | None = None
    begin_small: BeginSmall | None = None
    at_once: AtOnce | None = None

    @property
    def changes_cluster(self) -> bool:
        """Whether it is administration: who has asked for what is told to auditors."""
        return self.key in ADMINISTRATION


class Registry:
    """The APIs of one gateway by key."""

    def __init__(self) -> None:
        self._apis: dict[int, Api] = {}

    def api(
        self,
        *,
        key: int,
        name: str,
        min_version: int,
        max_version: int,
        advertised_min: int | None = None,
        begin: bool = False,
        decoder: Decoder | None = None,
        large_decoder: Decoder | None = None,
        begin_small: BeginSmall | None = None,
        at_once: AtOnce | None = None,
    ) -> Callable[[Any], Any]:
        """Registers the decorated function for `key`, versions `min_version` to `max_version`.

        `advertised_min` is what ApiVersions says instead of `min_version`, for clients that look for an exact
        old version (KAFKA-18659). `decoder` replaces the walk over Kafka's schema, `large_decoder` is for
        what it refuses to do at once. Raises ValueError when the key has a handler already.
        """
        if not 0 <= min_version <= max_version:
            raise ValueError(f"{name}: versions {min_version} to {max_version}")

        def register(function: Any) -> Any:
            if key in self._apis:
                raise ValueError(f"API key {key} is registered twice: {self._apis[key].name} and {name}")
            self._apis[key] = Api(
                key,
                name,
                min_version,
                max_version,
                min_version if advertised_min is None else advertised_min,
                partial(decode_request, key) if decoder is None else decoder,
                handler=None if begin else function,
                begin=function if begin else None,
                large_decoder=large_decoder,
                begin_small=begin_small,
                at_once=at_once,
            )
            return function

        return register

    def advertised_versions(self) -> list[tuple[int, int, int]]:
        """(key, lowest version, highest version) as ApiVersions answers them, by key."""
        return [(a.key, a.advertised_min, a.max_version) for _, a in sorted(self._apis.items())]

    def lookup(self, key: int) -> Api | None:
        return self._apis.get(key)

    def all(self) -> list[Api]:
        """Every API, by key."""
        return [a for _, a in sorted(self._apis.items())]


DEFAULT_REGISTRY = Registry()
"""What the modules of `gateway.api` register with; tests may have registries of their own."""

api = DEFAULT_REGISTRY.api
advertised_versions = DEFAULT_REGISTRY.advertised_versions
lookup = DEFAULT_REGISTRY.lookup
