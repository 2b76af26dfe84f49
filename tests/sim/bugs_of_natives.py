"""Bugs on the way of native records into a topic, each of which a schedule with native producers finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from gateway.cluster.native_addresses import KnownAddress
from gateway.log.idempotence.producers import PartitionProducers
from gateway.native import intake, topics
from gateway.native.intake import Fed, Intake, Led
from gateway.native.taken import Committed
from mesh.protocol.native_order import NativeOrder
from tests.sim.bugs import both

Plant = Callable[[], AbstractContextManager[object]]


def _unchecked() -> AbstractContextManager[object]:
    """Nobody looks whether a batch is behind what is there: what is planted beside it shows by itself."""
    return patch.object(PartitionProducers, "check_is_new", lambda _self, _header: None)


def _progress_outside_the_log() -> AbstractContextManager[object]:
    """An address goes on where this process remembers, and not where the log says."""
    remembered: dict[int, int] = {}
    done = Intake._done

    def noting(self: Intake, fed: Fed, records: int) -> None:
        remembered[fed.known.producer_id] = fed.waiting[0].sequence + records
        done(self, fed, records)

    def of_memory(_partition: Any, known: KnownAddress) -> int:
        return remembered.get(known.producer_id, 0)

    planted = both(patch.object(intake, "next_in", of_memory), patch.object(Intake, "_done", noting))
    return both(planted, _unchecked())


def _before_the_log_is_known() -> AbstractContextManager[object]:
    """An address begins where a log says that is not recovered yet."""

    def hasty(self: Intake, index: int) -> Led:
        led = self._led.get(index)
        if led is None:
            led = self._led[index] = Led(self.topic.partitions[index])
        return led

    holds = property(lambda led: led.partition.available or not led.waiting_bytes)
    planted = both(patch.object(Intake, "_led_now", hasty), patch.object(Led, "holds", holds))
    return both(planted, _unchecked())


def _new_producer_each_time() -> AbstractContextManager[object]:
    """Whoever hears of an address makes it known anew, over what is known."""

    async def make_anew(self: Any, topic: Any, addresses: Sequence[str]) -> None:
        for address in addresses:
            index = self._next = (getattr(self, "_next", 0) + 1) % len(topic.partitions)
            if topic.partitions[index].available:
                known = KnownAddress(index, 1_000_000 + self._next)
                self._addresses._known[f"/native/{topic.id.hex()}/{address}"] = known

    return patch.object(topics.NativeTopics, "_make", make_anew)


def _a_gap_is_left() -> AbstractContextManager[object]:
    """What is missing is not waited for."""
    keep = NativeOrder._keep

    def hasty(self: NativeOrder, stream: Any, sequence: int, content: bytes) -> None:
        keep(self, stream, sequence, content)
        stream.next = min(stream.ahead)

    return patch.object(NativeOrder, "_keep", hasty)


def _dropped_before_it_is_durable() -> AbstractContextManager[object]:
    """Stores are told of what is in a log that too few of them have."""
    return patch.object(Committed, "look", lambda _self, _key, now, _high_watermark: now.following)


NATIVE_BUGS: dict[str, Plant] = {
    "progress outside the log": _progress_outside_the_log,
    "an address begins before the log is known": _before_the_log_is_known,
    "an address is not in the catalog": _new_producer_each_time,
    "a gap is left": _a_gap_is_left,
    "dropped before it is durable in the topic": _dropped_before_it_is_durable,
}
