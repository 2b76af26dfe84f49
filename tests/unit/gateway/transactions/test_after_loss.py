"""After a loss that was accepted nothing is open that nobody ends, and nothing is committed in part."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.common.marker import Marker
from gateway.log.idempotence.state import ProducerState
from gateway.log.partition import PartitionState
from gateway.transactions.after_loss import AGAIN_SECONDS, LOADED_SECONDS, AfterLoss, Open
from gateway.transactions.outcomes import Answer
from tests.unit.gateway.transactions.home import START_MS, Home, run
from wireproto.kafka.errors import ErrorCode
from wireproto.records.control import EndMarker

LOST = ("orders", 0)


def partition(*open_ones: tuple[int, int, int], name: tuple[str, int] = LOST) -> Any:
    """One that serves, with open transactions: producer id, epoch, first offset."""
    state = ProducerState()
    for producer_id, epoch, offset in open_ones:
        state.applied(producer_id, epoch, 0, offset, 1, 9, START_MS, is_transactional=True)
    topic, index = name
    return SimpleNamespace(
        topic=SimpleNamespace(name=topic),
        index=index,
        producers=SimpleNamespace(state=state),
        state=PartitionState.READY,
        available=True,
        deleted=False,
    )


class Appends:
    """Takes the markers that are appended here."""

    def __init__(self, *answers: ErrorCode) -> None:
        self.answers = list(answers)
        self.written: list[tuple[tuple[str, int], Marker]] = []

    async def __call__(self, place: tuple[str, int], marker: Marker) -> ErrorCode:
        await trio.lowlevel.checkpoint()
        self.written.append((place, marker))
        return self.answers.pop(0) if self.answers else ErrorCode.NONE


async def end(home: Home, appends: Appends, *partitions: Any, accepted_ms: int | None = None) -> Any:
    at = home.now_ms() if accepted_ms is None else accepted_ms
    found = await AfterLoss(home.coordinator, appends).end(partitions, at)
    await wait_all_tasks_blocked()
    return found


@pytest.mark.parametrize("topic", [True, False], ids=["others-are-known", "no-ids-at-all"])
def test_what_no_coordinator_knows_is_aborted(topic: bool) -> None:
    async def main() -> None:
        home, appends = Home(topic=topic), Appends()
        async with home.running():
            found = await end(home, appends, partition((7, 3, 40), (8, 0, 41)), partition(name=("b", 1)))
            assert found == {LOST: [Open(7, 40), Open(8, 41)]}
            assert appends.written == [(LOST, Marker(7, 3, 0, False)), (LOST, Marker(8, 0, 0, False))]

    run(main)


def test_what_has_lost_a_part_is_aborted_everywhere_by_its_coordinator(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        home, appends = Home(), Appends()
        async with home.running():
            pid, epoch = await home.open()
            assert await end(home, appends, partition((pid, epoch, 40))) == {}
            home.journal.settle()
            await wait_all_tasks_blocked()
            assert home.state() == "CompleteAbort"
            assert appends.written == []
            assert {place for place, _ in home.target.written} == {("orders", 0), ("orders", 1)}
            assert {marker[:4] for _, marker in home.target.written} == {(pid, epoch + 1, 7, False)}
            assert "transactional id t: its transaction has lost a part" in caplog.text
            # Its producer begins again as after a timeout.
            assert (await home.end(pid, epoch)).error is ErrorCode.PRODUCER_FENCED
            assert await home.init() == Answer(ErrorCode.NONE, pid, epoch + 2)

    run(main)


def test_what_is_whole_goes_on() -> None:
    async def main() -> None:
        home, appends = Home(), Appends()
        async with home.running():
            pid, epoch = await home.open()
            assert await end(home, appends, partition((pid, epoch, 40)), accepted_ms=START_MS - 1) == {}
            assert await end(home, appends, partition(name=("others", 0))) == {}
            assert (home.state(), appends.written) == ("Ongoing", [])

    run(main)


def test_ids_are_looked_at_only_for_partitions_where_something_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of which there may be thousands, and 20 ms are needed to look at 100,000 ids."""

    async def main() -> None:
        home, appends = Home(), Appends()
        async with home.running():
            looks: list[object] = []
            loaded = home.coordinator.loaded

            def counted() -> Any:
                looks.append(None)
                return loaded()

            monkeypatch.setattr(home.coordinator, "loaded", counted)
            others = [partition(name=("others", index)) for index in range(50)]
            assert await end(home, appends, partition((7, 3, 40)), *others) == {LOST: [Open(7, 40)]}
            assert len(looks) == 2  # for all that have lost something, and for the one that has one open

    run(main)


