"""Which markers are repetitions: by their numbers, for a minute, under one leader epoch."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gateway.common.marker import Marker
from gateway.log.idempotence.ended import REMEMBERED_SECONDS, EndedAccount, EndedTransactions
from gateway.log.idempotence.producers import PartitionProducers, ProducerCount
from gateway.log.idempotence.state import ProducerState
from wireproto.kafka.errors import ErrorCode, KafkaError

NOW = 1_700_000_000_000


def marker(number: int, producer_id: int = 7, coordinator_epoch: int = 3, epoch: int = 0) -> Marker:
    return Marker(producer_id, epoch, coordinator_epoch, is_commit=True, number=number)


@pytest.mark.parametrize(
    ("coordinator_epoch", "number", "offset"),
    [
        (3, 5, 90),  # itself
        (3, 4, 90),  # one before it, which was late
        (3, 1, 90),
        (3, 6, None),  # the next one
        (4, 1, None),  # a later coordinator counts anew
        (4, 5, None),
        (2, 5, 90),  # an earlier one has nothing to say any more
        (2, 9, 90),
    ],
)
def test_a_marker_repeats_what_came_or_does_not(
    coordinator_epoch: int, number: int, offset: int | None
) -> None:
    ended = EndedTransactions(EndedAccount())
    ended.add(marker(5), 90, 0.0)
    assert ended.find(marker(number, coordinator_epoch=coordinator_epoch)) == offset


def test_producers_do_not_mix() -> None:
    ended = EndedTransactions(EndedAccount())
    ended.add(marker(5, producer_id=7), 90, 0.0)
    assert ended.find(marker(5, producer_id=8)) is None
    ended.add(marker(2, producer_id=8), 91, 0.0)
    assert [ended.find(marker(2, producer_id=one)) for one in (7, 8)] == [90, 91]


def test_the_last_one_of_a_producer_counts() -> None:
    ended = EndedTransactions(EndedAccount())
    ended.add(marker(5), 90, 0.0)
    ended.add(marker(6), 95, 0.0)
    assert [ended.find(marker(number)) for number in (5, 6, 7)] == [95, 95, None]
    ended.add(marker(1, coordinator_epoch=4), 99, 0.0)
    assert ended.find(marker(7)) == 99
    assert len(ended) == 1


def test_it_is_remembered_for_a_minute() -> None:
    ended = EndedTransactions(EndedAccount())
    ended.add(marker(1, producer_id=1), 10, 0.0)
    ended.add(marker(1, producer_id=2), 11, 30.0)
    ended.add(marker(1, producer_id=3), 12, REMEMBERED_SECONDS - 0.001)
    assert [ended.find(marker(1, producer_id=one)) for one in (1, 2, 3)] == [10, 11, 12]
    ended.add(marker(1, producer_id=4), 13, REMEMBERED_SECONDS)
    assert [ended.find(marker(1, producer_id=one)) for one in (1, 2, 3, 4)] == [None, 11, 12, 13]
    ended.add(marker(1, producer_id=5), 14, 1000.0)
    assert len(ended) == 1


def test_who_ended_another_one_is_remembered_from_then() -> None:
    ended = EndedTransactions(EndedAccount())
    ended.add(marker(1, producer_id=1), 10, 0.0)
    ended.add(marker(1, producer_id=2), 11, 1.0)
    ended.add(marker(2, producer_id=1), 12, 50.0)
    ended.add(marker(1, producer_id=3), 13, 70.0)
    assert [ended.find(marker(1, producer_id=one)) for one in (1, 2, 3)] == [12, None, 13]


def test_another_leader_epoch_remembers_nothing() -> None:
    ended = EndedTransactions(EndedAccount())
    ended.add(marker(5), 90, 0.0)
    ended.clear()
    assert (ended.find(marker(5)), len(ended)) == (None, 0)


# in a partition -------------------------------------------------------------------------------------------


@dataclass
class Scene:
    """A partition's producers, whose markers are appended at 100 and on, and the time."""

    now: float = 0.0
    end: int = 100

    def __post_init__(self) -> None:
        self.count = ProducerCount(lambda: self.now)
        self.producers = PartitionProducers(self.count)

    def append(self, marker: Marker) -> int:
        """Its offset, or that of the one that it repeats. Raises KafkaError."""
        repeated = self.producers.check_marker(marker)
        if repeated is not None:
            return repeated
        self.producers.ended(marker, self.end, NOW)
        self.end += 1
        return self.end - 1


