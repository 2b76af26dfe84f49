"""Why a link is not up, for people: what becomes of the attempts to make it.

ZeroMQ tells of each attempt that a connection was made, and then how its handshake ended, if it did. With
CURVE (RFC 26) that says more than its events do:

* Who has keys and who has none differ in the mechanism. Whichever looks first says so, and closes; the other
  one only sees that.
* Who does not know a key leaves the handshake without an end (`mesh.keys.admission`), so it lasts.
* Who has another key than the one that is meant cannot open what it gets, and closes at once.
"""

from enum import Enum, auto
from pathlib import Path

from mesh.keys.directory import OWN

WAIT_SECONDS = 1.0
"""A handshake that lasts so long is not answered: it takes milliseconds."""

CLOSED_TIMES = 3
"""So many handshakes in a row that were broken off are no accident, as the end of a process is."""


class Event(Enum):
    """What ZeroMQ tells of an attempt."""

    CONNECTED = auto()
    """The handshake begins."""
    OTHER_MECHANISM = auto()
    """One of the two has keys, and the other one has none."""
    CLOSED = auto()
    """The handshake was broken off, or lasted for too long."""


class Cause(Enum):
    """Why a link is not up, the one that says most last."""

    SILENT = auto()
    CLOSED = auto()
    UNKNOWN = auto()
    OTHER_MECHANISM = auto()


class Attempts:
    """Follows the attempts to make one link. Times are seconds on a monotonic clock."""

    def __init__(self) -> None:
        self._pending: float | None = None
        """When the handshake began whose end is not known."""
        self._closed = 0
        self._found: set[Cause] = set()

    def happened(self, event: Event, now: float) -> None:
        self._settle(now)
        if event is Event.CONNECTED:
            self._pending = now
            return
        if event is Event.OTHER_MECHANISM:
            self._found.add(Cause.OTHER_MECHANISM)
        elif self._pending is not None:
            self._closed += 1
        self._pending = None

    def cause(self, now: float) -> Cause | None:
        """Why the link is not up; None if no attempt has shown it."""
        self._settle(now)
        found = self._found | ({Cause.CLOSED} if self._closed >= CLOSED_TIMES else set())
        return max(found, key=lambda cause: cause.value, default=None)

    def clear(self) -> None:
        """The link is up, or what was found is told."""
        self._pending, self._closed = None, 0
        self._found.clear()

    def _settle(self, now: float) -> None:
        """A handshake that lasts for long is one without an answer."""
        if self._pending is not None and now >= self._pending + WAIT_SECONDS:
            self._found.add(Cause.UNKNOWN)
            self._pending = None


def next_step(cause: Cause, keys: Path | None) -> str:
    """What keeps a process from somebody, and what to do; `keys` is the directory of its keys, if any."""
    if cause is Cause.SILENT:
        return "nothing answers there. Start it, or look at the address and at what is between"
    if keys is None:
        if cause is Cause.UNKNOWN:
            return "it does not answer in ZeroMQ's protocol: look at the address and the ports"
        return "it has keys, and this process has none: give this one --mesh-keys DIR (docs/mesh-security.md)"
    if cause is Cause.OTHER_MECHANISM:
        return "it has no keys, and this process has: give that one --mesh-keys DIR (docs/mesh-security.md)"
    if cause is Cause.UNKNOWN:
        return f"it does not know this process's key: there 'dafka keys add DIR {OWN}', with {keys / OWN}"
    return (
        f"it has another key than its certificate here: 'dafka keys add {keys} CERTIFICATE', with the {OWN} "
        "that it has now. Or it has no keys"
    )
