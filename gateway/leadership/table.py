"""The table: who leads each partition, and under which leader epoch. Pure.

A partition is led by its slot's gateway. What it has of its own is an **override**: a later leader epoch,
because it was recovered again within its leader's life; or a gateway as well, because somebody wants it
there.

Rule: the leader epoch of a partition comes from the table, which all gateways have, and from nowhere else. So
each of them answers the same, and no leader has to be asked for it.

Rule: who is named leads only in the life that is named. A gateway that has begun another one leads nothing of
that until the table says so, with a leader epoch of its own.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gateway.leadership.next_table import NOBODY
from gateway.leadership.slots import SLOTS, slot_of


class Leader(NamedTuple):
    """A gateway in one life, and the leader epoch of what it leads."""

    gateway: int
    life: str
    epoch: int


class Override(NamedTuple):
    """What a partition has of its own: a leader epoch, and with `gateway` (else `NOBODY`) and its `life` a
    leader.
    """

    epoch: int
    gateway: int = NOBODY
    life: str = ""


class Table:
    """As it was read last. A slot that is None was never given to anybody."""

    def __init__(self) -> None:
        self.slots: list[Leader | None] = [None] * SLOTS
        self.overrides: dict[tuple[bytes, int], Override] = {}
        """By topic id and partition."""

    def leader_of(self, topic_id: bytes, index: int) -> Leader | None:
        """Who leads a partition by the table, whether that life goes on or not; None: nobody ever has."""
        leader = self.slots[slot_of(topic_id, index)]
        override = self.overrides.get((topic_id, index))
        if override is None:
            return leader
        if override.gateway != NOBODY:
            return Leader(override.gateway, override.life, override.epoch)
        if leader is None or override.epoch <= leader.epoch:
            return leader
        return leader._replace(epoch=override.epoch)

    def owners(self) -> list[int]:
        """The gateway id of each slot, or `NOBODY`."""
        return [NOBODY if leader is None else leader.gateway for leader in self.slots]

    def orphans(self, alive: Mapping[int, str]) -> set[int]:
        """The slots whose leader's life is over. `alive`: gateway id -> the life that it has now."""
        return {
            slot
            for slot, leader in enumerate(self.slots)
            if leader is None or alive.get(leader.gateway) != leader.life
        }

    def overridden(self, alive: Mapping[int, str]) -> dict[bytes, dict[int, int]]:
        """The partitions that have a leader of their own, which is alive: topic id -> partition -> gateway
        id.
        """
        found: dict[bytes, dict[int, int]] = {}
        for (topic_id, index), override in self.overrides.items():
            if override.gateway != NOBODY and alive.get(override.gateway) == override.life:
                found.setdefault(topic_id, {})[index] = override.gateway
        return found
