"""What may be asked for: never what a C producer would answer with other records' contents."""

import pytest

from mesh.protocol.native_resends import ASK_HEADS_SECONDS, Resends, new_address
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
        ([999, 5], 500, 1000, (500, 500)),
    ],
)
def test_a_c_producers_records(
    told: list[int], first: int, count: int, asked: tuple[int, int] | None
) -> None:
    resends = Resends()
    for head in told:
        resends.on_head(C, head, "S1")
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
            resends.on_head(address, head, store)
    resends.allowed(Fetch(address, "R1", "t", asked, 4096), 0.0)
    sequence, store = answer
    record = DirectRecord("R1", store, address, "t", sequence, b"")
    assert resends.takes(record, by_store) == taken
    assert resends.disbelieved == (not taken)


def test_the_first_records_are_a_producers_only_until_others_are_asked_for() -> None:
    resends = Resends()
    answer = DirectRecord("R1", "", C, "t", 5, b"")
    assert not resends.takes(answer)
    resends.allowed(Fetch(C, "R1", "t", 0, 10), 0.0)
    assert resends.takes(answer)
    resends.on_head(C, 9, "S1")
    resends.allowed(Fetch(C, "R1", "t", 3, 7), 0.0)
    assert not resends.takes(answer)


def test_what_our_stores_have_is_taken_from_them_alone() -> None:
    """Whatever was told without a name: one that they have no longer is others' again."""
    resends = Resends()
    answer, named = (DirectRecord("R1", store, C, "t", 500, b"") for store in ("", "S1"))
    resends.on_head(C, 999, "")
    assert resends.is_others(C)
    assert resends.takes(answer)
    resends.on_head(C, 999, "S1")
    assert not resends.takes(answer)
    assert resends.takes(named)
    resends.on_begins(C, 500)
    assert not resends.takes(answer)
    resends = Resends()
    for store in ("", "S1"):
        resends.on_head(C, 999, store)
    resends.on_begins(C, 501)
    assert resends.takes(answer)
    resends.on_begins(C, 400)
    assert not resends.takes(answer), "another of ours has it"
