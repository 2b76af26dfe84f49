"""One row of the simulated catalog's file is gone, and an operator puts it back after a while.

What is promised holds meanwhile and afterwards. A partition that the gateway refuses because of it promises
nothing: clients wait.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from gateway.catalog import keys
from gateway.log.partition import PartitionState
from gateway.log.segment import Segment

if TYPE_CHECKING:
    from gateway.catalog.interface import Entry
    from tests.sim.cluster import World
    from tests.sim.plan import Fault


class LostRows:
    """Of one schedule; `is_one_gone` from the loss until it is put back."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._gone: Entry | None = None

    @property
    def is_one_gone(self) -> bool:
        return self._gone is not None

    def lose(self, fault: Fault) -> bool:
        """Take away a row whose key begins with `fault.other`; whether there was one."""
        file = self._world.catalog_file
        rows = file.range(fault.other)
        if self.is_one_gone or not rows:
            return False
        self._gone = random.Random(f"{self._world.plan.seed} {fault.id}").choice(rows)
        del file.entries[self._gone.key]
        return True

    def put_back(self) -> None:
        """What the gateway has made of it meanwhile is counted."""
        assert self._gone is not None
        world, life = self._world, self._world.current_life()
        if life is not None and life.serving:
            withheld = [log for log in life.partitions() if log.withheld]
            assert all(log.state is PartitionState.FAILED for log in withheld)
            world.reached["partitions refused"] += len(withheld)
        if self._is_known(self._gone):
            world.catalog_file.entries.setdefault(self._gone.key, self._gone)
        self._gone = None

    def _is_known(self, row: Entry) -> bool:
        """Whether anybody but the catalog knew of it. A segment that no store was told of is no loss: another
        one begins where it did.
        """
        if not row.key.startswith(keys.SEGMENTS):
            return True
        address = Segment.unpack(row.value).address
        return any(member.database().load(address) is not None for member in self._world.members)
