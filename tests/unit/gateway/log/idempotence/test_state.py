"""The rules for idempotent producers, from what Kafka 4.3.1 answered to raw requests."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.common.clients import NOBODY
from gateway.log.idempotence.producer import (
    FEW_PRODUCERS,
    MAX_PRODUCERS,
    MAX_SEQUENCE,
    SPARED_MS,
    Producer,
    advance_sequence,
    sequence_after,
)
from gateway.log.idempotence.sequences import Duplicate
from gateway.log.idempotence.state import PRODUCER_ID_EXPIRATION_MS, ProducerState
from wireproto.kafka.errors import ErrorCode, KafkaError

NOW = 1_700_000_000_000
PID = 4000


class Sent(NamedTuple):
    """A batch as a producer sends it."""

    epoch: int
    sequence: int
    records: int


class Log:
    """A partition that appends what its producer state lets through."""

    def __init__(self, state: ProducerState | None = None) -> None:
        self.state = state or ProducerState()
        self.end = 0

    def send(
        self,
        sent: Sent,
        producer_id: int = PID,
        now_ms: int = NOW,
        client: str = NOBODY,
        *,
        is_short: bool = False,
    ) -> int | Duplicate | ErrorCode:
        """The base offset it got, or where it already is, or the error."""
        try:
            duplicate = self.state.check(producer_id, sent.epoch, sent.sequence, sent.records)
        except KafkaError as error:
            return error.code
        if duplicate is not None:
            return duplicate
        base = self.end
        self.end += sent.records
        self.state.applied(
            producer_id,
            sent.epoch,
            sent.sequence,
            self.end - 1,
            sent.records,
            timestamp_of(base),
            now_ms,
            client,
            is_short=is_short,
        )
        return base


def timestamp_of(base_offset: int) -> int:
    return 1_000_000 + base_offset


def duplicate(base_offset: int, count: int) -> Duplicate:
    return Duplicate(base_offset, base_offset + count - 1, timestamp_of(base_offset))


GAP = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
FENCED = ErrorCode.INVALID_PRODUCER_EPOCH

# name: batches of one producer, then what the last of them is answered.
CASES: dict[str, tuple[list[Sent], int | Duplicate | ErrorCode]] = {
    "first batch at 0": ([Sent(0, 0, 3)], 0),
    "first batch of an unknown producer anywhere": ([Sent(0, 100, 3)], 0),
    "first batch of an unknown producer with any epoch": ([Sent(7, 100, 3)], 0),
    "the next one": ([Sent(0, 0, 3), Sent(0, 3, 2)], 3),
    "a gap": ([Sent(0, 0, 3), Sent(0, 4, 2)], GAP),
    "a gap after beginning anywhere": ([Sent(0, 100, 3), Sent(0, 104, 2)], GAP),
    "the last one again": ([Sent(0, 0, 3), Sent(0, 3, 2), Sent(0, 3, 2)], duplicate(3, 2)),
    "the fifth last again": ([*[Sent(0, n, 1) for n in range(6)], Sent(0, 1, 1)], duplicate(1, 1)),
    "the sixth last again": ([*[Sent(0, n, 1) for n in range(6)], Sent(0, 0, 1)], GAP),
    "the same start, fewer records": ([Sent(0, 0, 3), Sent(0, 0, 2)], GAP),
    "the same start, more records": ([Sent(0, 0, 3), Sent(0, 0, 4)], GAP),
    "the end of the last one": ([Sent(0, 0, 3), Sent(0, 1, 2)], GAP),
    "two batches as one": ([Sent(0, 0, 3), Sent(0, 3, 2), Sent(0, 0, 5)], GAP),
    "from 0 again in the same epoch": ([Sent(0, 0, 3), Sent(0, 3, 2), Sent(0, 0, 1)], GAP),
    "a new epoch from 0": ([Sent(0, 0, 3), Sent(1, 0, 2)], 3),
    "a new epoch, skipping some, from 0": ([Sent(0, 0, 3), Sent(5, 0, 2)], 3),
    "a new epoch that goes on counting": ([Sent(0, 0, 3), Sent(1, 3, 2)], GAP),
    "the new epoch's next": ([Sent(0, 0, 3), Sent(1, 0, 2), Sent(1, 2, 1)], 5),
    "the new epoch's again": ([Sent(0, 0, 3), Sent(1, 0, 3), Sent(1, 0, 3)], duplicate(3, 3)),
    "an old epoch's next": ([Sent(0, 0, 3), Sent(1, 0, 2), Sent(0, 3, 1)], FENCED),
    "an old epoch's duplicate": ([Sent(0, 0, 3), Sent(1, 0, 2), Sent(0, 0, 3)], FENCED),
    "up to the largest sequence, then 0": ([Sent(0, MAX_SEQUENCE - 1, 2), Sent(0, 0, 2)], 2),
    "over the largest sequence": ([Sent(0, MAX_SEQUENCE, 3), Sent(0, 2, 1)], 3),
    "over the largest sequence again": (
        [Sent(0, MAX_SEQUENCE, 3), Sent(0, 2, 1), Sent(0, MAX_SEQUENCE, 3)],
        duplicate(0, 3),
    ),
    "a gap after the largest sequence": ([Sent(0, MAX_SEQUENCE, 1), Sent(0, 1, 1)], GAP),
    "an id without a sequence": ([Sent(0, -1, 1)], ErrorCode.INVALID_RECORD),
    "an epoch below none": ([Sent(-2, 0, 1)], FENCED),
    "no epoch: any sequence": ([Sent(-1, 0, 1), Sent(-1, 9, 1)], 1),
    "no epoch: the same again": ([Sent(-1, 0, 1), Sent(-1, 0, 1)], duplicate(0, 1)),
    "an epoch after none: any sequence": ([Sent(-1, 0, 1), Sent(3, 9, 1)], 1),
}


@pytest.mark.parametrize("name", CASES)
def test_what_kafka_answers(name: str) -> None:
    batches, expected = CASES[name]
    log = Log()
    answers = [log.send(batch) for batch in batches]
    assert answers[-1] == expected
    assert all(isinstance(answer, int) for answer in answers[:-1]), "only the last may be refused"


def test_a_batch_without_producer_id_is_never_refused_nor_kept() -> None:
    log = Log()
    assert [log.send(Sent(-1, -1, 2), producer_id=-1) for _ in range(3)] == [0, 2, 4]
    assert log.state.count == 0


def test_a_refused_batch_changes_nothing() -> None:
    log = Log()
    log.send(Sent(3, 0, 3))
    before = log.state.snapshot(NOW)
    for refused in (Sent(3, 9, 1), Sent(2, 3, 1), Sent(4, 1, 1), Sent(3, 0, 3)):
        log.send(refused)
        assert log.state.snapshot(NOW) == before
    assert log.send(Sent(3, 3, 1)) == 3


def test_producers_do_not_mix() -> None:
    log = Log()
    assert log.send(Sent(0, 0, 2), producer_id=1) == 0
    assert log.send(Sent(0, 0, 2), producer_id=2) == 2
    assert log.send(Sent(0, 0, 2), producer_id=1) == duplicate(0, 2)
    assert log.send(Sent(0, 2, 1), producer_id=2) == 4


def test_the_error_says_what_was_expected() -> None:
    log = Log()
    log.send(Sent(0, 0, 3))
    with pytest.raises(KafkaError, match=r"producer 4000 of epoch 0 sent sequence 7, expected was 3"):
        log.state.check(PID, 0, 7, 1)


def test_a_producer_expires_a_day_after_its_last_batch() -> None:
    log = Log()
    log.send(Sent(0, 0, 1), producer_id=1)
    log.send(Sent(0, 0, 1), producer_id=2)
    log.send(Sent(0, 1, 1), producer_id=1, now_ms=NOW + 1)
    assert log.state.remove_expired(NOW + PRODUCER_ID_EXPIRATION_MS - 1) == 0
    assert log.state.remove_expired(NOW + PRODUCER_ID_EXPIRATION_MS) == 1
    assert (1 in log.state, 2 in log.state) == (True, False)
    assert log.send(Sent(0, 500, 1), producer_id=2) == 3  # forgotten: may begin anywhere


def test_a_clock_set_back_does_not_keep_the_others_from_expiring() -> None:
    log = Log()
    log.send(Sent(0, 0, 1), producer_id=1, now_ms=NOW + 3_600_000)
    log.send(Sent(0, 0, 1), producer_id=2, now_ms=NOW)
    log.state.remove_expired(NOW + PRODUCER_ID_EXPIRATION_MS)
    assert (1 in log.state, 2 in log.state) == (True, False)


def test_beyond_the_bound_the_producer_idle_for_longest_is_forgotten() -> None:
    log = Log(ProducerState(max_producers=3))
    for producer_id in (1, 2, 3):
        log.send(Sent(0, 0, 1), producer_id=producer_id)
    log.send(Sent(0, 1, 1), producer_id=1)
    log.send(Sent(0, 0, 1), producer_id=4)
    assert [n for n in range(1, 5) if n in log.state] == [1, 3, 4]
    assert log.send(Sent(0, 5, 1), producer_id=1) == GAP  # still known


def test_who_makes_up_ids_without_end_forgets_its_own() -> None:
    """A victim's state outlives them, so that what it sends again is known to be there."""
    log = Log()
    log.send(Sent(0, 0, 5), producer_id=1, client="victim")
    for number in range(3 * MAX_PRODUCERS):
        log.send(Sent(0, 0, 1), producer_id=100 + number, client="greedy")
    assert log.state.count == MAX_PRODUCERS
    assert log.send(Sent(0, 0, 5), producer_id=1, client="victim") == duplicate(0, 5)
    assert log.send(Sent(0, 0, 1), producer_id=2, client="another") == log.end - 1
    assert 1 in log.state


