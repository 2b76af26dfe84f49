"""How many connections an address may make in a second (KIP-612; `ConnectionQuotas`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gateway.quotas.client_quotas import Throttled
from gateway.quotas.entities import CONNECTIONS, Entity
from gateway.quotas.meters import Meters
from gateway.quotas.rate import KAFKAS_WINDOWS, Rate, Windows
from gateway.quotas.table import Table

MAX_ADDRESSES: Final = 10_000
"""Addresses whose connections are counted."""


class ConnectionRates:
    """Of one gateway. `now_ms` is a clock that does not go back."""

    def __init__(self, now_ms: Callable[[], int], windows: Windows = KAFKAS_WINDOWS) -> None:
        self._now_ms = now_ms
        self._windows = windows
        self._rates = Meters(lambda: Rate(windows), MAX_ADDRESSES, MAX_ADDRESSES)
        self._quotas: Callable[[], Mapping[Entity, Mapping[str, float]]] = dict
        self._table: Table | None = None
        self.throttled = Throttled()
        self.is_on = False
        """Whether there are quotas of addresses."""

    def set(self, quotas: Callable[[], Mapping[Entity, Mapping[str, float]]], *, is_on: bool) -> None:
        """Others are in force from now on; names of entities are addresses. They are asked for when the next
        connection comes.
        """
        self._quotas, self._table = quotas, None
        self.is_on = is_on

    @property
    def measured(self) -> int:
        """Addresses whose connections are counted."""
        return len(self._rates)

    def excess_ms(self, address: str, client: str) -> int:
        """A connection has come. 0: it may be served, and counts. Otherwise it may not, and its client is to
        learn so only after so long. By the default all addresses of a `client` are one.
        """
        table = self._table
        if table is None:
            table = self._table = Table(self._quotas())
        limit = table.of_ip(CONNECTIONS, address)
        if limit is None:
            return 0
        bound, is_own = limit
        now_ms = self._now_ms()
        rate = self._rates.of((CONNECTIONS, "", address if is_own else client), now_ms)
        rate.record(1, now_ms)
        excess_ms = min(rate.excess_ms(bound, now_ms), self._windows.each_ms)
        if excess_ms:
            rate.record(-1, now_ms)
            self.throttled.times += 1
            self.throttled.milliseconds += excess_ms
        return excess_ms
