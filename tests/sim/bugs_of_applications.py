"""Bugs of coordination, verification and offsets in transactions: each planted for the time of a schedule,
none of them in the product. A schedule with programs that work exactly once finds each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from gateway.groups.offsets import OffsetTable
from gateway.groups.pending_offsets import PendingOffsets
from gateway.groups.replay import Replay
from gateway.groups.transactional import TransactionalOffsets
from gateway.log.idempotence.guards import Guards
from gateway.produce.verification import Verification
from gateway.transactions import ending, initialising, machine
from gateway.transactions.coordinator import Entered, TransactionCoordinator
from gateway.transactions.markers import GIVES_UP, Ending, Markers
from gateway.transactions.metadata import TransactionMetadata, TransactionState
from gateway.transactions.outcomes import Answer, Outcome, Write
from gateway.transactions.served import Transaction
from wireproto.kafka.errors import ErrorCode

Plant = Callable[[], AbstractContextManager[object]]


@contextmanager
def _epoch_not_bumped_at_fencing() -> Iterator[None]:
    """Who is fenced has the epoch that the next one goes on with."""
    fence = ending.fence

    def gentle(known: TransactionMetadata, *arguments: Any, **more: Any) -> Outcome:
        outcome = fence(known, *arguments, **more)
        if isinstance(outcome, Write) and outcome.metadata is not None:
            return Write(replace(outcome.metadata, producer_epoch=known.producer_epoch), outcome.answer)
        return outcome

    next_epoch = initialising._next

    def same(known: TransactionMetadata, *arguments: Any, **more: Any) -> Outcome:
        outcome = next_epoch(known, *arguments, **more)
        if isinstance(outcome, Write) and outcome.metadata is not None:
            metadata = replace(outcome.metadata, producer_epoch=known.producer_epoch)
            return Write(metadata, Answer(ErrorCode.NONE, metadata.producer_id, metadata.producer_epoch))
        return outcome

    with (
        patch.object(machine, "fence", gentle),
        patch.object(initialising, "fence", gentle),
        patch.object(initialising, "_next", same),
    ):
        yield


def _epoch_not_bumped_at_a_time_out() -> AbstractContextManager[object]:
    """The producer whose transaction took too long goes on, in another one."""
    fence = ending.fence

    def gentle(known: TransactionMetadata, *arguments: Any, **more: Any) -> Outcome:
        outcome = fence(known, *arguments, **more)
        if isinstance(outcome, Write) and outcome.metadata is not None:
            metadata = replace(
                outcome.metadata, producer_epoch=known.producer_epoch, next_producer_id=-1, client_version=0
            )
            return Write(metadata, outcome.answer)
        return outcome

    return patch.object(machine, "fence", gentle)


def _pending_offset_shown_early() -> AbstractContextManager[object]:
    add = OffsetTable.add_in_transaction

    def hasty(self: OffsetTable, producer_id: int, offsets: Mapping[Any, Any], *, durable: bool) -> None:
        add(self, producer_id, offsets, durable=durable)
        for key, offset in offsets.items() if durable else ():
            self.put(key[0], key[1], offset)

    return patch.object(OffsetTable, "add_in_transaction", hasty)


def _pending_offsets_are_stable() -> AbstractContextManager[object]:
    """Who wants a stable offset is told of the one before, while a transaction has another."""
    return patch.object(PendingOffsets, "is_unstable", lambda *_: False)


def _pending_offset_lost_at_a_reload() -> AbstractContextManager[object]:
    return patch.object(Replay, "_take_pending", lambda _self: iter(()))


def _any_marker_ends_offsets() -> AbstractContextManager[object]:
    """A marker that came before, and comes again, ends the offsets of the next transaction."""
    begin_end = TransactionalOffsets.begin_end

    def eager(self: TransactionalOffsets, partition: int, marker: Any) -> Any:
        pending = begin_end(self, partition, marker)
        self.ended(partition, marker)
        return pending

    return patch.object(TransactionalOffsets, "begin_end", eager)


def _guard_ignored() -> AbstractContextManager[object]:
    """What a coordinator said counts, whatever has happened to the producer in the partition meanwhile."""
    return patch.object(Guards, "holds", lambda *_: True)


@contextmanager
def _verification_not_asked() -> Iterator[None]:
    """A batch may begin a transaction of which its coordinator knows nothing."""
    with (
        patch.object(Verification, "is_needed", False),
        patch.object(Verification, "_check", lambda *_: None),
    ):
        yield


def _answered_before_it_is_durable() -> AbstractContextManager[object]:
    async def at_once(_self: TransactionCoordinator, entered: Entered) -> Answer:
        return entered.answer

    return patch.object(TransactionCoordinator, "answer", at_once)


@contextmanager
def _markers_forgotten_on_load() -> Iterator[None]:
    loaded, begin_to_end = TransactionCoordinator._loaded, Transaction.begin_to_end
    loading: list[object] = []

    async def forgetful(self: TransactionCoordinator, *arguments: Any) -> None:
        loading.append(self)
        try:
            await loaded(self, *arguments)
        finally:
            loading.pop()

    def begins(self: Transaction, metadata: TransactionMetadata) -> None:
        if not loading:
            begin_to_end(self, metadata)

    with (
        patch.object(TransactionCoordinator, "_loaded", forgetful),
        patch.object(Transaction, "begin_to_end", begins),
    ):
        yield


def _markers_before_the_decision_is_durable() -> AbstractContextManager[object]:
    start = Transaction.start

    def hasty(self: Transaction) -> None:
        start(self)
        pending = self.machine.pending
        if pending is not None and pending.metadata is not None and pending.metadata.is_prepared:
            self.begin_to_end(pending.metadata)

    return patch.object(Transaction, "start", hasty)


def _complete_with_a_marker_missing() -> AbstractContextManager[object]:
    """One partition whose leader does not take its marker at once gets none."""
    take = Markers._take

    def impatient(self: Markers, line: Any, ending: Ending, error: ErrorCode | None) -> None:
        passes = error is not None and error not in GIVES_UP
        take(self, line, ending, ErrorCode.NONE if passes else error)

    return patch.object(Markers, "_take", impatient)


def _what_was_prepared_is_aborted_on_load() -> AbstractContextManager[object]:
    """A coordinator that finds a commit which was decided, and not complete, aborts it."""
    loaded = TransactionCoordinator._loaded

    async def timid(self: TransactionCoordinator, index: int, found: Any, is_old: Any) -> None:
        for name, one in found.transactions.items():
            if one.metadata.is_prepared:
                aborted = replace(one.metadata, state=TransactionState.PREPARE_ABORT)
                found.transactions[name] = one._replace(metadata=aborted)
        await loaded(self, index, found, is_old)

    return patch.object(TransactionCoordinator, "_loaded", timid)


def _partitions_of_the_load_forgotten() -> AbstractContextManager[object]:
    """What a transaction had when its coordinator was loaded gets no marker."""
    loaded = TransactionCoordinator._loaded

    async def forgetful(self: TransactionCoordinator, index: int, found: Any, is_old: Any) -> None:
        for name, one in found.transactions.items():
            fewer = replace(one.metadata, partitions=frozenset(sorted(one.metadata.partitions)[1:]))
            found.transactions[name] = one._replace(metadata=fewer)
        await loaded(self, index, found, is_old)

    return patch.object(TransactionCoordinator, "_loaded", forgetful)


APPLICATION_BUGS: dict[str, Plant] = {
    "epoch not bumped at fencing": _epoch_not_bumped_at_fencing,
    "epoch not bumped at a time-out": _epoch_not_bumped_at_a_time_out,
    "pending offset shown early": _pending_offset_shown_early,
    "pending offsets are stable": _pending_offsets_are_stable,
    "pending offset lost at a reload": _pending_offset_lost_at_a_reload,
    "any marker ends offsets": _any_marker_ends_offsets,
    "verification guard ignored": _guard_ignored,
    "verification not asked": _verification_not_asked,
    "answered before it is durable": _answered_before_it_is_durable,
    "markers forgotten on load": _markers_forgotten_on_load,
    "markers before the decision is durable": _markers_before_the_decision_is_durable,
    "complete with a marker missing": _complete_with_a_marker_missing,
    "a decided commit is aborted on load": _what_was_prepared_is_aborted_on_load,
    "partitions forgotten on load": _partitions_of_the_load_forgotten,
}

WITH_CRASHES = frozenset(
    {
        "epoch not bumped at a time-out",
        "pending offset lost at a reload",
        "any marker ends offsets",
        "markers before the decision is durable",
    }
)
"""Schedules in which the gateway is killed again and again, and all else is quick, show these."""

OF_GATEWAYS = frozenset({"complete with a marker missing"})
"""Schedules of several gateways, whose leaders move, show these."""

HURRIED = frozenset({"verification guard ignored"})
"""Schedules in which batches that were given up come when their transaction is being ended show these."""
