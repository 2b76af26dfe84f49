"""Records that come out of turn: the newest run of them is kept, and the gap ends where it begins."""

import pytest

from mesh.protocol import lives
from mesh.protocol.lives import Lives
from mesh.protocol.token_bucket import TokenBucket
from mesh.protocol.writer import RECORD_OVERHEAD_BYTES
from tests.unit.mesh.protocol.test_copy import batch, gateways_record, segment
from tests.unit.mesh.protocol.test_ingest import ADDRESS, STORE, Machine, open_request, request
from wireproto.dafka.messages import Ack, Fetch, Head

RECORD_BYTES = len(batch(0)) + RECORD_OVERHEAD_BYTES


def opened() -> Machine:
    machine = Machine()
    machine.answers(open_request(segment()))
    return machine


def hears(machine: Machine, *numbers: int) -> None:
    for number in numbers:
        machine.on_record(gateways_record(number), 0.0)


def missing(machine: Machine, now: float = 0.0) -> list[tuple[int, int]]:
    """(first, last) of the FETCHes that are due."""
    return [
        (effect.sequence, effect.sequence + effect.count - 1)
        for effect in machine.take_effects(now)
        if isinstance(effect, Fetch)
    ]


def head(machine: Machine) -> int:
    machine.settle()
    return machine.heads()[ADDRESS]


def test_what_came_behind_a_gap_is_taken_when_the_gap_is_filled() -> None:
    machine = opened()
    hears(machine, 0, 3, 4, 5)
    assert missing(machine) == [(1, 2)]
    hears(machine, 1, 6)
    assert head(machine) == 1
    hears(machine, 2)
    assert machine.settle() == [Ack(ADDRESS, STORE, "orders", 6)]
    assert missing(machine, 99.0) == []


def test_only_the_newest_run_is_kept_and_what_lies_between_two_is_asked_for() -> None:
    machine = opened()
    hears(machine, 0, 3, 4, 8, 9, 2)
    assert missing(machine) == [(1, 7)]
    hears(machine, 1, 2, 3, 4, 5, 6)
    assert head(machine) == 6
    hears(machine, 7)
    assert head(machine) == 9


def test_a_head_behind_what_came_is_asked_for_too() -> None:
    machine = opened()
    hears(machine, 1, 2)
    machine.on_head(Head(ADDRESS, "orders", 5), 0.0)
    assert missing(machine) == [(0, 0)]
    hears(machine, 0)
    assert missing(machine) == [(3, 5)], "at once: what was asked for is here"
    assert head(machine) == 2


def test_a_record_that_is_no_batch_is_asked_for_when_its_turn_comes() -> None:
    machine = opened()
    hears(machine, 1)
    machine.on_record(gateways_record(2)._replace(content=b"nonsense"), 0.0)
    hears(machine, 3)
    missing(machine)
    hears(machine, 0)
    assert head(machine) == 1
    assert machine.refused_records == 1
    assert missing(machine, 9.0) == [(2, 2)]


def test_what_is_kept_out_of_turn_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.protocol.gaps.MAX_AHEAD_BYTES", 3 * RECORD_BYTES + 10)
    machine = opened()
    hears(machine, 0, 2, 3, 4, 5, 6)
    # 5 did not fit behind 2 to 4, and began a new run.
    assert missing(machine) == [(1, 4)]
    hears(machine, 1, 2, 3, 4)
    assert head(machine) == 6
    # All of the room is there again.
    hears(machine, 8, 9, 10)
    hears(machine, 7)
    assert head(machine) == 10


@pytest.mark.parametrize("letter", [b"S", b"C", b"X"], ids=["SEAL", "CLOSE", "DELETE"])
def test_the_end_of_an_address_gives_its_room_back(letter: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.protocol.gaps.MAX_AHEAD_BYTES", 2 * RECORD_BYTES + 10)
    machine = opened()
    hears(machine, 1, 2)
    machine.answers(request(letter))
    assert machine._gaps._ahead_bytes == 0
    assert missing(machine, 9.0) == []


def test_lives_and_addresses_elsewhere_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lives, "MAX_LIVES", 2)
    monkeypatch.setattr(lives, "MAX_ELSEWHERE", 2)
    known = Lives()
    assert [known.heard(life * 32) for life in "ABACA"] == [True, True, False, True, False]
    assert [known.has(life * 32) for life in "ABC"] == [True, False, True], "the latest are kept"
    for address in "ABC":
        known.put_elsewhere(address)
    known.take_back("C")
    assert [known.is_elsewhere(address) for address in "ABC"] == [False, True, False]


def test_a_bucket_may_be_overdrawn_once_and_holds_a_second() -> None:
    bucket = TokenBucket(100)
    assert bucket.has_some(5.0)
    bucket.take(250)
    assert not bucket.has_some(6.4)
    assert bucket.has_some(6.6)
    bucket.take(1000)
    bucket.give_back(1000)
    assert bucket.has_some(1000.0)
    bucket.take(100)
    assert not bucket.has_some(1000.0)
