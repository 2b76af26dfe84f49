"""Transactions in the state of producers: what opens one, what ends it, and who is never forgotten."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from gateway.common.clients import NOBODY
from gateway.log.idempotence.producer import FEW, FEW_PRODUCERS, MAX_SEQUENCE, SPARED_MS
from gateway.log.idempotence.sequences import Duplicate
from gateway.log.idempotence.state import PRODUCER_ID_EXPIRATION_MS, ProducerState
from gateway.log.transactions.aborted import AbortedTransaction
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.control import EndMarker
from wireproto.records.row import Row

NOW = 1_700_000_000_000
PID = 4000

GAP = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
FENCED = ErrorCode.INVALID_PRODUCER_EPOCH
OUTSIDE = ErrorCode.INVALID_TXN_STATE


class Sent(NamedTuple):
    """A batch as a producer sends it."""

    sequence: int
    records: int = 1
    epoch: int = 0
    plain: bool = False
    """Not transactional."""


class Ended(NamedTuple):
    """A marker as a coordinator sends it."""

    epoch: int = 0
    is_commit: bool = True
    coordinator_epoch: int = 3


Answer = int | Duplicate | ErrorCode | AbortedTransaction | None


class Log:
    """A partition that appends what its producer state lets through, and every marker."""

    def __init__(self, max_producers: int = 2000) -> None:
        self.state = ProducerState(max_producers=max_producers)
        self.end = 0

    def take(self, what: Sent | Ended, producer_id: int = PID) -> Answer:
        return self.send(what, producer_id) if isinstance(what, Sent) else self.mark(what, producer_id)

    def send(
        self, sent: Sent, producer_id: int = PID, client: str = NOBODY, now_ms: int = NOW
    ) -> int | Duplicate | ErrorCode:
        """The base offset it got, or where it already is, or the error."""
        sequence, records, epoch, plain = sent
        try:
            found = self.state.check(producer_id, epoch, sequence, records, is_transactional=not plain)
        except KafkaError as error:
            return error.code
        if found is not None:
            return found
        base, self.end = self.end, self.end + records
        self.state.applied(
            producer_id, epoch, sequence, self.end - 1, records, base, now_ms, client,
            is_transactional=not plain,
        )  # fmt: skip
        return base

    def mark(self, ended: Ended, producer_id: int = PID, now_ms: int = NOW) -> AbortedTransaction | None:
        """What it has aborted."""
        self.end += 1
        marker = EndMarker(ended.is_commit, ended.coordinator_epoch)
        return self.state.ended(producer_id, ended.epoch, marker, self.end - 1, self.end - 1, now_ms)

    def room(self, producer_id: int, client: str, now_ms: int = NOW) -> str:
        return self.state.why_no_room(producer_id, now_ms, client, is_short=False)

    @property
    def known(self) -> list[int]:
        return sorted(self.state._producers)


OPEN = [Sent(0, 3), Sent(3, 2)]

# name: what comes of one producer, then what the last of it is answered.
CASES: dict[str, tuple[list[Sent | Ended], Answer]] = {
    "a batch outside of the open transaction": ([*OPEN, Sent(5, plain=True)], OUTSIDE),
    "a batch outside of it, of a new epoch": ([*OPEN, Sent(0, epoch=1, plain=True)], OUTSIDE),
    "one that is there already, outside or not": ([*OPEN, Sent(3, 2, plain=True)], Duplicate(3, 4, 3)),
    "the same again": ([*OPEN, Sent(0, 3)], Duplicate(0, 2, 0)),
    "a gap comes first": ([*OPEN, Sent(6, plain=True)], GAP),
    "an old epoch comes first": ([Sent(0, epoch=2), Sent(1, epoch=1, plain=True)], FENCED),
    "a transaction after plain batches": ([Sent(0, plain=True), Sent(1)], 1),
    "plain batches behind the marker": ([*OPEN, Ended(), Sent(5, plain=True)], 6),
    "the next transaction of the same epoch": ([*OPEN, Ended(), Sent(5)], 6),
    "a gap behind the marker": ([*OPEN, Ended(), Sent(6)], GAP),
    "from 0 again in the same epoch": ([*OPEN, Ended(), Sent(0)], GAP),
    "a duplicate behind the marker": ([*OPEN, Ended(), Sent(3, 2)], Duplicate(3, 4, 3)),
    "the marker's epoch begins at 0": ([*OPEN, Ended(1), Sent(0, epoch=1)], 6),
    "the marker's epoch goes not on": ([*OPEN, Ended(1), Sent(5, epoch=1)], GAP),
    "the marker's epoch fences the last one": ([*OPEN, Ended(1), Sent(5)], FENCED),
    "it fences duplicates, too": ([*OPEN, Ended(1), Sent(3, 2)], FENCED),
    "what is duplicated in the marker's epoch": (
        [*OPEN, Ended(1), Sent(0, 2, epoch=1), Sent(0, 2, epoch=1)],
        Duplicate(6, 7, 6),
    ),
    "an epoch behind the marker's begins at 0": ([*OPEN, Ended(1), Sent(0, epoch=2)], 6),
    "an epoch behind the marker's does not go on": ([*OPEN, Ended(1), Sent(5, epoch=2)], GAP),
    "known by a marker alone: from 0": ([Ended(4), Sent(0, epoch=4)], 1),
    "known by a marker alone: from anywhere": ([Ended(4), Sent(7, epoch=4)], GAP),
    "known by a marker alone: an older epoch": ([Ended(4), Sent(0, epoch=3)], FENCED),
    "known by a marker alone: a later epoch": ([Ended(4), Sent(0, epoch=5)], 1),
    "a marker of an older epoch leaves the later one": ([Sent(0, epoch=2), Ended(1), Sent(1, epoch=2)], 2),
    "over the largest sequence": ([Sent(MAX_SEQUENCE), Sent(0), Ended(), Sent(1)], 3),
    "a commit aborts nothing": ([*OPEN, Ended(is_commit=True)], None),
    "an abort": ([*OPEN, Ended(is_commit=False)], AbortedTransaction(PID, 0, 5, 6)),
    "an abort of a later epoch": ([*OPEN, Ended(1, is_commit=False)], AbortedTransaction(PID, 0, 5, 6)),
    "an abort of an older epoch": (
        [Sent(0, epoch=2), Ended(1, is_commit=False)],
        AbortedTransaction(PID, 0, 1, 2),
    ),
    "an abort of what went on in a new epoch": (
        [*OPEN, Sent(0, epoch=1), Ended(1, is_commit=False)],
        AbortedTransaction(PID, 0, 6, 7),
    ),
    "an abort of nothing": ([Ended(is_commit=False)], None),
    "an abort of plain batches": ([Sent(0, plain=True), Ended(is_commit=False)], None),
    "an abort again": ([*OPEN, Ended(is_commit=False), Ended(is_commit=False)], None),
    "an abort of the next one": (
        [*OPEN, Ended(is_commit=False), Sent(5), Ended(is_commit=False)],
        AbortedTransaction(PID, 6, 7, 8),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_answered(name: str) -> None:
    events, expected = CASES[name]
    log = Log()
    answers = [log.take(event) for event in events]
    assert answers[-1] == expected
    assert all(not isinstance(answer, ErrorCode) for answer in answers[:-1]), "only the last may be refused"


def test_the_error_says_what_is_wrong() -> None:
    log = Log()
    log.send(Sent(0))
    with pytest.raises(KafkaError, match="producer 4000 has an open transaction, and sent a batch outside"):
        log.state.check(PID, 0, 1, 1)


def test_what_is_known_of_a_producer_behind_its_marker() -> None:
    log = Log()
    log.send(Sent(0, 3))
    known = log.state.find(PID)
    assert known is not None
    assert (known.first_offset, known.coordinator_epoch, known.last_sequence) == (0, -1, 2)
    log.mark(Ended(epoch=1, coordinator_epoch=7), now_ms=NOW + 5)
    assert (known.epoch, known.first_offset, known.coordinator_epoch) == (1, -1, 7)
    assert (known.last_sequence, known.last_offset, known.timestamp, known.used_ms) == (-1, 3, 3, NOW + 5)
    log.send(Sent(0, epoch=1))
    log.mark(Ended(epoch=1, coordinator_epoch=8))
    assert (known.coordinator_epoch, known.last_sequence) == (8, 0), (
        "a marker of its epoch leaves its batches"
    )


def test_which_are_open_and_from_where() -> None:
    """As the aborted list and a new segment need it: not the ones that ended, durably or not."""
    log = Log()
    for producer_id in (1, 2, 3):
        log.send(Sent(0, 2), producer_id)
    log.send(Sent(2), 1)
    log.send(Sent(0, plain=True), 4)
    assert log.state.open_transactions() == {1: 0, 2: 2, 3: 4}
    assert log.mark(Ended(is_commit=False), 2) == AbortedTransaction(2, 2, 8, 0), "an older one is open"
    assert log.mark(Ended(is_commit=False), 1) == AbortedTransaction(1, 0, 9, 4), "a younger one is open"
    assert log.state.open_transactions() == {3: 4}
    assert log.mark(Ended(is_commit=False), 3) == AbortedTransaction(3, 4, 10, 11), "none is"
    assert log.state.open_transactions() == {}
    assert (log.state.transactions.first_open(), bool(log.state.transactions)) == (None, True)


# who is forgotten -----------------------------------------------------------------------------------------


def test_who_has_an_open_transaction_does_not_expire() -> None:
    log = Log()
    log.send(Sent(0), 1)
    log.send(Sent(0, plain=True), 2)
    log.mark(Ended(), 3)
    much_later = NOW + 10 * PRODUCER_ID_EXPIRATION_MS
    assert [one[0] for one in log.state.active(much_later)] == [1]
    assert log.state.remove_expired(much_later) == 2
    assert log.known == [1]
    log.mark(Ended(), 1, now_ms=much_later)
    assert log.state.remove_expired(much_later + PRODUCER_ID_EXPIRATION_MS - 1) == 0
    assert log.state.remove_expired(much_later + PRODUCER_ID_EXPIRATION_MS) == 1, "a day after its marker"


def test_who_has_an_open_transaction_is_never_forgotten_for_others() -> None:
    log = Log(max_producers=3)
    log.send(Sent(0), 1, "a")
    log.send(Sent(0), 2, "a")
    log.send(Sent(0, plain=True), 3, "a")
    for number in range(4, 9):
        log.send(Sent(0, plain=True), number, "a", NOW + SPARED_MS)
        assert log.known == [1, 2, number], "its own, and then who was idle for long"
    log.mark(Ended(), 1)
    log.send(Sent(0, plain=True), 9, "a", NOW + SPARED_MS)
    assert log.known == [1, 2, 9], "its marker was heard after the others"
    log.send(Sent(0, plain=True), 10, "a", NOW + SPARED_MS)
    assert log.known == [2, 9, 10], "once it has ended it may go"


def test_a_transaction_that_must_be_is_remembered_beyond_the_bound() -> None:
    """What is read back from the log: nobody may be forgotten, and nobody may be left out."""
    state = ProducerState(max_producers=2)
    for producer_id in range(4):
        row = Row(producer_id, producer_id, NOW, NOW, producer_id, 0, 0, 0x10, 100)
        state.apply_row(row, NOW)
    assert state.open_transactions() == {0: 0, 1: 1, 2: 2, 3: 3}
    state.apply_row(Row(4, 4, NOW, NOW, 9, 0, 0, 0, 100), NOW)
    assert 9 not in state


def test_a_transaction_of_one_that_is_idle_takes_it_out_of_who_may_go() -> None:
    log = Log(max_producers=2)
    log.send(Sent(0, plain=True), 1, "a")
    log.send(Sent(0, plain=True), 2, "a")
    log.send(Sent(0, plain=True), 3, "a")  # full, and somebody was forgotten
    assert log.known == [2, 3]
    log.send(Sent(1), 2, "a")
    log.send(Sent(0, plain=True), 4, "a")
    assert log.known == [2, 4]
    log.send(Sent(1), 4, "a")
    assert log.room(5, "a") != ""
    assert log.send(Sent(0, plain=True), 5, "a") == log.end - 1, "it is taken, and not remembered"
    assert log.known == [2, 4]


def test_a_marker_of_an_unknown_producer_is_remembered_if_there_is_room() -> None:
    log = Log(max_producers=2)
    assert log.mark(Ended(epoch=5, coordinator_epoch=7, is_commit=False), 1) is None
    log.send(Sent(0, plain=True), 2)
    log.mark(Ended(), 3)
    assert log.known == [1, 2], "nobody is forgotten for it"
    known = log.state.find(1)
    assert known is not None
    assert (known.epoch, known.coordinator_epoch, known.last_sequence, known.last_offset) == (5, 7, -1, 0)
    assert (known.client, known.has_open, known.used_ms) == (NOBODY, False, NOW)


# room for a transaction -----------------------------------------------------------------------------------


def test_who_opens_a_transaction_has_it_whoever_its_producer_was_first() -> None:
    """Else one could open them all through producers of others', or of an earlier life's."""
    log = Log(max_producers=8)
    for producer_id in range(8):
        log.send(Sent(0, plain=True), producer_id, "maker")
    began = 0
    while not log.room(began, "greedy"):
        log.send(Sent(1), began, "greedy")
        began += 1
    assert began == 4
    assert log.room(4, "other") == ""
    for producer_id in range(4):
        log.mark(Ended(), producer_id)
    assert log.room(4, "greedy") == "", "what has ended is given back by who had it"


def test_unknown_producers_of_markers_are_few() -> None:
    log = Log()
    for producer_id in range(100):
        log.mark(Ended(), producer_id)
    charged: dict[str, int] = {}
    log.state.charge_to(lambda whose, more: charged.update({whose: charged.get(whose, 0) + more}))
    assert charged == {FEW: FEW_PRODUCERS}


def test_a_client_begins_no_more_than_its_share_of_a_partitions_transactions() -> None:
    log = Log(max_producers=8)
    began = 0
    while not log.room(began, "greedy"):
        log.send(Sent(0), began, "greedy")
        began += 1
    assert began == 4, "half of what others leave"
    assert log.room(4, "greedy") == "4 transactions are open here, 4 of this client: no more may be"
    assert log.room(3, "greedy") == "", "who has one goes on with it"
    log.mark(Ended(), 3)
    assert log.room(3, "greedy") == "", "what has ended is given back"
    assert log.room(10, "another") == ""
    log.send(Sent(0), 10, "another")
    assert log.room(3, "greedy") == "4 transactions are open here, 3 of this client: no more may be"


def test_a_transaction_is_refused_where_nobody_can_be_forgotten_for_its_producer() -> None:
    log = Log(max_producers=5)
    for number, client in enumerate(("a", "b", "c", "d", "e")):
        log.send(Sent(0, plain=number > 1), number, client)
    assert log.room(9, "new") == "5 producers are known here: none can be forgotten for another one"
    assert log.room(4, "e") == "", "who is known takes no place"
    assert log.room(9, "e") == "", "its own goes for it"
    assert log.room(9, "new", NOW + SPARED_MS) == "", "somebody was idle for long"
    assert log.known == [0, 1, 2, 3, 4], "to ask changes nothing"


def test_who_has_all_that_it_may_have_of_the_whole_gateway_begins_with_its_own() -> None:
    log = Log()
    for number in range(FEW_PRODUCERS):
        assert log.state.why_no_room(number, NOW, "a", is_short=True) == ""
        log.send(Sent(0), number, "a")
    refused = log.state.why_no_room(FEW_PRODUCERS, NOW, "a", is_short=True)
    assert refused == f"{FEW_PRODUCERS} producers are known here: none can be forgotten for another one"
    log.mark(Ended(), 0)
    assert log.state.why_no_room(FEW_PRODUCERS, NOW, "a", is_short=True) == ""


# read back ------------------------------------------------------------------------------------------------


def test_rows_of_markers_and_transactional_batches() -> None:
    state = ProducerState()
    rows = [
        Row(0, 2, 50, 50, 7, 1, 0, 0x10, 100),
        Row(3, 3, 60, 60, 7, 2, 9, 0x0130, 78),  # an abort of coordinator epoch 9
        Row(4, 4, 70, 70, 7, 2, -1, 0x30, 78),  # a control batch that ends nothing
        Row(5, 6, 80, 80, 7, 2, 0, 0x10, 100),
        Row(7, 7, 90, 90, 7, 2, 9, 0x0230, 78),  # a commit
        Row(8, 8, 95, 95, -1, -1, 9, 0x0230, 78),  # of nobody
    ]
    answers = [state.apply_row(row, NOW) for row in rows]
    assert answers == [None, AbortedTransaction(7, 0, 3, 4), None, None, None, None]
    known = state.find(7)
    assert known is not None
    assert (known.epoch, known.coordinator_epoch, known.has_open) == (2, 9, False)
    assert (known.last_sequence, known.last_offset, known.timestamp) == (1, 7, 90)
    assert [state.apply_row(row, NOW) for row in rows] == [None] * 6, "they are covered"
    assert (known.last_offset, state.count, bool(state.open_transactions())) == (7, 1, False)


def test_what_was_open_is_charged_to_nobodys_share() -> None:
    state = ProducerState(max_producers=4)
    for producer_id in range(3):
        state.applied(producer_id, 0, 0, producer_id, 1, 0, NOW, "a", is_transactional=True)
    read = ProducerState.from_snapshot(state.snapshot(NOW), NOW, max_producers=4)
    assert read.why_no_room(9, NOW, "a", is_short=False) != "", "half of one place is none"
    for producer_id in range(2):
        read.ended(producer_id, 0, EndMarker(is_commit=True, coordinator_epoch=0), 10 + producer_id, 0, NOW)
    assert read.why_no_room(9, NOW, "a", is_short=False) == ""
