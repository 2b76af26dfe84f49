"""What may be asked for: never what a C producer would answer with other records' contents."""

import pytest

from mesh.protocol.native_resends import (
    ASK_HEADS_SECONDS,
    MAX_TOLD_STORES,
    TOLD_SECONDS,
    Resends,
    new_address,
)
from wireproto.dafka.fields import is_name
from wireproto.dafka.messages import DirectRecord, Fetch

C = "0123456789ABCDEF" * 2
OUR_OWN = "d" + "1" * 31


@pytest.mark.parametrize(
    ("told", "first", "count", "asked"),
    [
        ([], 0, 10, (0, 10)),
        ([], 0, 4096, (0, 256)),
        ([], 1, 10, None),
        ([], 256, 10, None),
        ([9], 0, 4096, (0, 10)),
        ([9], 5, 3, (5, 3)),
        ([9], 5, 10, (5, 5)),
        ([9], 10, 1, None),
        ([5, 999], 500, 1000, (500, 500)),
    ],
)
def test_a_c_producers_records(
    told: list[int], first: int, count: int, asked: tuple[int, int] | None
) -> None:
    resends = Resends()
    for head in told:
        resends.on_head(C, head, "S1", 0.0)
    allowed = resends.allowed(Fetch(C, "R1", "t", first, count), 0.0)
    assert allowed == (asked and Fetch(C, "R1", "t", *asked))
    assert resends.held_back == (asked is None)
    complete = asked == (first, count)
    assert resends.take_subjects(0.0) == ([] if complete else ["t"])


def test_our_producers_may_be_asked_for_everything() -> None:
    address = new_address()
    assert is_name(address)
    assert len(address) == 32
    assert address != address.upper()
    fetch = Fetch(address, "R1", "t", 1000, 4096)
    resends = Resends()
    assert resends.allowed(fetch, 0.0) == fetch
    assert resends.take_subjects(0.0) == []


def test_stores_are_asked_for_heads_now_and_then() -> None:
    resends = Resends()

    def asks(now: float) -> list[str]:
        resends.allowed(Fetch(C, "R1", "t", 5, 1), now)
        return resends.take_subjects(now)

    times = (0.0, 0.1, ASK_HEADS_SECONDS, ASK_HEADS_SECONDS + 0.1, 2 * ASK_HEADS_SECONDS)
    assert [asks(now) for now in times] == [["t"], [], ["t"], [], ["t"]]
    assert resends.take_subjects(9.0) == []


@pytest.mark.parametrize(
    ("address", "named", "unnamed", "asked", "answer", "by_store", "taken"),
    [
        # A store of ours gives its name; who does not may be the producer, which has not heard its ACK.
        (C, 999, -1, 500, (500, "S1"), None, True),
        (C, 999, -1, 500, (500, ""), None, False),
        # A C store has told of it, and answers without a name.
        (C, -1, 999, 500, (500, ""), None, True),
        (C, 399, 499, 499, (499, ""), None, True),
        (C, 399, 499, 499, (500, ""), None, False),
        (C, 999, 499, 499, (499, ""), None, False),
        # A producer that answers for the first record has heard no ACK: its first 256 are as they were.
        (C, -1, -1, 0, (255, ""), None, True),
        (C, 999, -1, 0, (256, ""), None, False),
        (C, 999, -1, 1, (1, ""), None, False),
        # Where there are keys they tell who it is.
        (C, -1, 999, 500, (500, ""), False, False),
        (C, -1, 999, 500, (500, "S1"), False, False),
        (C, -1, -1, 500, (500, ""), True, True),
        (C, -1, -1, 0, (5, ""), False, True),
        # Producers of ours answer rightly.
        (OUR_OWN, -1, -1, 500, (500, ""), None, True),
    ],
)
def test_whose_answers_are_believed(
    address: str,
    named: int,
    unnamed: int,
    asked: int,
    answer: tuple[int, str],
    by_store: bool | None,
    taken: bool,
) -> None:
    resends = Resends()
    for head, store in ((named, "S1"), (unnamed, "")):
        if head >= 0:
            resends.on_head(address, head, store, 0.0)
    resends.allowed(Fetch(address, "R1", "t", asked, 4096), 0.0)
    sequence, store = answer
    record = DirectRecord("R1", store, address, "t", sequence, b"")
    assert resends.takes(record, 0.0, by_store) == taken
    assert resends.disbelieved == (not taken)


def test_the_first_records_are_a_producers_only_until_others_are_asked_for() -> None:
    resends = Resends()
    fifth = answer(5)
    assert not resends.takes(fifth, 0.0)
    resends.allowed(Fetch(C, "R1", "t", 0, 10), 0.0)
    assert resends.takes(fifth, 0.0)
    resends.on_head(C, 9, "S1", 0.0)
    resends.allowed(Fetch(C, "R1", "t", 3, 7), 0.0)
    assert not resends.takes(fifth, 0.0)


def answer(sequence: int, store: str = "") -> DirectRecord:
    return DirectRecord("R1", store, C, "t", sequence, b"")


def test_what_a_store_of_ours_has_is_taken_from_it_alone() -> None:
    """Whatever was told without a name; one that it has no longer is others' again."""
    resends = Resends()
    resends.on_head(C, 999, "", 0.0)
    assert resends.is_others(C)
    assert resends.takes(answer(500), 1.0)
    resends.on_head(C, 999, "S1", 1.0)
    assert not resends.takes(answer(500), 2.0)
    assert resends.takes(answer(500, "S1"), 2.0)
    resends.on_begins(C, 500, "S1", 2.0)
    assert not resends.takes(answer(500), 3.0)
    assert resends.takes(answer(499), 3.0)
    resends.on_head(C, 1500, "S1", 3.0)
    assert resends.takes(answer(499), 3.0), "it begins there all the same"
    resends.on_head(C, 700, "S2", 4.0)
    assert not resends.takes(answer(499), 4.0), "another of ours has it"


def test_what_was_told_counts_for_a_while() -> None:
    """A store that has told and is gone does not keep others from answering; nor do those that are gone."""
    resends = Resends()
    resends.on_head(C, 999, "S1", 0.0)
    resends.on_head(C, 999, "", 10.0)
    assert not resends.takes(answer(500), TOLD_SECONDS - 1)
    assert resends.take_subjects(TOLD_SECONDS - 1) == [], "one of ours has it"
    assert resends.takes(answer(500), TOLD_SECONDS)
    assert not resends.takes(answer(500), 10.0 + TOLD_SECONDS)
    assert resends.take_subjects(10.0 + TOLD_SECONDS) == ["t"], "nobody is known to have it"


def test_of_several_stores_in_c_the_furthest_counts() -> None:
    resends = Resends()
    for head in (999, 5):
        resends.on_head(C, head, "", 0.0)
    assert resends.takes(answer(999), 1.0)
    resends.on_head(C, 5, "", TOLD_SECONDS)
    assert not resends.takes(answer(999), TOLD_SECONDS)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.protocol.native_resends.MAX_TOLD_ADDRESSES", 2)
    resends = Resends()
    for number in range(5):
        resends.on_head(f"A{number}", 1, "S1", 0.0)
        resends.allowed(Fetch(f"A{number}", "R1", "t", 0, 1), 0.0)
    assert list(resends._told) == list(resends._from_first) == ["A3", "A4"]
    for number in range(100):
        resends.on_begins("A4", 1, f"S{number}", 0.0)
    assert len(resends._told["A4"]) == MAX_TOLD_STORES
