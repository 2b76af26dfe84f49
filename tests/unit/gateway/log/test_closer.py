"""Telling the ends of segments: who waits until they are heard, and a replacement in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.catalog import keys
from gateway.log.closer import CLOSES_AT_ONCE, Closer
from gateway.log.segment import Segment
from mesh.address_requests import RETRY_SECONDS
from tests.entries import address_of
from tests.unit.gateway.log.fake_log import FakeLog, FakeRequests
from tests.unit.gateway.turns import Turns
from wireproto.dafka.additions import STATUS_DONE, STATUS_INCOMPLETE, STATUS_OTHER_END, AddressStatus

ONE, TWO, THREE, FOUR = (f"store-{number}" for number in range(1, 5))
ADDRESS = "A" * 32
SEGMENT = Segment(ADDRESS, 0, 0, (ONE, TWO, THREE), 2, 0).closed(10, 9, 0)


class Requests(FakeRequests):
    """Stores of which those in `away` do not answer. `told`: who was told an end."""

    def __init__(self) -> None:
        super().__init__()
        self.away: set[str] = set()
        self.lacking: set[str] = set()
        """Those that have not all of it."""
        self.others: dict[str, tuple[int, int]] = {}
        """What some say else: status and head."""
        self.told: list[str] = []
        self.woken = trio.Event()

    async def ask(self, store: str, make: Any) -> Any:
        message = make(self.new_id())
        while store in self.away:
            await self.woken.wait()
        self.told.append(store)
        addresses = [address_of(message.id, entry) for entry in message.entries]
        status = STATUS_INCOMPLETE if store in self.lacking else STATUS_DONE
        said = self.others.get(store, (status, 9))
        return SimpleNamespace(statuses=[AddressStatus(a, *said) for a in addresses])

    def back(self, *stores: str) -> None:
        self.away -= set(stores)
        self.woken.set()
        self.woken = trio.Event()


class Setup:
    def __init__(self) -> None:
        self.stores = Requests()
        self.log = FakeLog(requests=self.stores)
        self.closer: Closer = self.log.context.closer
        self.heard: list[str] = []

    async def note(self, segment: Segment, members: tuple[str, ...] | None = None) -> None:
        puts: dict[str, bytes] = {}
        Closer.note(segment, self.log.partition.log, puts, members)
        await self.log.catalog.transact([], puts)

    def noted(self) -> Any:
        entry = self.log.context.catalog.get(keys.closing_key(ADDRESS))
        return None if entry is None else keys.unpack(entry.value)["members"]


def run(body: Callable[[Setup], Awaitable[None]]) -> None:
    async def main() -> None:
        setup = Setup()
        async with setup.log.running():
            await body(setup)

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_who_had_confirmed_before_a_restart_is_not_waited_for() -> None:
    """A member that took another one's place is away: the others know the end, and nothing waits."""

    async def body(setup: Setup) -> None:
        setup.stores.away = {THREE}
        await setup.note(SEGMENT, (THREE,))
        setup.closer.load()
        assert not setup.closer.is_waited_for(ADDRESS)
        assert setup.closer.untold() == {THREE: 1}

    run(body)


def test_it_is_told_until_all_have_confirmed_and_heard_when_enough_have_answered() -> None:
    async def body(setup: Setup) -> None:
        setup.stores.away = {TWO, THREE}
        await setup.note(SEGMENT)
        setup.closer.begin([SEGMENT], lambda: setup.heard.append("heard"))
        await trio.sleep(1)
        assert (setup.heard, setup.stores.told) == ([], [ONE])
        setup.stores.back(TWO)
        await trio.sleep(1)
        assert setup.heard == ["heard"]
        assert setup.noted() == [ONE, TWO, THREE]
        assert setup.closer.untold() == {THREE: 1}
        setup.stores.back(THREE)
        await trio.sleep(1)
        assert (setup.heard, setup.noted(), setup.closer.untold()) == (["heard"], None, {})

    run(body)


