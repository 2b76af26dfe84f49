"""aiokafka: old protocol versions, asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.clients.sample import CODEC_NAMES, T0, records, small_records
from tests.clients.stored import check_records, check_stored, put
from tests.differential.batches import Record

SECONDS = 30


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 2 * SECONDS))


async def produce(bootstrap: str, topic: str, wanted: Sequence[Record], **settings: Any) -> list[Any]:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, max_request_size=1_048_588, **settings)
    await producer.start()
    try:
        futures = [
            await producer.send(
                topic,
                value=record.value,
                key=record.key,
                partition=0,
                timestamp_ms=record.timestamp,
                headers=list(record.headers),
            )
            for record in wanted
        ]
        return [await future for future in futures]
    finally:
        await producer.stop()


async def consume(bootstrap: str, topic: str, start: int, count: int) -> list[tuple[int, Record]]:
    source = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="none", enable_auto_commit=False)
    await source.start()
    try:
        source.assign([TopicPartition(topic, 0)])
        source.seek(TopicPartition(topic, 0), start)
        found: list[tuple[int, Record]] = []
        while len(found) < count:
            message = await asyncio.wait_for(source.getone(), SECONDS)
            found.append(
                (
                    message.offset,
                    Record(message.value, message.key, message.timestamp, tuple(message.headers)),
                )
            )
        return found
    finally:
        await source.stop()


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_round_trip(bootstrap: str, topic: str, codec: str) -> None:
    # It will not send a record with neither key nor value.
    wanted = [r for r in records(null_header_values=False) if (r.key, r.value) != (None, None)]

    async def main() -> None:
        acked = await produce(
            bootstrap, topic, wanted, compression_type=None if codec == "none" else codec, linger_ms=5
        )
        assert [one.offset for one in acked] == list(range(len(wanted)))
        check_stored(bootstrap, topic, wanted, codec)
        check_records(await consume(bootstrap, topic, 0, len(wanted)), wanted)

    run(main)


@pytest.mark.parametrize(
    "settings", [{"acks": 0}, {"acks": 1}, {"acks": "all"}, {"enable_idempotence": True}], ids=str
)
def test_acks(bootstrap: str, topic: str, settings: dict[str, Any]) -> None:
    wanted = small_records(500)

    async def main() -> None:
        await produce(bootstrap, topic, wanted, **settings)
        check_records(await consume(bootstrap, topic, 0, len(wanted)), wanted)

    run(main)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_reads_what_others_stored(bootstrap: str, topic: str, codec: str) -> None:
    wanted = small_records(50)
    put(bootstrap, topic, wanted, codec=codec)

    async def main() -> None:
        for start in [0, 3, 49]:
            found = await consume(bootstrap, topic, start, 50 - start)
            check_records(found, wanted[start:], first_offset=start)

    run(main)


def test_offsets(bootstrap: str, topic: str) -> None:
    put(bootstrap, topic, small_records(20))

    async def main() -> None:
        source = AIOKafkaConsumer(bootstrap_servers=bootstrap)
        await source.start()
        try:
            partition = TopicPartition(topic, 0)
            assert await source.beginning_offsets([partition]) == {partition: 0}
            assert await source.end_offsets([partition]) == {partition: 20}
            found = (await source.offsets_for_times({partition: T0 + 7}))[partition]
            assert (found.offset, found.timestamp) == (7, T0 + 7)
        finally:
            await source.stop()

    run(main)
