"""Links between the parts of coordination, which are in one process where there is one gateway and far apart
where there are several: questions and answers of verification take a while, and markers come again, late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from wireproto.kafka.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection

    from gateway.common.marker import Marker
    from gateway.transactions.markers import MarkerTarget
    from gateway.transactions.metadata import TopicPartition
    from gateway.transactions.verifier import Errors, Producing, Verifier
    from tests.sim.gateway_node import Life

SLOW = 0.25
"""Share of the questions, and of the answers, that take a while."""

SLOW_SECONDS = 2.5

COMES_AGAIN = 0.3
"""Share of the markers that come once more."""

LATE_SECONDS = 3.0


class LateVerifier:
    """In the place of a gateway's verifier, which it asks."""

    def __init__(self, life: Life, verifier: Verifier) -> None:
        self._life = life
        self._verifier = verifier
        self._random = life.world.applications.random

    async def run(self) -> None:
        await self._verifier.run()

    def cost(self, transactional_id: str, partitions: int, *, adds: bool) -> int:
        return self._verifier.cost(transactional_id, partitions, adds=adds)

    async def check(self, who: Producing, partitions: Collection[TopicPartition], client: str) -> Errors:
        await self._on_the_way()
        errors = await self._verifier.check(who, partitions, client)
        await self._on_the_way()
        for error in errors.values():
            if error is not ErrorCode.NONE:
                self._life.world.reached[f"not verified: {error.name}"] += 1
        return errors

    async def _on_the_way(self) -> None:
        if self._life.world.working and self._random.random() < SLOW:
            await trio.sleep(self._random.uniform(0.0, SLOW_SECONDS))


class LateMarkers:
    """In the place of where a coordinator's markers go to; they come there, and later once more."""

    def __init__(self, life: Life, target: MarkerTarget) -> None:
        self.exists = target.exists
        self._life = life
        self._target = target
        self._random = life.world.applications.random

    async def write(self, partition: TopicPartition, marker: Marker) -> ErrorCode:
        world, log = self._life.world, self._life.partition(*partition)
        if log is not None and world.working and self._random.random() < COMES_AGAIN:
            later = self._random.uniform(0.0, LATE_SECONDS)
            world.loop.after(later, self._once_more, partition, marker, log.leader_epoch)
        if world.working and self._random.random() < SLOW:
            await trio.sleep(self._random.uniform(0.0, SLOW_SECONDS / 2))
        return await self._target.write(partition, marker)

    def _once_more(self, partition: TopicPartition, marker: Marker, leader_epoch: int) -> None:
        life = self._life.world.gateway_of(None, partition)
        if life is not None and life.answers:
            life.world.reached["markers that came again"] += 1
            life.nursery.start_soon(life.broker.markers_here.write, partition, marker, leader_epoch)
