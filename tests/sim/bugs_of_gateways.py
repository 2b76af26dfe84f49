"""Bugs of several gateways that the simulation must find: each planted for the time of a schedule, none of
them in the product.

Every one is something that `gateway.leadership`, the fences of the catalog or the stores stand against. What
finds it, and after how many schedules, is in docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from gateway.catalog.fenced import FencedCatalog
from gateway.cluster.slot_leadership import SlotLeadership
from gateway.log.appends import Append
from gateway.log.chain import OpenSegment
from gateway.log.fences import Fences
from gateway.log.opener import Opener
from gateway.log.partition import Partition
from gateway.log.recovery.recovery import Recovery
from mesh.protocol.writer import State

Plant = Callable[[], AbstractContextManager[object]]


@contextmanager
def _nothing_of_leadership_is_compared() -> Iterator[None]:
    """Neither the slot nor that the gateway is alive: each alone is enough for most of what happens here."""
    with (
        patch.object(SlotLeadership, "compares", lambda *_: []),
        patch.object(FencedCatalog, "hold", lambda *_: None),
    ):
        yield


@contextmanager
def _nothing_of_partitions_is_compared() -> Iterator[None]:
    """Neither record nor topic, slot or life: a gateway that slept writes over everything."""
    with (
        _nothing_of_leadership_is_compared(),
        patch.object(Fences, "fenced", lambda *_: []),
        patch("gateway.catalog.fenced.check_fenced", lambda *_: None),
    ):
        yield


def _everything_is_recovered() -> AbstractContextManager[object]:
    return patch.object(Recovery, "_is_ours", lambda _self, partition: not partition.deleted)


@contextmanager
def _given_away_before_it_is_durable() -> Iterator[None]:
    """With an end that too few stores have."""

    def may_end(_self: Opener, partition: Partition, current: OpenSegment) -> bool:
        return partition.available and current.writer.state is State.OPEN

    with patch.object(Partition, "is_durable", True), patch.object(Opener, "_may_end", may_end):
        yield


def _given_away_while_it_is_served() -> AbstractContextManager[object]:
    return patch.object(Partition, "given", lambda _: None)


def _offset_given_twice() -> AbstractContextManager[object]:
    """Now and then a batch does not move the end of the log."""
    append = Partition.append

    def twice(self: Partition, *arguments: Any, **options: Any) -> Append:
        done = append(self, *arguments, **options)
        if done.base_offset % 20 == 10 and self.next_offset > done.base_offset:
            self.next_offset = done.base_offset
        return done

    return patch.object(Partition, "append", twice)


GATEWAY_BUGS: dict[str, Plant] = {
    "nothing of leadership is compared": _nothing_of_leadership_is_compared,
    "nothing of partitions is compared": _nothing_of_partitions_is_compared,
    "everything is recovered": _everything_is_recovered,
    "given away before it is durable": _given_away_before_it_is_durable,
    "given away while it is served": _given_away_while_it_is_served,
    "an offset given twice": _offset_given_twice,
}