def test_what_is_to_be_told_later_waits_but_for_what_is_dropped_or_told_anew_meanwhile() -> None:
    async def body(setup: Setup) -> None:
        kept, dropped, anew = (replace(SEGMENT, address=letter * 32) for letter in "BCD")
        for segment in (kept, dropped, anew):
            await setup.note(segment)
        setup.closer.begin([kept, dropped, anew], later=True)
        await trio.sleep(60)
        assert setup.stores.told == []
        assert setup.closer.untold() == {ONE: 3, TWO: 3, THREE: 3}
        setup.closer.drop([dropped.address])
        setup.closer.begin([anew], members=[THREE, *setup.closer.untold_members(anew.address, but=ONE)])
        await trio.sleep(1)
        setup.stores.told.clear()
        setup.closer.tell_those_left()
        await trio.sleep(1)
        assert sorted(setup.stores.told) == [ONE, TWO, THREE]
        assert setup.closer.untold() == {}
        setup.closer.tell_those_left()
        await trio.sleep(1)
        assert len(setup.stores.told) == 3

    run(body)


def test_what_is_told_of_already_is_told_anew_at_once() -> None:
    """Else a member that was away would hear the end that was."""

    async def body(setup: Setup) -> None:
        setup.stores.away = {TWO}
        await setup.note(SEGMENT)
        setup.closer.begin([SEGMENT.closed(8, 7, 0)])
        await trio.sleep(1)
        setup.closer.begin([SEGMENT], later=True)
        await trio.sleep(1)
        assert setup.stores.told.count(THREE) == 2

    run(body)


def test_thousands_are_told_some_in_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(setup: Setup) -> None:
        turns, segments = Turns(), setup.log.context.producer.segments
        monkeypatch.setattr(segments, "close", turns.watches(segments.close))
        setup.closer.begin([replace(SEGMENT, address=f"{n:032X}") for n in range(1000)], later=True)
        setup.closer.tell_those_left()
        await trio.sleep(1)
        assert turns.calls.total() == 3000
        assert max(turns.calls.values()) <= 3 * CLOSES_AT_ONCE

    run(body)


def test_a_member_that_lacks_something_is_told_again_when_it_has_copied_that() -> None:
    """Until then it has not confirmed, and a restart must know of it."""

    async def body(setup: Setup) -> None:
        setup.stores.lacking = {THREE}
        copied = trio.Event()
        asked: list[tuple[object, ...]] = []

        async def copy(*segment: object, **_: object) -> bool:
            asked.append(segment)
            await copied.wait()
            return True

        setup.log.context.copier.copy = copy  # type: ignore[method-assign]
        await setup.note(SEGMENT)
        setup.closer.begin([SEGMENT], lambda: setup.heard.append("heard"))
        await trio.sleep(1)
        assert asked == [(THREE, ADDRESS, 9, [ONE, TWO])]
        assert setup.heard == ["heard"]
        assert (setup.noted(), setup.closer.untold()) == ([ONE, TWO, THREE], {THREE: 1})
        setup.stores.lacking = set()
        copied.set()
        await trio.sleep(1)
        assert (setup.noted(), setup.closer.untold()) == (None, {})
        assert setup.stores.told.count(THREE) == 2

    run(body)


