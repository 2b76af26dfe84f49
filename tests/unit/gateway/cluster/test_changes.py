"""One change after the other, each to its end, though who has asked for it is gone, whatever comes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.catalog.fenced import Deposed
from gateway.cluster.changes import LOOK_SECONDS, Changes
from tests.unit.gateway.catalog.memory import MemoryCatalog
from wireproto.kafka.errors import ErrorCode, KafkaError


class Catalog(MemoryCatalog):
    """One that can be away."""

    away = ""

    @property
    def trouble(self) -> str:
        return self.away


class Work:
    """Changes that are made as far as they are let."""

    def __init__(self) -> None:
        self.let = trio.Event()
        self.log: list[str] = []

    def change(self, name: str, error: Exception | None = None) -> Callable[[], Awaitable[str]]:
        async def make() -> str:
            self.log.append(f"{name} begins")
            await self.let.wait()
            if error is not None:
                raise error
            self.log.append(f"{name} ends")
            return name

        return make


Body = Callable[[Changes, Work, Catalog, trio.Nursery], Awaitable[None]]


def run(body: Body) -> None:
    async def main() -> None:
        catalog = Catalog()
        changes, work = Changes(catalog), Work()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(changes.run)
            await wait_all_tasks_blocked()
            await body(changes, work, catalog, nursery)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_one_after_the_other_and_each_to_its_end() -> None:
    async def body(changes: Changes, work: Work, _catalog: Catalog, nursery: trio.Nursery) -> None:
        with trio.CancelScope() as gone:
            nursery.start_soon(changes.make, work.change("second"))
            nursery.start_soon(wait_then_cancel, gone)
            await changes.make(work.change("first"))
        assert gone.cancelled_caught
        assert len(work.log) == 1
        work.let.set()
        await wait_all_tasks_blocked()
        first, second = ("first", "second") if work.log[0] == "first begins" else ("second", "first")
        assert work.log == [f"{first} begins", f"{first} ends", f"{second} begins", f"{second} ends"]

    async def wait_then_cancel(scope: trio.CancelScope) -> None:
        await wait_all_tasks_blocked()
        scope.cancel()

    run(body)


@pytest.mark.parametrize(
    "error", [KafkaError(ErrorCode.INVALID_CONFIG, "no"), ZeroDivisionError(), ValueError("too large")]
)
def test_what_fails_fails_for_who_has_asked_and_for_nobody_else(error: Exception) -> None:
    async def body(changes: Changes, work: Work, _catalog: Catalog, _nursery: trio.Nursery) -> None:
        work.let.set()
        with pytest.raises(type(error)) as caught:
            await changes.make(work.change("bad", error))
        assert caught.value is error
        assert await changes.make(work.change("good")) == "good"

    run(body)


def test_what_fails_when_nobody_waits_any_more_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def body(changes: Changes, work: Work, _catalog: Catalog, _nursery: trio.Nursery) -> None:
        with trio.move_on_after(1):
            await changes.make(work.change("bad", ZeroDivisionError()))
        work.let.set()
        await wait_all_tasks_blocked()
        assert await changes.make(work.change("good")) == "good"

    run(body)
    assert "ZeroDivisionError" in caplog.text


def test_what_ends_the_process_ends_it() -> None:
    async def main() -> None:
        changes, work = Changes(Catalog()), Work()
        work.let.set()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(changes.run)
            await wait_all_tasks_blocked()
            with pytest.raises(KafkaError):
                await changes.make(work.change("deposed", Deposed("/lives/L")))

    with pytest.RaisesGroup(Deposed, flatten_subgroups=True):
        trio.run(main)


def test_a_catalog_that_is_away_is_said_before_and_meanwhile() -> None:
    async def body(changes: Changes, work: Work, catalog: Catalog, nursery: trio.Nursery) -> None:
        async def goes_away() -> None:
            await trio.sleep(10)
            catalog.away = "the catalog was not reached"

        nursery.start_soon(goes_away)
        begun = trio.current_time()
        with pytest.raises(KafkaError, match="the change goes on when it does") as meanwhile:
            await changes.make(work.change("first"))
        assert meanwhile.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert trio.current_time() - begun <= 10 + LOOK_SECONDS
        with pytest.raises(KafkaError, match="at present: the catalog was not reached") as before:
            await changes.make(work.change("second"))
        assert before.value.code is ErrorCode.NOT_CONTROLLER
        catalog.away = ""
        work.let.set()
        assert await changes.make(work.change("third")) == "third"
        assert work.log == ["first begins", "first ends", "third begins", "third ends"]

    run(body)


def test_while_nothing_may_be_changed_nothing_begins() -> None:
    async def body(changes: Changes, work: Work, _catalog: Catalog, _nursery: trio.Nursery) -> None:
        work.let.set()
        changes.forbidden = lambda: "the audit cannot be written"
        with pytest.raises(KafkaError, match="nothing may be changed at present: the audit") as raised:
            await changes.make(work.change("a"))
        assert raised.value.code is ErrorCode.POLICY_VIOLATION
        assert work.log == []
        changes.forbidden = lambda: None
        assert await changes.make(work.change("a")) == "a"

    run(body)
