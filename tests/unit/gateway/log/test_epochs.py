"""Leader epochs: the answers of Kafka's LeaderEpochFileCache."""

import json
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.log.epochs import LeaderEpochs

EPOCHS = [[2, 0], [3, 10], [7, 25]]
END = 40


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),  # "no epoch" has no end
        (0, (0, 0)),  # before all that is known: it ended by the start of the first
        (1, (1, 0)),
        (2, (2, 10)),
        (3, (3, 25)),
        (4, (3, 25)),  # never was: the one before it
        (6, (3, 25)),
        (7, (7, END)),  # still being written
        (8, (-1, -1)),  # not yet
    ],
)
def test_end_offset_for(asked: int, answer: tuple[int, int]) -> None:
    assert LeaderEpochs(EPOCHS).end_offset_for(asked, END) == answer


def test_end_offset_for_is_cut_at_the_high_watermark() -> None:
    assert LeaderEpochs(EPOCHS).end_offset_for(3, 20) == (3, 20)
    assert LeaderEpochs(EPOCHS).end_offset_for(2, 20) == (2, 10)


def test_nothing_is_known_of_an_empty_list() -> None:
    epochs = LeaderEpochs()
    assert (epochs.latest, epochs.epoch_at(0), epochs.to_list()) == (-1, -1, [])
    assert epochs.end_offset_for(0, 0) == (-1, -1)
    epochs.truncate_front(10)
    assert epochs.to_list() == []


@pytest.mark.parametrize(
    ("offset", "epoch"), [(0, 2), (9, 2), (10, 3), (24, 3), (25, 7), (10**12, 7), (-1, -1)]
)
def test_epoch_at(offset: int, epoch: int) -> None:
    assert LeaderEpochs(EPOCHS).epoch_at(offset) == epoch


def test_assign_goes_on() -> None:
    epochs = LeaderEpochs()
    assert epochs.assign(0, 0)
    assert not epochs.assign(0, 0)
    assert not epochs.assign(0, 5)  # the same life's next segment
    assert epochs.assign(1, 5)
    assert (epochs.to_list(), epochs.latest) == ([[0, 0], [1, 5]], 1)


def test_an_epoch_without_records_gives_way() -> None:
    epochs = LeaderEpochs(EPOCHS)
    assert epochs.assign(8, 25)
    assert epochs.to_list() == [[2, 0], [3, 10], [8, 25]]


@pytest.mark.parametrize(("epoch", "start"), [(6, 30), (3, 30), (7, 24), (8, 24), (-1, 30), (8, -1)])
def test_assign_never_goes_back(epoch: int, start: int) -> None:
    epochs = LeaderEpochs(EPOCHS)
    with pytest.raises(ValueError, match=f"epoch {epoch} from offset {start}"):
        epochs.assign(epoch, start)
    assert epochs.to_list() == EPOCHS


@pytest.mark.parametrize(
    ("log_start", "left"),
    [
        (0, EPOCHS),
        (5, [[2, 5], [3, 10], [7, 25]]),
        (10, [[3, 10], [7, 25]]),
        (24, [[3, 24], [7, 25]]),
        (25, [[7, 25]]),
        (40, [[7, 40]]),
    ],
)
def test_truncate_front(log_start: int, left: list[list[int]]) -> None:
    epochs = LeaderEpochs(EPOCHS)
    epochs.truncate_front(log_start)
    assert epochs.to_list() == left


def test_truncate_front_before_the_first_epoch_changes_nothing() -> None:
    epochs = LeaderEpochs([[4, 100]])
    epochs.truncate_front(50)
    assert epochs.to_list() == [[4, 100]]


def test_survives_json() -> None:
    stored = json.dumps(LeaderEpochs(EPOCHS).to_list())
    assert LeaderEpochs.from_list(json.loads(stored)).to_list() == EPOCHS


@pytest.mark.parametrize(
    "stored", [[[1, 0], [1, 5]], [[1, 5], [2, 5]], [[2, 0], [1, 5]], [[-1, 0]], [[1, -1]], [[1]]]
)
def test_a_list_out_of_order_is_refused(stored: list[list[int]]) -> None:
    with pytest.raises(ValueError, match=r"epoch|unpack"):
        LeaderEpochs.from_list(stored)


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5)), min_size=1, max_size=12),
    st.integers(0, 60),
    st.integers(0, 60),
)
def test_offsets_say_the_same_as_a_plain_log(
    steps: list[tuple[int, int]], watermark: int, log_start: int
) -> None:
    """A log as a list of the epoch of every offset: what an epoch's end is can be counted there."""
    numbers = list(accumulate(gap for gap, _ in steps))
    log = [epoch for epoch, (_, length) in zip(numbers, steps, strict=True) for _ in range(length)]
    epochs, offset = LeaderEpochs(), 0
    for epoch, (_, length) in zip(numbers, steps, strict=True):
        epochs.assign(epoch, offset)
        offset += length
    watermark, log_start = min(watermark, len(log)), min(log_start, len(log) - 1)
    assert [epochs.epoch_at(n) for n in range(len(log))] == log
    for asked in range(numbers[-1]):
        end = sum(epoch <= asked for epoch in log)
        assert epochs.end_offset_for(asked, watermark)[1] == min(end, watermark)
    epochs.truncate_front(log_start)
    assert [epochs.epoch_at(n) for n in range(log_start, len(log))] == log[log_start:]
    assert LeaderEpochs(epochs.to_list()).to_list() == epochs.to_list()
