"""Segments that stores are not to delete yet, because a backup reads them. Pure.

Rule: a pin holds up the deletion from disks alone. Chains change as they do without it, and what has left its
chain is deleted once the pin is over.

A pin is a lease: it ends by itself when nobody has used it for its time. It is kept in memory, so a gateway
that starts anew knows of none, and whoever had one begins again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

LEASE_SECONDS: Final = 60.0
"""How long a pin lasts after its last use."""

MAX_PINS: Final = 4
"""Backups at the same time: each holds deleted segments on the stores' disks."""


class TooManyPins(Exception):
    """So many backups are under way already."""


class PinEnded(Exception):
    """Nobody knows this pin: its time is over, or the gateway was started anew."""


@dataclass(slots=True)
class _Pin:
    addresses: set[str]
    until: float


class Pins:
    """All pins of one gateway. Times are seconds of one clock that does not go back."""

    def __init__(self) -> None:
        self._pins: dict[str, _Pin] = {}

    def take(self, addresses: Iterable[str], now: float) -> str:
        """Pin these; the pin's name. Raises TooManyPins."""
        self._forget(now)
        if len(self._pins) >= MAX_PINS:
            raise TooManyPins(f"{MAX_PINS} backups are under way")
        name = uuid4().hex
        self._pins[name] = _Pin(set(addresses), now + LEASE_SECONDS)
        return name

    def use(self, name: str, now: float) -> None:
        """The pin lasts for its whole time again. Raises PinEnded."""
        self._forget(now)
        if name not in self._pins:
            raise PinEnded
        self._pins[name].until = now + LEASE_SECONDS

    def release(self, name: str, addresses: Iterable[str], now: float) -> None:
        """These need no pin any more. Raises PinEnded."""
        self.use(name, now)
        self._pins[name].addresses.difference_update(addresses)

    def end(self, name: str) -> None:
        """The pin is over; one that nobody knows is, too."""
        self._pins.pop(name, None)

    def is_known(self, name: str, now: float) -> bool:
        """Whether this pin still lasts."""
        self._forget(now)
        return name in self._pins

    def holds(self, address: str, now: float) -> bool:
        """Whether a segment is not to be deleted now."""
        return any(address in pin.addresses and pin.until > now for pin in self._pins.values())

    def _forget(self, now: float) -> None:
        for name in [name for name, pin in self._pins.items() if pin.until <= now]:
            del self._pins[name]