def test_who_was_idle_for_long_makes_room_for_anybody() -> None:
    log = Log(ProducerState(max_producers=2))
    log.send(Sent(0, 0, 1), producer_id=1, client="a")
    log.send(Sent(0, 0, 1), producer_id=2, client="b", now_ms=NOW + 1)
    log.send(Sent(0, 0, 1), producer_id=3, client="b", now_ms=NOW + SPARED_MS - 1)
    assert [n for n in (1, 2, 3) if n in log.state] == [1, 3]
    log.send(Sent(0, 0, 1), producer_id=4, client="b", now_ms=NOW + SPARED_MS)
    assert [n for n in (1, 3, 4) if n in log.state] == [3, 4]


def test_a_client_without_any_takes_the_place_of_one_that_has_most() -> None:
    log = Log(ProducerState(max_producers=4))
    for producer_id, client in ((1, "a"), (2, "b"), (3, "b"), (4, "c")):
        log.send(Sent(0, 0, 1), producer_id=producer_id, client=client)
    log.send(Sent(0, 0, 1), producer_id=5, client="d")
    assert [n for n in range(1, 6) if n in log.state] == [1, 3, 4, 5]


def test_a_client_without_any_is_not_remembered_where_nobody_has_half_of_the_places() -> None:
    """From many addresses, one each, nobody drives out those who are there."""
    log = Log(ProducerState(max_producers=5))
    for producer_id, client in ((1, "victim"), (2, "victim"), (3, "a"), (4, "b"), (5, "c")):
        log.send(Sent(0, 0, 1), producer_id=producer_id, client=client)
    for producer_id in range(6, 20):
        assert log.send(Sent(0, 0, 1), producer_id=producer_id, client=f"d{producer_id}") == producer_id - 1
    assert [n for n in range(20) if n in log.state] == [1, 2, 3, 4, 5]
    log.send(Sent(0, 1, 1), producer_id=6, client="d6", now_ms=NOW + SPARED_MS)
    assert [n for n in range(20) if n in log.state] == [2, 3, 4, 5, 6]


