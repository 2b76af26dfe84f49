"""How many producers all partitions keep together."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import cast

from gateway.log.idempotence.producer import FEW_PRODUCERS
from gateway.log.idempotence.producers import PartitionProducers, ProducerCount
from gateway.log.idempotence.state import PRODUCER_ID_EXPIRATION_MS, ProducerState
from wireproto.records.header import BatchHeader

NOW = 1_700_000_000_000


def write(producers: PartitionProducers, *ids: int, now_ms: int = NOW, client: str = "client") -> None:
    for producer_id in ids:
        header = SimpleNamespace(
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            count=1,
            max_timestamp=now_ms,
            is_transactional=False,
        )
        producers.appended(cast(BatchHeader, header), 0, now_ms, client)


def test_all_partitions_count_together_and_what_goes_is_given_back() -> None:
    count = ProducerCount(time.monotonic, most=80)
    first, second = PartitionProducers(count), PartitionProducers(count)
    write(first, *range(30))
    write(first, 29)
    write(second, *range(5))
    assert (count.kept, count.is_short("client")) == (35, False)
    write(second, *range(5, 30))
    assert (count.kept, second.state.count) == (40, FEW_PRODUCERS)
    assert count.is_short("client")
    assert not count.is_short("another")
    write(first, 30)
    assert (count.kept, first.state.count) == (40, 30)
    second.end()
    assert count.kept == 30
    first.snapshot(NOW + PRODUCER_ID_EXPIRATION_MS)
    assert count.kept == 0


def test_who_makes_up_ids_in_all_partitions_leaves_others_theirs() -> None:
    """Within a minute one client had taken all that the gateway keeps, for a day; and of each partition only
    ten were known, so that a batch which came again was appended twice.
    """
    count = ProducerCount(time.monotonic, most=2000)
    ids = iter(range(1_000_000))
    for _ in range(20):
        partition = PartitionProducers(count)
        write(partition, *(next(ids) for _ in range(150)), client="greedy")
    victim = PartitionProducers(count)
    mine = range(2_000_000, 2_000_050)
    write(victim, *mine, client="victim")
    assert all(number in victim.state for number in mine)


def test_the_few_that_each_partition_keeps_are_nobodys_share() -> None:
    """A client had ten in each of all partitions, and nothing was left of the account for others."""
    count = ProducerCount(time.monotonic, most=200)
    partitions = [PartitionProducers(count) for _ in range(30)]
    ids = iter(range(1_000_000))
    for partition in partitions:
        write(partition, *(next(ids) for _ in range(3 * FEW_PRODUCERS)), client="greedy")
    assert count.kept == 3 * 30 + 27 * FEW_PRODUCERS
    victim = PartitionProducers(count)
    mine = range(2_000_000, 2_000_050)
    write(victim, *mine, client="victim")
    assert all(number in victim.state for number in mine)
    for partition in partitions:
        partition.end()
    assert count.kept == 50


def test_a_recovered_partition_counts_what_was_read_back() -> None:
    count = ProducerCount(time.monotonic)
    producers = PartitionProducers(count)
    write(producers, 1, 2, 3)
    read = ProducerState()
    read.applied(9, 0, 0, 0, 1, NOW, NOW)
    producers.begin(read)
    assert (count.kept, 9 in producers.state) == (1, True)
