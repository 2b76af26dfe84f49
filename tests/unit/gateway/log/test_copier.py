"""A copy does not wait for ever for a store that answers nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from gateway.log.copier import REFUSED_SECONDS, STALLED_SECONDS, Copier
from tests.unit.mesh.store.sample import announcement
from wireproto.dafka.additions import STATUS_DONE, AddressStatus

NEW, OLD = "new", "old"


class AwayStore:
    """One that is asked to copy, and is away until `back` (seconds)."""

    def __init__(self, back: float) -> None:
        self.back = back
        self.asked = 0
        requests = SimpleNamespace(segments=SimpleNamespace(copies=self))
        stores = SimpleNamespace(live_first=lambda members, _address: members)
        context: Any = SimpleNamespace(producer=requests, stores=stores, reader=self)
        self.copier = Copier(context)

    async def beginning(self, *_: Any) -> SimpleNamespace:
        return SimpleNamespace(announcement=announcement())

    async def answer(self, _member: str, address: str, _entry: bytes) -> AddressStatus:
        self.asked += 1
        await trio.sleep_until(self.back)
        return AddressStatus(address, STATUS_DONE, 4)


def copied(back: float, **how: Any) -> tuple[bool, float, int]:
    """What a copy to it comes to, when, and how often it was asked."""

    async def main() -> tuple[bool, float, int]:
        began = trio.current_time()
        store = AwayStore(began + back)
        done = await store.copier.copy(NEW, announcement().address, 4, [OLD], **how)
        return done, trio.current_time() - began, store.asked

    return trio.run(main, clock=MockClock(autojump_threshold=0))


def test_who_wants_it_once_does_without_a_store_that_answers_nothing() -> None:
    """A replacement whose target is gone for ever, as one that was set back: it was never over."""
    assert copied(1e9, once=True) == (False, STALLED_SECONDS, 1)


@pytest.mark.parametrize("away", [1.0, 10 * STALLED_SECONDS + 5.0])
def test_who_must_have_it_waits_until_the_store_is_back(away: float) -> None:
    done, took, asked = copied(away)
    assert done
    assert took == pytest.approx(away)
    assert asked == away // STALLED_SECONDS + 1


def test_what_is_not_wanted_any_more_ends() -> None:
    wanted = iter([True, True, False])
    assert copied(1e9, wanted=lambda: next(wanted, False)) == (False, STALLED_SECONDS + REFUSED_SECONDS, 1)