def test_what_was_read_from_the_log_makes_no_room_for_newcomers_at_once() -> None:
    log = Log(ProducerState(max_producers=3))
    for producer_id in (1, 2, 3):
        log.send(Sent(0, 0, 1), producer_id=producer_id)
    log.send(Sent(0, 0, 1), producer_id=4, client="new")
    assert [n for n in range(1, 5) if n in log.state] == [1, 2, 3]


def test_of_a_clients_own_the_one_that_it_used_longest_ago_is_forgotten() -> None:
    log = Log(ProducerState(max_producers=4))
    for producer_id, client in ((1, "a"), (2, "b"), (3, "a"), (4, "a")):
        log.send(Sent(0, 0, 1), producer_id=producer_id, client=client)
    log.send(Sent(0, 0, 1), producer_id=5, client="a", now_ms=NOW + 1)
    assert [n for n in range(1, 6) if n in log.state] == [2, 3, 4, 5]
    log.send(Sent(0, 1, 1), producer_id=3, now_ms=NOW + 2)
    log.send(Sent(0, 0, 1), producer_id=6, client="a", now_ms=NOW + 3)
    assert [n for n in range(1, 7) if n in log.state] == [2, 3, 5, 6]
    log.state.remove_expired(NOW + 1 + PRODUCER_ID_EXPIRATION_MS)
    assert [n for n in range(1, 7) if n in log.state] == [3, 6]
    log.send(Sent(0, 0, 1), producer_id=7, client="b", now_ms=NOW + 4)
    log.send(Sent(0, 0, 1), producer_id=8, client="b", now_ms=NOW + 4)
    log.send(Sent(0, 0, 1), producer_id=9, client="b", now_ms=NOW + 5)
    assert [n for n in range(1, 10) if n in log.state] == [3, 6, 8, 9]


