"""Where the logs end that other gateways lead: they are asked again and again, while somebody looks.

A group's coordinator knows what is committed, and a partition's leader where its log ends. So that lag can be
shown whoever leads, a gateway asks the others (ListOffsets): about the partitions that somebody has looked at
lately, for all of one leader's at once, once a second or more seldom. Nothing waits for an answer: who looks
is given what was heard last, and nothing where that is old or was never heard.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from gateway.cluster.gateways import NOBODY
from gateway.log.partition import PartitionState
from gateway.peers.failures import PeerFailed
from gateway.peers.heard import HeardEnds
from gateway.peers.rounds import Asked, Plan

if TYPE_CHECKING:
    from gateway.cluster.gateways import OneGateway, SharedGateways
    from gateway.log.partition import Partition
    from gateway.peers.peers import Peers

MAX_PARTITIONS: Final = 20_000
"""Partitions that are asked about: as many as gateways are made for. A kibibyte each at most."""

ROUND_SECONDS: Final = 1.0
"""Between the beginnings of two rounds."""

PARTITIONS_A_SECOND: Final = 5_000
"""Partitions that are asked about in a second, over all rounds: a hundredth of a core here, and less at the
leaders. With more of them than this rounds are further apart."""

ASK_SECONDS: Final = 5.0
"""How long one answer may take. Others are asked meanwhile."""

WANTED_SECONDS: Final = 65.0
"""How long a partition is asked about after somebody looked: who looks once a minute is told, and so is the
survey at its slowest (`dafka.processes.survey`)."""

MAX_AGE_SECONDS: Final = 60.0
"""What was heard before that counts as unknown. Long enough for a leader that dies, and for its successor to
recover: logs only grow, so what was heard meanwhile is too little and never wrong."""

PLAN_ROUNDS: Final = 10
"""Rounds after which it is looked anew what is wanted; sooner, where something is wanted that was not, or is
led by another gateway."""

PLANNED_A_TURN: Final = 500
"""Partitions that are planned before others have their turn: under a millisecond."""

logger = logging.getLogger(__name__)


class LogEnds:
    """`of` tells what was heard; `run` has to run."""

    def __init__(self, gateways: OneGateway | SharedGateways, peers: Peers | None) -> None:
        self._gateways = gateways
        self._peers = peers
        self._heard: dict[Partition, HeardEnds] = {}
        self._asked: dict[int, list[Asked]] = {}
        self._has_new = False
        self._planned: object = None
        """The gateways' version that was planned for."""
        self._rounds = 0
        self._wanted = trio.Event()

    def of(self, partition: Partition) -> HeardEnds | None:
        """What was heard of a partition that is led elsewhere; None where that is not known. From now on it
        is asked for.
        """
        heard, now = self._heard.get(partition), trio.current_time()
        if heard is None:
            if self._peers is not None and len(self._heard) < MAX_PARTITIONS:
                self._heard[partition] = HeardEnds(now)
                self._has_new = True
                self._wanted.set()
            return None
        heard.wanted_at = now
        return heard if now - heard.heard_at <= MAX_AGE_SECONDS else None

    async def run(self) -> None:
        """Ask, for ever; while nobody looks, nobody is asked."""
        while True:
            await self._wanted.wait()
            began = trio.current_time()
            asked = 0
            try:
                asked = await self._round()
            except Exception:  # who only looks must not end what it looks at
                logger.exception("a round of questions where logs end failed")
            if not self._heard:
                self._wanted = trio.Event()
            pause = max(ROUND_SECONDS, asked / PARTITIONS_A_SECOND)
            await trio.sleep_until(max(began + pause, trio.current_time() + ROUND_SECONDS / 2))

    async def _round(self) -> int:
        """One question for each; how many partitions they were about."""
        version = self._gateways.version
        if self._has_new or version != self._planned or self._rounds % PLAN_ROUNDS == 0:
            self._has_new, self._planned = False, version
            self._asked = await self._plan()
        self._rounds += 1
        counts: list[int] = []
        async with trio.open_nursery() as nursery:
            for gateway, asked in self._asked.items():
                nursery.start_soon(self._ask_all, gateway, asked, counts)
        return sum(counts)

    async def _plan(self) -> dict[int, list[Asked]]:
        """All that is wanted and has a leader; what nobody looks at any more, or is led here by now, or was
        deleted, is forgotten.
        """
        made = Plan(self._asked)
        for done, (partition, heard) in enumerate(list(self._heard.items()), 1):
            old = trio.current_time() - heard.wanted_at > WANTED_SECONDS
            if old or partition.deleted or partition.state is not PartitionState.ELSEWHERE:
                del self._heard[partition]
                continue
            leader = self._gateways.leader(partition.topic.id, partition.index)
            if leader != NOBODY:
                made.add(leader, partition, heard)
            if not done % PLANNED_A_TURN:
                await trio.lowlevel.checkpoint()
        return made.finish()

    async def _ask_all(self, gateway: int, asked: list[Asked], counts: list[int]) -> None:
        """One question after the other: whoever is asked has its turns in between."""
        assert self._peers is not None
        for some in asked:
            try:
                for question in some.questions():
                    answer = await self._peers.ask(gateway, question, ASK_SECONDS)
                    some.take(question, answer, trio.current_time())
                    counts.append(len(some.places))
            except PeerFailed as failure:
                logger.debug("where logs end is not known: %s", failure)
                return
