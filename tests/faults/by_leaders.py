"""What several gateways hold, each partition read at its leader, whoever that is by then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.clients.leaders import read_at_leader
from tests.clients.stored import stored_batches
from tests.differential.batches import Batch, records_of
from tests.faults.history import History, Led, Seen
from tests.faults.workloads import read_value

WAIT_SECONDS: Final = 120.0


def read_by_leaders(
    addresses: Sequence[str], topic: str, history: History, partitions: int
) -> dict[int, int]:
    """Reads every partition from its beginning into the history; the end of each."""
    ends = {}
    for partition in range(partitions):
        batches = _stored(addresses, topic, partition)
        for batch in batches:
            sender = batch.producer_id, batch.producer_epoch, batch.base_sequence
            history.add(Led(partition, batch.base_offset, batch.leader_epoch, *sender))
            for offset, record in records_of(batch):
                producer, number, digest = read_value(record.value)
                history.add(Seen(partition, offset, producer, number, digest, "end"))
        ends[partition] = batches[-1].base_offset + batches[-1].last_offset_delta + 1 if batches else 0
    return ends


def _stored(addresses: Sequence[str], topic: str, partition: int) -> list[Batch]:
    return read_at_leader(stored_batches, ",".join(addresses), topic, partition, WAIT_SECONDS)