def test_whose_turn_it_is_to_be_forgotten_is_found_without_a_look_at_all() -> None:
    """A partition that is full looked at 2,000 producers for each new id."""
    log = Log()
    for number in range(MAX_PRODUCERS - 1):
        log.send(Sent(0, 0, 1), producer_id=number, client="victim" if number % 2 else f"c{number}")
    log.state._producers = looked = Looks(log.state._producers)
    looked.count = 0
    log.send(Sent(0, 0, 1), producer_id=MAX_PRODUCERS, client="greedy")
    log.send(Sent(0, 0, 1), producer_id=MAX_PRODUCERS + 1, client="greedy")
    for number in range(2, 500):
        log.send(Sent(0, 0, 1), producer_id=MAX_PRODUCERS + number, client="greedy")
        log.send(Sent(0, number, 1), producer_id=number, client="victim")
    assert looked.count <= 20 * 1000


class Looks(OrderedDict[int, Producer]):
    """Counts the producers that are looked at."""

    count = 0

    def __getitem__(self, key: int) -> Producer:
        self.count += 1
        return super().__getitem__(key)

    def get(self, key: int, default: Any = None) -> Any:
        self.count += 1
        return super().get(key, default)

    def __iter__(self) -> Iterator[int]:
        for key in super().__iter__():
            self.count += 1
            yield key

    def items(self) -> Any:
        self.count += len(self)
        return super().items()

    def values(self) -> Any:
        self.count += len(self)
        return super().values()


def test_when_all_partitions_have_enough_each_keeps_a_few() -> None:
    log = Log()
    for number in range(2 * FEW_PRODUCERS):
        log.send(Sent(0, 0, 1), producer_id=number, is_short=number >= FEW_PRODUCERS)
    assert log.state.count == FEW_PRODUCERS
    assert all(number in log.state for number in range(FEW_PRODUCERS, 2 * FEW_PRODUCERS))


@pytest.mark.parametrize(
    ("sequence", "steps", "expected"),
    [
        (0, 0, 0),
        (0, 5, 5),
        (MAX_SEQUENCE, 0, MAX_SEQUENCE),
        (MAX_SEQUENCE, 1, 0),
        (MAX_SEQUENCE - 2, 5, 2),
        (MAX_SEQUENCE, MAX_SEQUENCE, MAX_SEQUENCE - 1),
    ],
)
def test_sequences_wrap(sequence: int, steps: int, expected: int) -> None:
    assert advance_sequence(sequence, steps) == expected
    assert sequence_after(sequence) == advance_sequence(sequence, 1)


class Model:
    """The rules said once more, without any bookkeeping: the whole history is kept and looked through."""

    def __init__(self) -> None:
        self.history: list[tuple[int, Sent, int]] = []
        self.end = 0

    def send(self, sent: Sent, producer_id: int) -> int | Duplicate | ErrorCode:
        mine = [(batch, offset) for owner, batch, offset in self.history if owner == producer_id]
        if mine:
            epoch = mine[-1][0].epoch
            if sent.epoch < epoch:
                return FENCED
            this_epoch = [entry for entry in mine if entry[0].epoch == epoch]
            for batch, offset in this_epoch[-5:]:
                if batch == sent:
                    return duplicate(offset, batch.records)
            if sent.epoch > epoch and sent.sequence != 0:
                return GAP
            if sent.epoch == epoch:
                begin = this_epoch[0][0].sequence
                records = sum(batch.records for batch, _ in this_epoch)
                if sent.sequence != (begin + records) % 2**31:
                    return GAP
        self.history.append((producer_id, sent, self.end))
        self.end += sent.records
        return self.end - sent.records


SEQUENCES = st.one_of(
    st.integers(0, 12), st.integers(MAX_SEQUENCE - 6, MAX_SEQUENCE), st.just(-1).map(lambda _: 2**30)
)


@given(
    st.lists(
        st.tuples(st.integers(1, 2), st.integers(0, 2), st.one_of(st.none(), SEQUENCES), st.integers(1, 4)),
        max_size=40,
    ),
    st.integers(0, 40),
)
def test_any_order_of_batches_is_answered_as_by_a_plain_model(
    batches: list[tuple[int, int, int | None, int]], restart_at: int
) -> None:
    """`None` means the sequence that comes next, so that long runs are tried; once, the state is rebuilt."""
    log, model = Log(), Model()
    following: dict[tuple[int, int], int] = {}
    for number, (producer_id, epoch, sequence, count) in enumerate(batches):
        if number == restart_at:
            log.state = ProducerState.from_snapshot(log.state.snapshot(NOW), NOW)
        sent = Sent(epoch, following.get((producer_id, epoch), 0) if sequence is None else sequence, count)
        answer = log.send(sent, producer_id)
        assert answer == model.send(sent, producer_id)
        if isinstance(answer, int) and not isinstance(answer, ErrorCode):
            following[producer_id, epoch] = (sent.sequence + count) % 2**31
