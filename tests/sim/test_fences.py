"""Seeded schedules of two gateways on copies of one catalog, and of a store that loses its memory.

The first one writes a segment. The second one's catalog is from before it: it opens another segment at the
same offset, or has the first one's deleted. What the first one was acknowledged stays, and is not given
again; nothing more is acknowledged once the second one has its answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

import pytest

from mesh.protocol.address_state import Phase
from mesh.protocol.ingest import Ingest
from mesh.protocol.segments import Segments
from mesh.protocol.unended import Unended
from tests.sim.loop import BrokenPromise
from tests.sim.world import SimulatedDisk
from wireproto.dafka import ids
from wireproto.dafka.additions import (
    STATUS_DONE,
    AddressStatus,
    Announcement,
    Answer,
    CloseEntry,
    DeleteEntry,
    OpenEntry,
    Remembered,
    Request,
    SealedHead,
)
from wireproto.dafka.messages import Ack, Record
from wireproto.records.builder import build_batch

STORE = "5" * 32
FIRST, SECOND = "A" * 32, "B" * 32
STEPS = 60
SEEDS = 40


def announcement(address: str, epoch: int) -> Announcement:
    return Announcement(address, "orders", "cluster", "log/0", epoch, 0, (STORE,), 1, b"")


class Schedule:
    """Both gateways and the store. Messages and answers are lost now and then, and said again."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.disk = SimulatedDisk()
        self.store = Ingest(STORE, self.disk)
        self.acknowledged = -1
        """Up to where the first one's records are."""
        self.answered: AddressStatus | None = None
        """What the second one was told."""
        self.closed = False
        at = Remembered("H1", "A" * 16, 5)
        self.ask(ids.OPEN, OpenEntry(announcement(FIRST, 1), at).pack(), certain=True)

    def run(self, second: bytes, entry: bytes) -> None:
        begins = self.random.randrange(STEPS // 2)
        for number in range(STEPS):
            before, was_answered = self.acknowledged, self.answered is not None
            if self.random.random() < 0.1:
                self.store = Ingest(STORE, self.disk)
            self.write()
            if second == ids.DELETE and number >= begins and not self.closed:
                # The first one's catalog has the end with its tenth transaction.
                at = Remembered("H1", "A" * 16, 10)
                closing = CloseEntry(FIRST, self.acknowledged, at).pack()
                self.closed = self.ask(ids.CLOSE, closing) is not None
            elif number >= begins and self.answered is None:
                self.answered = self.ask(second, entry)
            if was_answered and self.acknowledged > before and second == ids.OPEN:
                raise BrokenPromise("a deposed life was acknowledged more")

    def write(self) -> None:
        if self.closed:
            return
        batch = build_batch([(None, b"value", [], 0)], base_offset=self.acknowledged + 1)
        self.store.on_record(Record(FIRST, "orders", self.acknowledged + 1, batch), 0.0)
        self.settle("")

    def ask(self, message_id: bytes, entry: bytes, *, certain: bool = False) -> AddressStatus | None:
        """What the store says; None if the request or its answer was lost."""
        requester = f"R{self.random.random()}"
        if not certain and self.random.random() < 0.3:
            return None
        self.store.on_request(Request(message_id, STORE, requester, (entry,)))
        answer = self.settle(requester, certain=certain)
        return None if not certain and self.random.random() < 0.3 else answer

    def settle(self, requester: str, *, certain: bool = False) -> AddressStatus | None:
        answered = None
        while (commit := self.store.take_commit()) is not None:
            if not certain and self.random.random() < 0.05:
                self.store = Ingest(STORE, self.disk)  # it ended before it wrote that
                return None
            self.disk.apply(commit)
            for effect in self.store.committed(commit):
                if isinstance(effect, Ack):
                    self.acknowledged = max(self.acknowledged, effect.sequence)
                elif isinstance(effect, Answer) and effect.requester == requester:
                    answered = effect.statuses[0]
        return answered

    def check(self) -> None:
        """What was acknowledged is there."""
        state = self.disk.load(FIRST)
        assert state is not None
        if state.head < self.acknowledged or state.phase is Phase.DELETED:
            raise BrokenPromise(f"{self.acknowledged} was acknowledged, and {state.head} is here")


def opens_another(seed: int) -> None:
    """A deposed life's open segment is sealed by the next life's OPEN, which names it."""
    schedule = Schedule(seed)
    schedule.run(ids.OPEN, OpenEntry(announcement(SECOND, 2), Remembered("H1", "B" * 16, 5)).pack())
    schedule.check()
    status = schedule.answered
    assert status is not None
    assert status.status == STATUS_DONE
    named = SealedHead.unpack_all(status.row)
    if [one.address for one in named] != [FIRST] or named[0].head < schedule.acknowledged:
        raise BrokenPromise(f"offset 0 was acknowledged, and may be given again: {named}")


def deletes(seed: int) -> None:
    """A DELETE from an older catalog is refused: that one is at its eighth transaction."""
    schedule = Schedule(seed)
    place = Remembered("H1", "B" * 16, 8)
    schedule.run(ids.DELETE, DeleteEntry(FIRST, "log/0", 1, place).pack())
    schedule.check()
    assert schedule.closed
    assert schedule.answered is not None
    assert schedule.answered.status != STATUS_DONE


@pytest.mark.parametrize("body", [opens_another, deletes])
def test_the_promises_hold(body: Callable[[int], None]) -> None:
    for seed in range(SEEDS):
        body(seed)


@pytest.mark.parametrize(
    ("body", "without"),
    [
        (opens_another, patch.object(Unended, "before", lambda _self, _segment: [])),
        (deletes, patch.object(Segments, "_refuses_delete", lambda _self, _state, _wanted: STATUS_DONE)),
        (opens_another, patch.object(Segments, "_seal_now", lambda _self, _state: None)),
    ],
)
def test_without_the_rule_it_is_found(
    body: Callable[[int], None], without: AbstractContextManager[object]
) -> None:
    found = 0
    with without:
        for seed in range(SEEDS):
            try:
                body(seed)
            except BrokenPromise:
                found += 1
    assert found, "the simulation cannot see it"
