"""What partitions hold, batch by batch, with what their own markers say of each transaction."""

from __future__ import annotations

import struct
from collections import defaultdict
from typing import Final

from tests.clients.leaders import read_at_leader
from tests.clients.stored import stored_batches
from tests.differential.batches import CONTROL, TRANSACTIONAL, Batch, records_of
from tests.faults.transactions.clients import PARTITIONS, TOPICS
from tests.faults.transactions.history import Stored
from tests.faults.transactions.told import Told

WAIT_SECONDS: Final = 120.0
ENDS: Final = {0: "abort", 1: "commit"}
"""By the type in a marker's key."""


def settled_end(bootstrap: str, topic: str, partition: int) -> int | None:
    """The end of a partition, unless a transaction is still open there."""
    batches = _stored(bootstrap, topic, partition)
    is_open = any(not end for *_, end in judged(batches))
    return None if is_open else _end(batches)


def read_stored(bootstrap: str, told: Told) -> dict[tuple[str, int], int]:
    """Every partition, at its leader; the end of each."""
    ends = {}
    for topic in TOPICS:
        for partition in range(PARTITIONS):
            batches = _stored(bootstrap, topic, partition)
            ends[topic, partition] = _end(batches)
            told.add(Stored(topic, partition, judged(batches), _end(batches)))
    return ends


def judged(batches: list[Batch]) -> list[tuple[int, str, str, str]]:
    """The records of `Stored`, by the markers among the batches and nothing else."""
    found: list[list[str | int]] = []
    of_open: dict[int, list[list[str | int]]] = defaultdict(list)
    for one in batches:
        if one.attributes & CONTROL:
            for each in of_open.pop(one.producer_id, []):
                each[3] = _end_of(one)
            continue
        for offset, record in records_of(one):
            end = "" if one.attributes & TRANSACTIONAL else "commit"
            who = f"{one.producer_id}/{one.producer_epoch}"
            each = [offset, (record.value or b"").decode(), who, end]
            found.append(each)
            if one.attributes & TRANSACTIONAL:
                of_open[one.producer_id].append(each)
    return [(int(offset), str(value), str(who), str(end)) for offset, value, who, end in found]


def _end_of(marker: Batch) -> str:
    ((_, record),) = records_of(marker)
    _, kind = struct.unpack(">hh", record.key or b"")
    return ENDS[kind]


def _end(batches: list[Batch]) -> int:
    return batches[-1].base_offset + batches[-1].last_offset_delta + 1 if batches else 0


def _stored(bootstrap: str, topic: str, partition: int) -> list[Batch]:
    return read_at_leader(stored_batches, bootstrap, topic, partition, WAIT_SECONDS)