def test_what_is_decided_is_carried_out() -> None:
    async def main() -> None:
        home, appends = Home(), Appends()
        async with home.running():
            home.target.go = trio.Event()
            pid, epoch = await home.open()
            assert (await home.end(pid, epoch)).error is ErrorCode.NONE
            assert await end(home, appends, partition((pid, epoch, 40))) == {}
            assert (home.state(), appends.written) == ("PrepareCommit", [])
            home.target.go.set()
            await wait_all_tasks_blocked()
            home.journal.settle()
            assert {marker.is_commit for _, marker in home.target.written} == {True}

    run(main)


def test_what_cannot_be_aborted_now_is_once_the_partition_takes_markers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        home, appends = Home(), Appends(*[ErrorCode.NOT_ENOUGH_REPLICAS] * 3)
        after = AfterLoss(home.coordinator, appends)
        async with home.running():
            home.nursery.start_soon(after.run)
            lost = partition((7, 3, 40), (8, 0, 41))
            assert await after.end([lost], home.now_ms()) == {}
            assert "orders-0: the transaction of producer 7 from offset 40" in caplog.text
            lost.producers.state.ended(8, 0, EndMarker(False, 0), 50, 9, START_MS)  # by somebody's hand
            appended = len(appends.written)
            await trio.sleep(AGAIN_SECONDS * 1.5)
            assert [marker.producer_id for _, marker in appends.written[appended:]] == [7]
            await trio.sleep(AGAIN_SECONDS)
            assert [marker.producer_id for _, marker in appends.written[appended:]] == [7, 7]
            lost.producers.state.ended(7, 3, EndMarker(False, 0), 51, 9, START_MS)
            await trio.sleep(AGAIN_SECONDS * 3)
            assert len(appends.written) == appended + 2
            assert "producer 7 from offset 40 is aborted" in caplog.text

    run(main)