@pytest.mark.parametrize("said", [(STATUS_OTHER_END, 5), (STATUS_DONE, 5), (STATUS_DONE, 12)])
def test_a_member_that_knows_another_end_has_confirmed_nothing(
    said: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    """Two catalogs, or a store that lies to others; older stores say only how far they have it."""

    async def body(setup: Setup) -> None:
        setup.stores.others = {THREE: said}
        await setup.note(SEGMENT)
        setup.closer.begin([SEGMENT], lambda: setup.heard.append("heard"))
        await trio.sleep(1)
        assert (setup.noted(), setup.closer.untold()) == ([ONE, TWO, THREE], {THREE: 1})
        assert f"store {THREE} does not close segment {ADDRESS} at 9, and has up to {said[1]}" in caplog.text
        assert "the store was told another end of this segment" in caplog.text
        setup.stores.others = {}
        await trio.sleep(RETRY_SECONDS)
        assert (setup.noted(), setup.closer.untold()) == (None, {})
        assert setup.stores.told.count(THREE) == 2

    run(body)


def test_a_member_that_was_told_to_delete_it_needs_no_end() -> None:
    async def body(setup: Setup) -> None:
        setup.stores.others = {THREE: (STATUS_DONE, -1)}
        await setup.note(SEGMENT)
        setup.closer.begin([SEGMENT])
        await trio.sleep(1)
        assert (setup.noted(), setup.closer.untold()) == (None, {})

    run(body)


def test_what_another_gateway_has_told_is_copied_no_more_and_keeps_nothing_waiting() -> None:
    """It has the log now, and may have deleted the segment: no source has that any more."""
    other = Segment("B" * 32, 0, 10, (ONE, TWO, THREE), 2, 0).closed(20, 9, 0)

    async def body(setup: Setup) -> None:
        setup.stores.lacking = {TWO}
        copied = []

        async def copy(
            member: str, address: str, *_: object, wanted: Callable[[], bool], **__: object
        ) -> bool:
            while address == ADDRESS and wanted():  # noqa: ASYNC110 - as the copier asks
                await trio.sleep(1)
            copied.append((member, address))
            setup.stores.lacking.discard(member)
            return address != ADDRESS

        setup.log.context.copier.copy = copy  # type: ignore[assignment]
        await setup.note(SEGMENT)
        setup.closer.begin([SEGMENT], lambda: setup.heard.append("heard"))
        await trio.sleep(5)
        assert (copied, setup.closer.untold()) == ([], {TWO: 1})
        await setup.note(other)
        setup.closer.begin([other])
        await trio.sleep(5)
        assert setup.closer.untold() == {TWO: 2}
        await setup.log.catalog.transact([], {}, [keys.closing_key(ADDRESS)])
        await trio.sleep(5)
        assert copied == [(TWO, ADDRESS), (TWO, other.address)]
        assert setup.closer.untold() == {}

    run(body)


def test_a_replacement_meanwhile_forgets_nobody_who_waits() -> None:
    async def body(setup: Setup) -> None:
        setup.stores.away = {TWO, THREE}
        await setup.note(SEGMENT)
        setup.closer.begin([SEGMENT], lambda: setup.heard.append("heard"))
        await trio.sleep(1)
        changed = Segment(ADDRESS, 0, 0, (ONE, FOUR, THREE), 2, 0).closed(10, 9, 0)
        untold = (*setup.closer.untold_members(ADDRESS, but=TWO), FOUR)
        assert untold == (THREE, FOUR)
        await setup.note(changed, untold)
        setup.closer.begin([changed], members=untold)
        await trio.sleep(1)
        assert setup.heard == ["heard"]
        assert setup.noted() == [THREE, FOUR]
        setup.stores.back(THREE)
        await trio.sleep(1)
        assert setup.noted() is None
        assert TWO not in setup.stores.told

    run(body)


def test_what_is_put_anew_while_the_end_is_noted_as_told_stays() -> None:
    """A restart must know of the new member."""

    async def body(setup: Setup) -> None:
        catalog = setup.log.catalog
        await setup.note(SEGMENT)
        setup.closer.begin([SEGMENT])
        setup.stores.away = {FOUR}
        changed = Segment(ADDRESS, 0, 0, (ONE, FOUR, THREE), 2, 0).closed(10, 9, 0)
        catalog.hold()  # what is written now waits
        await wait_all_tasks_blocked()
        assert setup.closer.untold() == {}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(setup.note, changed, (FOUR,))
            await wait_all_tasks_blocked()
            # Both are in the queue, in the order in which they came: turn them round.
            catalog._queue.reverse()
            catalog.let_go()
            await trio.sleep(1)
        assert setup.noted() == [FOUR]

    run(body)
