"""Defects that a schedule found, as the few calls that they come down to.

The schedule itself is another one after each change of the product; what went wrong in it is not.
"""

from types import SimpleNamespace
from typing import Any, cast

from gateway.log.closer import Closer
from gateway.log.segment import Segment
from wireproto.dafka.additions import STATUS_DONE, AddressStatus

ADDRESS = "A" * 32
LOST, ONE, TWO, THREE, NEW = "lost", "one", "two", "three", "new"


class Asked:
    """The producer's side of CLOSE: keeps whom it was to tell, and answers when it is told to."""

    def __init__(self) -> None:
        self.answered: dict[str, Any] = {}
        self.closes = SimpleNamespace(drop=lambda _address, member: self.answered.pop(member, None))

    def close(self, member: str, _address: str, _end: int, answered: Any) -> None:
        self.answered[member] = answered

    def answer(self, member: str) -> None:
        self.answered.pop(member)(member, AddressStatus(ADDRESS, STATUS_DONE, 4))


def test_the_next_segment_opens_although_a_store_was_replaced_in_the_one_before() -> None:
    """A segment rolls; its end waits to be heard by w members, one of which is away just then. Meanwhile a
    replacement changes its members and begins the telling anew. When the member is back enough have heard:
    whoever waits for that (the next segment, with batches in its window) goes on.
    """
    asked = Asked()
    closer = Closer(cast("Any", SimpleNamespace(producer=asked)))
    heard: list[str] = []
    members = (LOST, ONE, TWO, THREE)
    segment = Segment(ADDRESS, 0, 0, members, 3, 0).closed(5, 4, -1)
    closer.begin([segment], lambda: heard.append(ADDRESS))
    asked.answer(ONE)
    asked.answer(TWO)
    assert not heard

    untold = [*closer.untold_members(ADDRESS, but=LOST), NEW]
    changed = Segment(ADDRESS, 0, 0, (NEW, ONE, TWO, THREE), 3, 0).closed(5, 4, -1)
    closer.begin([changed], members=untold)
    asked.answer(THREE)
    assert heard
