"""The table: who leads each partition, and under which leader epoch. Pure.

A partition is led by its slot's gateway, under its slot's leader epoch.

Rule: the table is all that says who leads. Every gateway has it, so each of them answers the same, and no
leader has to be asked. (One that is recovered again in its leader's life gets a later epoch, which its leader
alone tells, and who goes by the table's is at the right one all the same:
`gateway.log.partition.Partition.check_leader_epoch`.)

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


class Table:
    """As it was read last. A slot that is None was never given to anybody."""

    def __init__(self) -> None:
        self.slots: list[Leader | None] = [None] * SLOTS

    def leader_of(self, topic_id: bytes, index: int) -> Leader | None:
        """Who leads a partition by the table, whether that life goes on or not; None: nobody ever has."""
        return self.slots[slot_of(topic_id, index)]

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
