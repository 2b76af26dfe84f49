"""Faults of a server, as a test orders them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

from dafka.operators.socket import ask_at


class Chaos:
    """Orders faults, through the server's socket.

    `times` is how many requests meet a fault, None for all until `clear`; a `topic`, or the `client_id` of a
    client, narrows whom it meets; `clear` forgets what was ordered here, and no other test's. `api` is a name
    as Kafka has it, "Produce" or "Heartbeat". Each raises `dafka.operators.socket.OperatorRefused` for what
    there is not.
    """

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._owner = uuid4().hex

    def fail_produces(
        self, error: str = "NOT_LEADER_OR_FOLLOWER", times: int | None = 1, **whom: str
    ) -> None:
        """Answer Produce requests with an error; nothing is appended."""
        self.add("error", "Produce", error=error, times=times, **whom)

    def fail_fetches(self, error: str = "NOT_LEADER_OR_FOLLOWER", times: int | None = 1, **whom: str) -> None:
        """Answer Fetch requests with an error."""
        self.add("error", "Fetch", error=error, times=times, **whom)

    def fail(self, api: str, error: str, times: int | None = 1, **whom: str) -> None:
        """Answer requests with an error: of Produce, Fetch and the APIs of groups."""
        self.add("error", api, error=error, times=times, **whom)

    def delay(self, api: str, milliseconds: int, times: int | None = None, **whom: str) -> None:
        """Let requests wait before they are handled."""
        self.add("delay", api, delay_ms=milliseconds, times=times, **whom)

    def drop(self, api: str, times: int | None = 1, **whom: str) -> None:
        """Close the connection of requests, which do nothing."""
        self.add("drop", api, times=times, **whom)

    def lose_answers(self, api: str, times: int | None = 1, **whom: str) -> None:
        """Do what requests ask, and close their connection instead of answering: have they arrived?"""
        self.add("lose-answer", api, times=times, **whom)

    def expire(self, group: str, member_id: str | None = None) -> int:
        """End the session of a member of a group, or of all; how many members that were."""
        return int(ask_at(self._socket, "chaos.expire", group=group, member=member_id))

    def disconnect(self) -> int:
        """Close all connections of clients; how many those were."""
        return int(ask_at(self._socket, "chaos.disconnect"))

    def add(self, kind: str, api: str, **details: Any) -> None:
        """Order a fault of a kind: error, delay, drop, lose-answer."""
        ask_at(self._socket, "chaos.add", kind=kind, api=api, owner=self._owner, **details)

    def faults(self) -> list[dict[str, Any]]:
        """What is ordered and not over; each with how many requests it `met`."""
        faults: list[dict[str, Any]] = ask_at(self._socket, "chaos.list")
        return faults

    def clear(self) -> None:
        """No faults of this object's any more."""
        ask_at(self._socket, "chaos.clear", owner=self._owner)