def test_a_marker_that_comes_again_is_appended_once() -> None:
    scene = Scene()
    assert [scene.append(marker(1)), scene.append(marker(1)), scene.append(marker(2))] == [100, 100, 101]


def test_a_late_one_is_no_error_though_its_epoch_is_old() -> None:
    """Who sends it is to hear that all is well: an error would end its producer for good."""
    scene = Scene()
    scene.append(marker(1, epoch=0))
    scene.append(marker(2, epoch=1))
    assert scene.append(marker(1, epoch=0)) == 101
    with pytest.raises(KafkaError) as refused:
        scene.append(marker(0, epoch=0))
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_without_a_number_each_is_appended() -> None:
    """Kafka's own protocol has none: a marker that comes again is written once more."""
    scene = Scene()
    assert [scene.append(marker(0)) for _ in range(2)] == [100, 101]
    scene.append(marker(1))
    assert scene.append(marker(0)) == 103
    assert scene.append(marker(1)) == 102


def test_a_recovered_partition_takes_each_again() -> None:
    scene = Scene()
    scene.append(marker(1))
    scene.producers.begin(ProducerState())
    assert scene.append(marker(1)) == 101


def test_it_is_known_though_its_producer_is_forgotten() -> None:
    scene = Scene()
    scene.append(marker(1))
    scene.producers.snapshot(NOW + 1_000_000_000)
    assert 7 not in scene.producers.state
    assert scene.append(marker(1)) == 100


def test_the_minute_goes_by_a_clock_that_nobody_sets() -> None:
    scene = Scene()
    scene.append(marker(1))
    scene.now = REMEMBERED_SECONDS
    scene.append(marker(1, producer_id=8))
    assert scene.append(marker(1)) == 102


# all partitions together ------------------------------------------------------------------------------------


def test_what_is_old_is_forgotten_wherever_it_is() -> None:
    account = EndedAccount()
    one, other = EndedTransactions(account), EndedTransactions(account)
    one.add(marker(1), 100, 0.0)
    other.add(marker(1), 100, REMEMBERED_SECONDS / 2)
    assert (len(one), len(other), len(account)) == (1, 1, 2)
    other.add(marker(2), 101, REMEMBERED_SECONDS)
    assert (len(one), len(other), len(account)) == (0, 1, 1)
    assert one.find(marker(1)) is None


def test_there_is_a_bound_on_all_and_the_oldest_is_forgotten() -> None:
    account = EndedAccount(most=2)
    one, other = EndedTransactions(account), EndedTransactions(account)
    one.add(marker(1), 100, 1.0)
    other.add(marker(1), 200, 2.0)
    one.add(marker(2), 101, 3.0)
    assert (len(one), len(other), len(account)) == (1, 1, 2), "one of a producer counts once"
    one.add(marker(1, producer_id=8), 102, 4.0)
    assert (len(one), len(other), len(account)) == (2, 0, 2)


def test_what_a_partition_forgets_it_gives_back() -> None:
    account = EndedAccount()
    one = EndedTransactions(account)
    one.add(marker(1), 100, 1.0)
    one.clear()
    assert (len(one), len(account)) == (0, 0)


def test_a_deleted_partition_remembers_nothing() -> None:
    scene = Scene()
    scene.append(marker(1))
    scene.producers.end()
    assert len(scene.count.ended) == 0
    scene.append(marker(2))
    assert len(scene.count.ended) == 0
