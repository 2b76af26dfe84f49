"""DescribeProducers 0: what is known of idempotent producers."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeProducersRequest

from tests.differential.batches import Record, batch
from tests.differential.case import case
from tests.differential.side import Side


def of(topics: dict[str, list[int]]) -> Any:
    one = DescribeProducersRequest.TopicRequest
    return DescribeProducersRequest(
        version=0, topics=[one(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
    )


@case(DescribeProducersRequest)
def producers(side: Side, version: int) -> None:
    name = side.own_topic("t", partitions=2)
    side.ask(of({name: [0, 1]}), "none")
    for producer, epoch, sequences in [(7001, 0, (0, 2)), (7002, 5, (0,))]:
        for sequence in sequences:
            records = [Record(b"x"), Record(b"y")]
            side.put(name, batch(records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence))
    side.ask(of({name: [0, 1]}), "two")


@case(DescribeProducersRequest)
def unknown(side: Side, version: int) -> None:
    name = side.topic("t")
    side.ask(of({name: [0, 1, -1], side.name("nowhere"): [0], "a/b": [0], "": [0]}))
    side.ask(of({name: []}), "no partitions")
    side.ask(of({}), "nothing")
