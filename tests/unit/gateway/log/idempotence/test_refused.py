"""How long it is remembered that a batch of a producer was refused, and how many are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from gateway.common.clients import NOBODY
from gateway.log.idempotence.refused import (
    MAX_REFUSED_PRODUCERS,
    RefusedAccount,
    RefusedProducers,
)
from gateway.log.idempotence.refused_batches import REFUSED_SECONDS
from wireproto.kafka.errors import ErrorCode, KafkaError

PRODUCER, EPOCH = 7, 3


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Scene:
    """A partition's refused producers, their account, and the time."""

    most: int = 1_000_000
    clock: Clock = field(default_factory=Clock)
    account: RefusedAccount = field(init=False)
    refused: RefusedProducers = field(init=False)

    def __post_init__(self) -> None:
        self.account = RefusedAccount(self.clock, self.most)
        self.refused = self.partition()

    def partition(self) -> RefusedProducers:
        return RefusedProducers(self.account)

    def refuse(self, *sequences: int, epoch: int = EPOCH) -> None:
        for sequence in sequences:
            self.refused.add(PRODUCER, epoch, sequence, "client")

    def takes(self, sequence: int, epoch: int = EPOCH) -> bool:
        return takes(self.refused, PRODUCER, sequence, epoch)

    def accept(self, sequence: int, count: int = 10, epoch: int = EPOCH) -> None:
        self.refused.accepted(PRODUCER, epoch, sequence, count)


def takes(refused: RefusedProducers, producer_id: int, sequence: int, epoch: int = EPOCH) -> bool:
    try:
        refused.check(producer_id, epoch, sequence)
    except KafkaError as error:
        if error.code is ErrorCode.NOT_ENOUGH_REPLICAS:
            return False
        raise
    return True


def fill(refused: RefusedProducers, ids: Sequence[int], client: str) -> None:
    for producer_id in ids:
        refused.add(producer_id, EPOCH, 5, client)


def remembered(refused: RefusedProducers, ids: Sequence[int]) -> list[int]:
    return [producer_id for producer_id in ids if not takes(refused, producer_id, 6)]


def test_the_first_that_comes_again_does_not_let_others_overtake_each_other() -> None:
    """The whole memory ended with the first batch that was taken: of the next two the later one was told of
    a gap.
    """
    scene = Scene()
    scene.refuse(0, 10, 20)
    scene.accept(0)
    assert (scene.takes(20), scene.takes(10)) == (False, True)
    assert scene.refused.is_awaited(PRODUCER, EPOCH, 10)
    scene.accept(10)
    assert len(scene.refused) == 1
    scene.accept(20)
    assert len(scene.refused) == scene.account.used == 0


def test_what_is_refused_because_of_an_earlier_one_is_to_come_as_well() -> None:
    scene = Scene()
    scene.refuse(0)
    assert not scene.takes(30)
    scene.accept(0)
    assert (scene.takes(30), scene.takes(10)) == (False, True)


def test_who_gives_up_is_awaited_for_some_minutes_only() -> None:
    """A client that gave a record up and went on in its epoch was refused for ever."""
    scene = Scene()
    scene.refuse(0)
    scene.clock.now += REFUSED_SECONDS - 1
    assert not scene.takes(10)
    scene.clock.now += 1
    assert scene.takes(10)
    scene.accept(10)
    assert len(scene.refused) == scene.account.used == 0


@pytest.mark.parametrize("progress", ["refused again", "taken"])
def test_who_still_sends_is_awaited_anew(progress: str) -> None:
    scene = Scene()
    scene.refuse(0, 10, 20)
    scene.clock.now += REFUSED_SECONDS - 1
    if progress == "taken":
        scene.accept(0)
    else:
        scene.refuse(0)
    scene.clock.now += REFUSED_SECONDS - 1
    assert not scene.takes(20)
    scene.clock.now += 1
    assert scene.takes(20)


def test_later_batches_alone_do_not_have_it_awaited_longer() -> None:
    scene = Scene()
    scene.refuse(0)
    for _ in range(3):
        assert not scene.takes(20)
        scene.refuse(10)
        scene.clock.now += REFUSED_SECONDS / 3
    assert scene.takes(10)
    assert not scene.takes(20), "the one after it was refused a minute ago, and is to come"


