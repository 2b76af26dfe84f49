"""Which markers Kafka 4.3.1 takes, by the epochs of producer and coordinator (``ProducerAppendInfo``)."""

from __future__ import annotations

import pytest

from gateway.common.marker import Marker
from gateway.log.idempotence.markers import check_marker
from gateway.log.idempotence.producer import NO_COORDINATOR_EPOCH, NOTHING_OPEN, Batch, Producer
from wireproto.kafka.errors import ErrorCode, KafkaError

PID = 4000
LAST = 32767

TAKEN = ErrorCode.NONE
OLD = ErrorCode.INVALID_PRODUCER_EPOCH
FENCED = ErrorCode.TRANSACTION_COORDINATOR_FENCED


def answer(known: Producer | None, marker: Marker) -> ErrorCode:
    try:
        check_marker(known, marker)
    except KafkaError as error:
        return error.code
    return TAKEN


def known(epoch: int, *, is_open: bool, coordinator_epoch: int = NO_COORDINATOR_EPOCH) -> Producer:
    producer = Producer(epoch, 0, [Batch(0, 0, 5, 5, 0)])
    producer.coordinator_epoch = coordinator_epoch
    producer.first_offset = 5 if is_open else NOTHING_OPEN
    return producer


@pytest.mark.parametrize("is_commit", [False, True])
@pytest.mark.parametrize("version", [0, 1, 2, 3])
@pytest.mark.parametrize("epoch", [0, 1, LAST])
def test_of_an_unknown_producer_any_marker_is_taken(is_commit: bool, version: int, epoch: int) -> None:
    assert answer(None, Marker(PID, epoch, 0, is_commit, transaction_version=version)) is TAKEN


# (the producer's epoch here, the marker's, whether a transaction is open): before KIP-890, and from then on.
BY_EPOCH = {
    (5, 4, True): (OLD, OLD),
    (5, 4, False): (OLD, OLD),
    (5, 5, True): (TAKEN, OLD),
    (5, 5, False): (TAKEN, TAKEN),
    (5, 6, True): (TAKEN, TAKEN),
    (5, 6, False): (TAKEN, TAKEN),
    (5, 9, True): (TAKEN, TAKEN),
    (0, 0, True): (TAKEN, OLD),
    (-1, 0, True): (TAKEN, TAKEN),
    (LAST, LAST, True): (TAKEN, TAKEN),
    (LAST, LAST, False): (TAKEN, TAKEN),
    (LAST, LAST - 1, True): (OLD, OLD),
    (LAST, LAST - 1, False): (OLD, OLD),
    (LAST - 1, LAST, True): (TAKEN, TAKEN),
    (LAST - 1, LAST - 1, True): (TAKEN, OLD),
}


@pytest.mark.parametrize("is_commit", [False, True])
@pytest.mark.parametrize(("place", "versions"), [(0, (0, 1)), (1, (2, 3))])
@pytest.mark.parametrize("case", BY_EPOCH)
def test_the_producers_epoch(
    case: tuple[int, int, bool], place: int, versions: tuple[int, int], is_commit: bool
) -> None:
    """A transaction that a newer client ends has an epoch less than its marker; a marker that ended it comes
    again without harm, and the last epoch of all has no later one.
    """
    here, of_marker, is_open = case
    producer = known(here, is_open=is_open)
    answers = {answer(producer, Marker(PID, of_marker, 0, is_commit, 0, version)) for version in versions}
    assert answers == {BY_EPOCH[case][place]}


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize(
    ("here", "of_marker", "expected"),
    [(-1, 0, TAKEN), (7, 6, FENCED), (7, 7, TAKEN), (7, 8, TAKEN), (7, 0, FENCED), (0, -1, FENCED)],
)
def test_the_coordinators_epoch(here: int, of_marker: int, expected: ErrorCode, version: int) -> None:
    producer = known(5, is_open=True, coordinator_epoch=here)
    assert answer(producer, Marker(PID, 6, of_marker, False, 0, version)) is expected


@pytest.mark.parametrize("version", [0, 2])
def test_the_producers_epoch_comes_first(version: int) -> None:
    producer = known(5, is_open=True, coordinator_epoch=7)
    assert answer(producer, Marker(PID, 4, 6, False, 0, version)) is OLD


def test_what_is_refused_says_which_epochs_there_are() -> None:
    producer = known(5, is_open=True, coordinator_epoch=7)
    with pytest.raises(KafkaError, match=r"producer 4000 has epoch 4, and 5 has written here"):
        check_marker(producer, Marker(PID, 4, 7, False))
    with pytest.raises(KafkaError, match=r"producer 4000 is of coordinator epoch 6, and 7 has ended"):
        check_marker(producer, Marker(PID, 5, 6, False))


def test_a_check_changes_nothing() -> None:
    producer = known(5, is_open=True, coordinator_epoch=7)
    for marker in (Marker(PID, 4, 7, True), Marker(PID, 5, 6, True), Marker(PID, 6, 8, True)):
        answer(producer, marker)
    assert (producer.epoch, producer.coordinator_epoch, producer.first_offset) == (5, 7, 5)
    assert len(producer.batches) == 1
