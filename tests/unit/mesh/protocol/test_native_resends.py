"""What may be asked for: never what a C producer would answer with other records' contents."""

import pytest

from mesh.protocol.native_resends import ASK_HEADS_SECONDS, Resends, new_address
from wireproto.dafka.fields import is_name
from wireproto.dafka.messages import Fetch

C = "0123456789ABCDEF" * 2


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
        resends.on_head(C, head)
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