@pytest.mark.parametrize("by", ["add", "check"])
def test_who_gives_up_one_batch_still_sends_the_next_ones_in_order(by: str) -> None:
    """All that was refused of a producer was forgotten with the first batch that it gave up."""
    scene = Scene()
    scene.refuse(0)
    scene.clock.now += REFUSED_SECONDS - 1
    if by == "add":
        scene.refuse(10)
    else:
        assert not scene.takes(10)
    scene.clock.now += 1
    assert (scene.takes(20), scene.takes(10)) == (False, True)
    scene.accept(10)
    assert not scene.takes(30)
    scene.accept(20)
    assert len(scene.refused) == 1
    scene.clock.now += REFUSED_SECONDS
    assert scene.takes(50)
    assert len(scene.refused) == scene.account.used == 0


def test_an_older_epoch_changes_nothing() -> None:
    """What a producer of an older epoch sent took the place of what its successor awaited."""
    scene = Scene()
    scene.refuse(0, 10)
    scene.refuse(500, epoch=EPOCH - 1)
    scene.accept(500, epoch=EPOCH - 1)
    assert not scene.takes(10)


def test_a_newer_epoch_is_all_that_counts() -> None:
    scene = Scene()
    scene.refuse(0, 10)
    scene.refuse(40, epoch=EPOCH + 1)
    assert (scene.takes(10), scene.takes(50, EPOCH + 1)) == (True, False)
    scene.accept(0, epoch=EPOCH + 2)
    assert len(scene.refused) == 0


def test_sequences_wrap() -> None:
    scene, last = Scene(), 2**31 - 1
    scene.refuse(last, 4)
    scene.accept(last, count=3)
    assert (scene.takes(4), scene.takes(2)) == (False, True)
    scene.accept(2, count=2)
    scene.accept(4, count=1)
    assert len(scene.refused) == 0


def test_a_client_forgets_its_own_at_the_bound_of_a_partition() -> None:
    """Whoever made up ids had all others forgotten."""
    scene = Scene()
    refused = scene.refused
    mine, theirs = range(10), range(1000, 2000 + MAX_REFUSED_PRODUCERS)
    fill(refused, mine, "a good one")
    fill(refused, theirs, "greedy")
    assert len(refused) == MAX_REFUSED_PRODUCERS
    assert remembered(refused, mine) == list(mine)
    assert remembered(refused, theirs) == list(theirs[-(MAX_REFUSED_PRODUCERS - len(mine)) :])
    newcomer = range(10, 20)
    fill(refused, newcomer, "another good one")
    assert remembered(refused, newcomer) == list(newcomer)
    assert len(refused) == scene.account.used == MAX_REFUSED_PRODUCERS


def test_what_is_nobodys_is_not_greedy() -> None:
    """Producers of many clients that were read back lost their places to one with made-up ids."""
    scene = Scene()
    mine = range(900)
    fill(scene.refused, mine, NOBODY)
    fill(scene.refused, range(1000, 1600), "greedy")
    assert remembered(scene.refused, mine) == list(mine)


def test_many_clients_with_one_each_drive_out_nobody() -> None:
    scene = Scene()
    for number in range(MAX_REFUSED_PRODUCERS + 1):
        scene.refused.add(number, EPOCH, 5, f"client {number}")
    assert len(scene.refused) == MAX_REFUSED_PRODUCERS
    assert takes(scene.refused, MAX_REFUSED_PRODUCERS, 6)


def test_one_client_has_a_share_of_all_partitions() -> None:
    scene = Scene(most=100)
    partitions = [scene.partition() for _ in range(20)]
    for number, partition in enumerate(partitions):
        fill(partition, range(number * 10, number * 10 + 10), "greedy")
    assert scene.account.held("greedy") == 50
    fill(partitions[0], [1000], "greedy")
    assert remembered(partitions[0], [0, 1000]) == [1000], "for its own new one, its own oldest"
    fill(partitions[-1], [2000], "a good one")
    assert remembered(partitions[-1], [2000]) == [2000]
    for partition in partitions:
        partition.clear()
    assert scene.account.used == 0


def test_partitions_that_nobody_asks_for_any_more_give_back_what_is_over() -> None:
    """What a gateway had refused of a partition that went to another one was charged for ever."""
    scene = Scene(most=100)
    fill(scene.partition(), range(50), "client")
    here = scene.refused
    fill(here, [1000], "client")
    assert len(here) == 0
    scene.clock.now += REFUSED_SECONDS
    fill(here, [1001], "client")
    assert remembered(here, [1001]) == [1001]
    assert scene.account.used == 1
