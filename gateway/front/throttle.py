"""What a request is charged for, from the connection's side (`gateway.quotas.client_quotas`).

Where there are quotas of clients, each request has a `Bill`. Its handler charges what only it knows; how long
the loop was busy with it, and how large the answer is, is charged here, when the answer is there. (A request
that begins and is answered later is charged when it has begun: what follows it would be read before.) What
comes of it is told in the answer, which leaves at once, and the connection is not read until the time is
over (KIP-219).

Differs from Kafka: what is done in worker threads or by other tasks for a request is not counted as its work
(large answers that are encoded there, ranges of cold records that are read at the same time); what leaves
is counted as it usually takes, not as it took.
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Generator
from time import perf_counter_ns
from typing import Any, Final, TypeVar, cast

from gateway.common.costs import SENT_KIB
from gateway.common.handlers import Response
from gateway.quotas.client_quotas import Charges
from gateway.security.access import Access
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.throttle import throttled

T = TypeVar("T")

_INTRODUCTIONS: Final = frozenset((ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))
"""What makes known whom to charge."""


def is_exempt(api_key: int, access: Access) -> bool:
    """Whether a request is charged to nobody: also what gateways ask of each other, from who may ask it."""
    if api_key == ApiKey.WRITE_TXN_MARKERS:
        return any(
            access.sees(operation, ResourceType.CLUSTER, CLUSTER_NAME)
            for operation in (Operation.CLUSTER_ACTION, Operation.ALTER)
        )
    return api_key in _INTRODUCTIONS


class BusyTime:
    """How long the loop was busy with one request, in nanoseconds: what it waits for does not count."""

    __slots__ = ("_began", "_clock", "_spent")

    def __init__(self, clock: Callable[[], int] = perf_counter_ns) -> None:
        self._clock = clock
        self._spent = 0
        self._began: int | None = None

    @property
    def so_far(self) -> int:
        """Also while it is busy."""
        return self._spent if self._began is None else self._spent + self._clock() - self._began

    @types.coroutine
    def measured(self, awaitable: Awaitable[T]) -> Generator[Any, Any, T]:
        """`await awaitable`, measured. What it yields to the event loop is passed on, as are the results and
        exceptions that come back.
        """
        inner: Generator[Any, Any, T] = awaitable.__await__()
        resume: Callable[[Any], Any] = inner.send
        argument: Any = None
        while True:
            self._began = self._clock()
            try:
                trap = resume(argument)
            except StopIteration as done:
                return cast(T, done.value)
            finally:
                self._spent, self._began = self.so_far, None
            try:
                argument = yield trap
            except BaseException as error:  # noqa: BLE001 - passed on to where it belongs, Cancelled among them
                resume, argument = inner.throw, error
            else:
                resume = inner.send


class Bill:
    """Of one request. `mute` is called with milliseconds if its connection is not to be read for so long."""

    __slots__ = ("_busy", "_is_settled", "_key", "_mute", "_version", "charges")

    def __init__(
        self, charges: Charges, busy: BusyTime, mute: Callable[[int], None], key: int, version: int
    ) -> None:
        self.charges = charges
        self._busy = busy
        self._mute = mute
        self._key = key
        self._version = version
        self._is_settled = False

    def begun(self) -> None:
        """The request has begun: what it has used so far is all."""
        self._settle(0)

    def answered(self, response: Response) -> Response:
        """The answer as its client is to have it."""
        if not self._is_settled:
            size = 0 if response is None else _size(response)
            if self._key == ApiKey.FETCH:
                self.charges.answered_fetch(size)
            self._settle(size)
        throttle_ms = self.charges.throttle_ms
        if not throttle_ms or response is None:
            return response
        return throttled(self._key, self._version, response, throttle_ms)

    def _settle(self, sent: int) -> None:
        self._is_settled = True
        charges = self.charges
        charges.worked(self._busy.so_far + (sent >> 10) * SENT_KIB)
        charges.count()
        if charges.throttle_ms:
            self._mute(charges.throttle_ms)


def _size(response: Any) -> int:
    return sum(map(len, response)) if isinstance(response, list) else len(response)
