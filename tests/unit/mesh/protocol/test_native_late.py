"""Where a store begins to keep a native address whose first records are gone everywhere."""

from __future__ import annotations

import pytest

from mesh.protocol import native_late
from mesh.protocol.ingest import Ingest
from mesh.protocol.native_late import TRIES, LateBeginnings
from tests.unit.mesh.protocol.test_ingest import STORE, Disk
from wireproto.dafka.messages import Ack, Fetch, Head, Record

ADDRESS, OTHER = "A" * 32, "B" * 32


def test_the_lowest_that_was_told_after_so_many_times() -> None:
    late = LateBeginnings()
    assert [late.on_told(ADDRESS, first) for first in (9, 7, 8)] == [None] * (TRIES - 1)
    assert late.on_told(OTHER, 3) is None
    assert late.on_told(ADDRESS, 10) == 7
    assert late.on_told(ADDRESS, 10) is None, "it begins anew"


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_late, "MAX_TOLD", 2)
    late = LateBeginnings()
    for number in range(5):
        late.on_told(str(number), 1)
    assert list(late._told) == ["3", "4"]


class Machine(Ingest):
    def __init__(self) -> None:
        self.disk = Disk()
        super().__init__(STORE, self.disk)

    def record(self, sequence: int) -> None:
        self.on_record(Record(ADDRESS, "t", sequence, b"%d" % sequence), 0.0)

    def settle(self) -> list[Ack]:
        acks: list[Ack] = []
        while (commit := self.take_commit()) is not None:
            self.disk.apply(commit)
            acks += [effect for effect in self.committed(commit) if isinstance(effect, Ack)]
        return acks


def fetched(machine: Machine) -> list[tuple[int, int]]:
    return [
        (effect.sequence, effect.count) for effect in machine.take_effects(0.0) if isinstance(effect, Fetch)
    ]


def test_it_goes_on_from_there_and_acknowledges_nothing_before_its_first_record() -> None:
    machine = Machine()
    machine.on_head(Head(ADDRESS, "t", 20), 0.0)
    assert fetched(machine) == [(0, 21)]
    assert machine.begin_native(ADDRESS, 12, 0.0)
    assert machine.begin_native(ADDRESS, 14, 0.0), "meanwhile that is gone, too"
    machine.on_head(Head(ADDRESS, "t", 13), 0.0)
    assert [effect for effect in machine.take_effects(5.0) if isinstance(effect, Ack)] == []
    machine.record(14)
    assert [ack.sequence for ack in machine.settle()] == [14]
    assert not machine.begin_native(ADDRESS, 17, 0.0), "something is here now"
    machine.record(3)
    machine.record(15)
    assert [ack.sequence for ack in machine.settle()] == [15]


def test_records_that_came_out_of_turn_are_not_thrown_away() -> None:
    machine = Machine()
    for sequence in (8, 9, 10):
        machine.record(sequence)
    assert machine.begin_native(ADDRESS, 9, 0.0)
    assert [ack.sequence for ack in machine.settle()] == [10]
    assert sorted(sequence for _, sequence in machine.disk.rows) == [8, 9, 10]


def test_an_address_that_is_here_or_unknown_is_left_alone() -> None:
    machine = Machine()
    assert not machine.begin_native(ADDRESS, 5, 0.0)
    machine.record(0)
    assert not machine.begin_native(ADDRESS, 5, 0.0)
    assert [ack.sequence for ack in machine.settle()] == [0]
