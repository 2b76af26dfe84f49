"""Clients that ask what a log's leader knows without waiting: its end, its start, where an epoch ended, what
is at an offset. What they are told is judged with everything else that happened to the log (`log_history`).

They draw from a source of their own, and do nothing that anybody else would notice: a schedule with them is
the one that it was.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.sim.log_model import OUT_OF_RANGE, UNDEFINED, AskEnd, AskEpochEnd, AskStart, Read
from wireproto.kafka.errors import ErrorCode
from wireproto.records.header import read_header

if TYPE_CHECKING:
    from gateway.log.partition import Partition
    from tests.sim.cluster import World
    from tests.sim.gateway_node import Life

PAUSE_SECONDS = 0.04
"""Between two questions, on average."""

BYTES = 1500
"""Of one Fetch."""


class LogReader:
    """Asks any partition of any gateway that would answer, as the handlers do."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = random.Random(f"readers {world.plan.seed}")

    def begin(self) -> None:
        self._world.loop.after(PAUSE_SECONDS * self._random.uniform(0.2, 1.8), self._tick)

    def _tick(self) -> None:
        if self._world.loop.over.is_set():
            return
        self.begin()
        lives = [life for life in self._world.lives if life.answers]
        logs = [(life, log) for life in lives for log in life.partitions() if _may_ask(log)]
        if logs:
            self._ask(*self._random.choice(logs))

    def _ask(self, life: Life, log: Partition) -> None:
        told = self._world.asked
        match self._random.randrange(4):
            case 0:
                told.answered(life, log, AskEnd(), (log.high_watermark, log.leader_epoch))
            case 1:
                told.answered(life, log, AskStart(), log.log_start_offset)
            case 2:
                epoch = self._random.randint(0, log.leader_epoch)
                told.answered(life, log, AskEpochEnd(epoch), log.end_offset_for_epoch(epoch))
            case 3:
                self._fetch(life, log)

    def _fetch(self, life: Life, log: Partition) -> None:
        """At the end more often than anywhere else: what is new is read there."""
        end, beyond = log.high_watermark, self._random.randint(0, 3)
        offset = end - beyond if self._random.random() < 0.7 else self._random.randint(0, end + 1)
        if offset < 0:
            return
        if log.check_fetch_offset(offset) is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._world.asked.answered(life, log, Read(offset), OUT_OF_RANGE)
            return
        batches = log.read_hot(offset, BYTES, whole=True)
        if batches is not None:
            last = read_header(batches[-1]).last_offset + 1 if batches else offset
            self._world.asked.answered(life, log, Read(offset), last)


def _may_ask(log: Partition) -> bool:
    """What is not recovered refuses what is asked here: its end, and whatever depends on that."""
    return log.available and not log.deleted and log.check_leader_epoch(UNDEFINED) is ErrorCode.NONE
