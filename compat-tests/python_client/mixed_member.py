"""A member of a mixed group, which says all it does: see `mixed_groups.members` for its arguments and lines.

SIGTERM has it commit and leave in order.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

POLL_SECONDS = 0.2
COMMIT_EVERY_SECONDS = 0.3
COMMIT_PATIENCE_SECONDS = 10.0
HEARTBEAT_MS = 500


@dataclass(frozen=True)
class Arguments:
    """What the command line says."""

    bootstrap: str
    topic: str
    group: str
    name: str
    protocols: tuple[str, ...]
    session_ms: int
    rebalance_ms: int
    instance: str | None


class Fatal(Exception):
    """There is no going on with this client."""


class Client(Protocol):
    """A consumer that calls `assigned`, `revoked` and `lost` of its member from within `poll`."""

    can_commit_when_revoked: bool

    def poll(self, seconds: float) -> Iterable[tuple[int, int, bytes]]:
        """(partition, offset, value) of each record that has come."""

    def generation(self) -> tuple[int, str]:
        """The generation, and its member id."""

    def commit(self, offsets: Mapping[int, int], metadata: str) -> None:
        """Raises whatever it raises."""

    def close(self) -> None:
        """Leave."""


class MixedMember:
    """What is owned, where it is read, and what is said of it."""

    def __init__(self, arguments: Arguments, connect: Callable[[Arguments, MixedMember], Client]) -> None:
        self._name = arguments.name
        self._owned: set[int] = set()
        self._positions: dict[int, int] = {}
        self._generation, self._member_id = -1, ""
        self._commits = 0
        self._leaving = False
        signal.signal(signal.SIGTERM, self._leave)
        self._client = connect(arguments, self)

    def _leave(self, *_signal: object) -> None:
        self._leaving = True

    def run(self) -> None:
        committed = time.monotonic()
        while not self._leaving:
            for partition, offset, value in self._poll():
                text = value.decode()
                say("consumed", generation=self._generation, partition=partition, offset=offset, value=text)
                self._positions[partition] = offset + 1
            if time.monotonic() - committed > COMMIT_EVERY_SECONDS:
                self._commit()
                committed = time.monotonic()
        self._commit()
        self._client.close()
        say("left", generation=self._generation)

    def _poll(self) -> Iterable[tuple[int, int, bytes]]:
        try:
            return self._client.poll(POLL_SECONDS)
        except Fatal:
            raise
        except Exception as error:  # as users do: it may be better the next time
            say("failed", error=f"{type(error).__name__}: {error}")
            time.sleep(POLL_SECONDS)
            return ()

    def _commit(self) -> None:
        if not self._positions:
            return
        # A cooperative member is asked to revoke when the next one has begun.
        self._generation, self._member_id = self._client.generation()
        self._commits += 1
        number = self._commits
        offsets = sorted(self._positions.items())
        say("committing", number=number, generation=self._generation, member=self._member_id, offsets=offsets)
        try:
            self._client.commit(dict(offsets), f"{self._name}/{self._generation}/{number}")
        except Exception as error:
            say("refused", number=number, error=f"{type(error).__name__}: {error}")
            return
        self._positions.clear()
        say("committed", number=number)

    # what the client calls ----------------------------------------------------------------------------------

    def assigned(self, partitions: Iterable[int]) -> None:
        self._owned.update(partitions)
        self._generation, self._member_id = self._client.generation()
        say("assigned", generation=self._generation, member=self._member_id, partitions=sorted(self._owned))

    def revoked(self, partitions: Iterable[int]) -> None:
        if self._client.can_commit_when_revoked:
            self._commit()
        self._take("revoked", partitions)

    def lost(self, partitions: Iterable[int]) -> None:
        self._take("lost", partitions)

    def _take(self, event: str, partitions: Iterable[int]) -> None:
        gone = sorted(partitions)
        for partition in gone:
            self._owned.discard(partition)
            self._positions.pop(partition, None)
        say(event, partitions=gone)


def say(event: str, **fields: Any) -> None:
    """One line on standard output."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def main(connect: Callable[[Arguments, MixedMember], Client]) -> int:
    """The exit status."""
    bootstrap, topic, group, name, protocols, session_ms, rebalance_ms, instance = sys.argv[1:]
    arguments = Arguments(
        bootstrap, topic, group, name, tuple(protocols.split(",")),
        int(session_ms), int(rebalance_ms), instance or None,
    )  # fmt: skip
    try:
        MixedMember(arguments, connect).run()
    except Exception as error:
        say("failed", error=f"{type(error).__name__}: {error}")
        return 1
    return 0