def test_nothing_is_aborted_before_all_ids_are_known(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        home, appends = Home(), Appends()
        home.journal.may_load = trio.Event()
        async with home.running():
            before = trio.current_time()
            assert await end(home, appends, partition((7, 3, 40))) == {}
            assert trio.current_time() - before >= LOADED_SECONDS
            assert appends.written == []
            assert "transactional ids are not loaded" in caplog.text
            home.journal.may_load.set()
            assert await end(home, appends, partition((7, 3, 40))) == {LOST: [Open(7, 40)]}

    run(main)


def test_an_id_that_is_loaded_anew_meanwhile_is_aborted_then() -> None:
    """What is on its way for it when the loss is accepted is lost with the partition of the id."""

    async def main() -> None:
        home, appends = Home(), Appends()
        after = AfterLoss(home.coordinator, appends)
        async with home.running():
            home.nursery.start_soon(after.run)
            pid, epoch = await home.open()
            home.journal.held = True
            await home.begin("add", home.add(pid, epoch, frozenset((("orders", 2),))))
            home.nursery.start_soon(after.end, [partition((pid, epoch, 40))], home.now_ms())
            await wait_all_tasks_blocked()
            home.journal.held = False
            home.journal.on_its_way.clear()
            await home.reload("t")
            await trio.sleep(AGAIN_SECONDS * 2)
            home.journal.settle()
            await wait_all_tasks_blocked()
            assert home.state() == "CompleteAbort"
            assert (await home.end(pid, epoch)).error is ErrorCode.PRODUCER_FENCED

    run(main)


@pytest.mark.parametrize("refused", [True, False], ids=["refused", "on-its-way"])
def test_what_a_coordinator_cannot_write_now_is_aborted_once_it_can(refused: bool) -> None:
    async def main() -> None:
        home, appends = Home(), Appends()
        after = AfterLoss(home.coordinator, appends)
        async with home.running():
            home.nursery.start_soon(after.run)
            pid, epoch = await home.open()
            if refused:
                home.journal.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
            else:
                home.journal.held = True
                await home.begin("add", home.add(pid, epoch, frozenset((("orders", 2),))))
            assert await after.end([partition((pid, epoch, 40))], home.now_ms()) == {}
            assert home.state() == "Ongoing"
            home.journal.refuses, home.journal.held = None, False
            home.journal.settle()
            await trio.sleep(AGAIN_SECONDS * 2)
            home.journal.settle()
            await wait_all_tasks_blocked()
            assert home.state() == "CompleteAbort"
            assert (await home.end(pid, epoch)).error is ErrorCode.PRODUCER_FENCED

    run(main)


def test_what_its_producer_goes_on_with_meanwhile_is_known() -> None:
    """While another marker is on its way, the producer of a transaction that nobody knew begins its next one
    in the same epoch: what it writes joins the one that is open there.
    """

    async def main() -> None:
        home = Home()
        answer = Answer(ErrorCode.NONE)

        async def append(place: tuple[str, int], marker: Marker) -> ErrorCode:
            written.append((place, marker))
            if marker.producer_id == 8:
                added = await home.add(answer.producer_id, answer.producer_epoch, frozenset((LOST,)))
                assert added is ErrorCode.NONE
            return ErrorCode.NONE

        written: list[tuple[tuple[str, int], Marker]] = []
        async with home.running():
            answer = await home.init()
            lost = partition((8, 0, 40), (answer.producer_id, answer.producer_epoch, 41))
            found = await AfterLoss(home.coordinator, append).end([lost], home.now_ms())
            assert found == {LOST: [Open(8, 40)]}
            assert [marker.producer_id for _, marker in written] == [8]
            # Both would be committed together, and what became of the first is not known.
            home.journal.settle()
            await wait_all_tasks_blocked()
            assert home.state() == "CompleteAbort"
            assert {(place, marker.is_commit) for place, marker in home.target.written} == {(LOST, False)}

    run(main)


def test_a_marker_that_is_lost_before_its_transaction_is_complete_is_written_again() -> None:
    async def main() -> None:
        home, appends = Home(), Appends(ErrorCode.NOT_ENOUGH_REPLICAS)
        after = AfterLoss(home.coordinator, appends)
        async with home.running():
            home.nursery.start_soon(after.run)
            home.target.plan["orders", 1] = [ErrorCode.NOT_ENOUGH_REPLICAS] * 100
            pid, epoch = await home.open()
            assert (await home.end(pid, epoch)).error is ErrorCode.NONE
            await trio.sleep(0.01)
            ((place, marker),) = home.target.written
            assert (place, home.state()) == (LOST, "PrepareCommit")
            assert await after.end([partition((pid, epoch, 40))], home.now_ms()) == {}
            await trio.sleep(AGAIN_SECONDS * 1.5)
            assert appends.written == [(LOST, marker)] * 2
            assert marker.is_commit

    run(main)


def test_where_coordinators_have_lost_something_what_they_do_not_know_is_aborted_everywhere() -> None:
    """And nothing else: what is known has lost nothing in the other partitions."""

    async def main() -> None:
        home, appends = Home(), Appends()
        async with home.running():
            pid, epoch = await home.open()
            whole = partition((pid, epoch, 40), (8, 0, 41))
            found = await AfterLoss(home.coordinator, appends).end([partition(name=("b", 1))], 9, [whole])
            assert found == {LOST: [Open(8, 41)]}
            assert appends.written == [(LOST, Marker(8, 0, 0, False))]
            assert home.state() == "Ongoing"

    run(main)


def test_what_a_second_loss_finds_does_not_hide_what_the_first_one_has_lost() -> None:
    async def main() -> None:
        home, appends = Home(), Appends()
        after = AfterLoss(home.coordinator, appends)
        async with home.running():
            home.nursery.start_soon(after.run)
            pid, epoch = await home.open()
            lost = partition((pid, epoch, 40))
            home.journal.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert await after.end([lost], home.now_ms()) == {}
            lost.available = False
            assert await after.end([partition(name=("b", 1))], home.now_ms(), [lost]) == {}
            home.journal.refuses, lost.available = None, True
            await trio.sleep(AGAIN_SECONDS * 2)
            home.journal.settle()
            await wait_all_tasks_blocked()
            assert home.state() == "CompleteAbort"

    run(main)


@pytest.mark.parametrize("lost", [True, False], ids=["has-lost-something", "others"])
def test_where_a_commit_is_refused_later_what_is_open_is_aborted(lost: bool) -> None:
    """A later transaction than the one that its coordinator still knows."""

    async def main() -> None:
        home, appends = Home(), Appends()
        after = AfterLoss(home.coordinator, appends)
        async with home.running():
            home.nursery.start_soon(after.run)
            home.target.go = trio.Event()
            pid, epoch = await home.open()
            assert (await home.end(pid, epoch, version=2)).error is ErrorCode.NONE
            refusing = [ErrorCode.NOT_ENOUGH_REPLICAS] * 3 + [ErrorCode.INVALID_PRODUCER_EPOCH]
            home.target.plan[LOST] = refusing
            later = partition((pid, epoch + 1, 40))
            home.coordinator.lost_end(home.partition("t").index)
            await wait_all_tasks_blocked()
            await after.end([later] if lost else [], home.now_ms(), [] if lost else [later])
            home.target.go.set()
            await trio.sleep(20)
            home.journal.settle()
            await trio.sleep(AGAIN_SECONDS * 2)
            assert home.state() == "CompleteCommit"
            assert appends.written[0] == (LOST, Marker(pid, epoch + 1, 0, False))
            assert {place for place, _ in home.target.written} == {("orders", 1)}

    run(main)


@pytest.mark.parametrize("loaded", [True, False], ids=["partition", "ids"])
def test_what_serves_later_is_looked_at_then(loaded: bool) -> None:
    async def main() -> None:
        home, appends = Home(), Appends()
        home.journal.may_load = trio.Event()
        after = AfterLoss(home.coordinator, appends)
        later, deleted, moved = (partition((7, 3, 40), name=(name, 0)) for name in "abc")
        later.available = deleted.available = moved.available = not loaded
        if loaded:
            home.journal.may_load.set()
        async with home.running():
            home.nursery.start_soon(after.run)
            assert await after.end([later, deleted, moved], home.now_ms()) == {}
            deleted.available, deleted.deleted = False, True
            moved.available, moved.state = False, PartitionState.ELSEWHERE
            await trio.sleep(AGAIN_SECONDS * 2)
            assert appends.written == []
            later.available = True
            home.journal.may_load.set()
            await trio.sleep(AGAIN_SECONDS * 2)
            assert appends.written == [(("a", 0), Marker(7, 3, 0, False))]
            moved.available, moved.state = True, PartitionState.READY  # it may have been ended elsewhere
            await trio.sleep(AGAIN_SECONDS * 2)
            assert len(appends.written) == 1

    run(main)


def test_nothing_is_known_before_the_coordinator_runs() -> None:
    async def main() -> None:
        home = Home()
        assert not home.coordinator.has_everything
        async with home.running():
            assert home.coordinator.has_everything
            home.move("t", here=False)
            assert not home.coordinator.has_everything
        assert not home.coordinator.has_everything

    run(main)
