"""Defects that a schedule found, as the few calls that they come down to.

The schedule itself is another one after each change of the product; what went wrong in it is not.
"""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.log.closer import Closer
from gateway.log.segment import Segment
from tests.sim.plan import GATEWAY, NEVER, Fault, Plan, store_name
from tests.sim.promises import keeps_promises
from wireproto.dafka.additions import STATUS_DONE, AddressStatus, CloseEntry, Remembered

ADDRESS = "A" * 32
LOST, ONE, TWO, THREE, NEW = "lost", "one", "two", "three", "new"


class Asked:
    """A producer's requests to CLOSE: keeps whom it was to tell, and answers when it is told to."""

    def __init__(self) -> None:
        self.answered: dict[str, Any] = {}
        self.closes = SimpleNamespace(drop=lambda _address, member: self.answered.pop(member, None))

    def close(self, member: str, _entry: CloseEntry, answered: Any) -> None:
        self.answered[member] = answered

    def answer(self, member: str) -> None:
        self.answered.pop(member)(member, AddressStatus(ADDRESS, STATUS_DONE, 4))


def test_the_next_segment_opens_although_a_store_was_replaced_in_the_one_before() -> None:
    """A segment rolls; its end waits to be heard by w members, one of which is away just then. Meanwhile a
    replacement changes its members and begins the telling anew. When the member is back enough have heard:
    whoever waits for that (the next segment, with batches in its window) goes on.
    """
    asked = Asked()
    closer = Closer(
        cast(
            "Any",
            SimpleNamespace(producer=SimpleNamespace(segments=asked), place_of=lambda _key: Remembered()),
        )
    )
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


@pytest.mark.parametrize(
    ("policy", "gone"),
    [("delete", "delete topic"), ("delete", "trim"), ("compact", "compaction")],
)
def test_a_copy_for_a_new_store_is_forgotten_when_its_segment_has_left_the_log_meanwhile(
    policy: str, gone: str
) -> None:
    """A store takes a lost one's place. While it copies a segment that leaves the log, and the gateway is
    killed: nobody but the catalog knows that the new store has a part of it.
    """
    cuts = [Fault("", "cut link", 1.0, 3.5, store_name(number), store_name(0)) for number in (1, 2)]
    leaves = Fault("", gone, 3.6, 0.0, "topic-0")
    faults = (
        Fault("", "wipe", 1.0, 0.1, store_name(0)),
        *cuts,
        Fault("", "crash", 3.5, 0.05, GATEWAY, keep=True),
        *([leaves] if gone != "compaction" else []),
        Fault("", "crash", 4.0, 0.05, GATEWAY, keep=True),
    )
    plan = Plan(
        2,
        stores=3,
        replication_factor=3,
        partitions=1,
        clients=1,
        seconds=4.5,
        segment_bytes=600,
        policies=(policy,),
        compaction_seconds=3.0 if gone == "compaction" else NEVER,
        dirty_ratio=0.01,
        faults=faults,
    )
    outcome = keeps_promises(plan)
    assert outcome.world.reached["stores replaced"] == 1
