"""Bugs of several gateways that the simulation must find: each planted for the time of a schedule, none of
them in the product.

Every one is something that `gateway.leadership`, the fences of the catalog or the stores stand against. What
finds it, and after how many schedules, is in docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any, cast
from unittest.mock import patch

from gateway.catalog import keys
from gateway.catalog.fenced import FencedCatalog
from gateway.catalog.interface import Entry
from gateway.cluster.slot_leadership import SlotLeadership
from gateway.log.appends import Append
from gateway.log.chain import OpenSegment
from gateway.log.epoch_counter import EpochCounter
from gateway.log.fences import Fences
from gateway.log.opener import Opener
from gateway.log.partition import Partition
from gateway.log.recovery.one_partition import PartitionRecovery
from gateway.log.recovery.recovery import Recovery
from mesh.protocol.segments import Segments
from mesh.protocol.unended import Unended
from mesh.protocol.writer import State
from tests.sim.bugs import BUGS

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


def _answered_after_it_was_given() -> AbstractContextManager[object]:
    """What comes while the slot goes is answered as if it were in the log."""

    def hold(self: Partition, header: Any, *_: object) -> Append:
        append = Append(self.next_offset, self.next_offset + header.last_offset_delta, 0, None)
        append.finish()
        return append

    return patch.object(Partition, "_hold", hold)


class _DrawsNothing:
    """A counter of leader epochs whose next number is the last one that was drawn."""

    def __init__(self, counter: EpochCounter) -> None:
        self.settled = counter.settled
        self.next = max(counter.highest, 0)

    @asynccontextmanager
    async def using(self, *_: object, **__: object) -> AsyncIterator[None]:
        yield


def _epoch_used_again() -> AbstractContextManager[object]:
    """A slot is taken under the number that was drawn last, not under a new one."""
    put = SlotLeadership._put

    async def reusing(self: SlotLeadership, leaders: Any, compares: Any, counter: Any) -> str | None:
        return await put(self, leaders, compares, cast(EpochCounter, _DrawsNothing(counter)))

    return patch.object(SlotLeadership, "_put", reusing)


@contextmanager
def _chain_as_it_was() -> Iterator[None]:
    """Who takes a partition over reads the segments that its own view showed some time ago."""
    seen: dict[str, Sequence[Entry]] = {}
    load = PartitionRecovery.load

    def stale(self: PartitionRecovery) -> None:
        catalog, range_ = self._context.catalog, self._context.catalog.range

        def as_it_was(prefix: str, **options: Any) -> list[Entry]:
            now = range_(prefix, **options)
            if not prefix.startswith(keys.SEGMENTS):
                return now
            before, seen[prefix] = seen.get(prefix, now), now
            return list(before)

        with patch.object(catalog, "range", as_it_was):
            load(self)

    with patch.object(PartitionRecovery, "load", stale):
        yield


@contextmanager
def _no_seal() -> Iterator[None]:
    """Stores answer a SEAL, and an OPEN of a higher epoch, and go on taking records."""
    with (
        BUGS["skipped SEAL"](),
        patch.object(Unended, "before", lambda *_: []),
        patch.object(Segments, "_seal_now", lambda *_: None),
    ):
        yield


GATEWAY_BUGS: dict[str, Plant] = {
    "nothing of leadership is compared": _nothing_of_leadership_is_compared,
    "nothing of partitions is compared": _nothing_of_partitions_is_compared,
    "everything is recovered": _everything_is_recovered,
    "given away before it is durable": _given_away_before_it_is_durable,
    "given away while it is served": _given_away_while_it_is_served,
    "answered after it was given": _answered_after_it_was_given,
    "epoch used again": _epoch_used_again,
    "the chain as it was": _chain_as_it_was,
    "no SEAL": _no_seal,
    "an offset given twice": _offset_given_twice,
}
