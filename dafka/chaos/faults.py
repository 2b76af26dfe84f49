"""Which requests meet which fault: a list, in the order in which it was made."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Any

from wireproto.kafka.errors import ErrorCode


class Kind(Enum):
    """What happens to a request."""

    ERROR = "error"
    """It is answered with an error, and does nothing."""

    DELAY = "delay"
    """It waits, and is handled then."""

    DROP = "drop"
    """Its connection is closed, and it does nothing."""

    LOSE_ANSWER = "lose-answer"
    """It is handled, and its connection is closed instead of an answer."""


@dataclass(slots=True)
class Fault:
    """One order. `left` requests may still meet it, None: all; an empty `topic` or `client_id` is any."""

    kind: Kind
    api: str
    error: ErrorCode = ErrorCode.NONE
    delay_ms: int = 0
    left: int | None = 1
    topic: str = ""
    client_id: str = ""
    owner: str = ""
    """Whose order it is, if that was said: several tests may order faults of one server."""
    met: int = 0
    """Requests that have met it."""

    def shown(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "kind": self.kind.value,
            "api": self.api,
            "error": self.error.name if self.kind is Kind.ERROR else "",
            "delay_ms": self.delay_ms,
            "left": self.left,
            "topic": self.topic,
            "client_id": self.client_id,
            "met": self.met,
        }


class Faults:
    """All that is ordered and not over. A request meets the delays that are for it, and then one other."""

    def __init__(self) -> None:
        self.ordered: list[Fault] = []

    def add(self, fault: Fault) -> None:
        self.ordered.append(fault)

    def clear(self, owner: str = "") -> None:
        """Forget those of one owner, or all."""
        self.ordered = [fault for fault in self.ordered if owner not in {"", fault.owner}]

    def wanted(self, api: str) -> bool:
        """Whether any request of an API may meet one: most need not be looked at then."""
        return any(fault.api == api for fault in self.ordered)

    def meet(self, api: str, client_id: str, topics: Collection[str]) -> tuple[int, Fault | None]:
        """A request that names these topics comes: the milliseconds that it waits, and what happens then."""
        delay, decided = 0, None
        for fault in list(self.ordered):
            if fault.api != api or fault.client_id not in {"", client_id}:
                continue
            if fault.topic and fault.topic not in topics:
                continue
            if fault.kind is Kind.DELAY:
                delay += fault.delay_ms
            elif decided is None:
                decided = fault
            else:
                continue
            self._count(fault)
        return delay, decided

    def _count(self, fault: Fault) -> None:
        fault.met += 1
        if fault.left is not None:
            fault.left -= 1
            if fault.left == 0:
                self.ordered.remove(fault)
