"""Programs append records: one batch for each request, whole or not at all."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

import trio

from gateway.http.appended import append, is_same, refusal
from gateway.http.batches import NDJSON, RAW, Made, batch_of_lines, batch_of_one
from gateway.http.connection import Answer, body_too_large
from gateway.http.failures import Failure
from gateway.http.limits import KIB, MIB
from gateway.http.router import API, Ask, Parameter, Route
from gateway.http.routes.topics import find_partition, find_topic
from gateway.http.texts import encoded
from gateway.security.producer_ids import HTTP_CLIENTS
from wireproto.kafka.errors import KafkaError
from wireproto.kafka.partitioner import partition_of
from wireproto.records.header import read_header

if TYPE_CHECKING:
    from gateway.front.clients import Client
    from gateway.front.server import Server
    from gateway.log.partition import Partition
    from gateway.log.topic import Topic

MAX_BODY_BYTES: Final = 16 * MIB
"""Bytes of a body, whatever the topic allows."""

MAX_PLACED_KEY_BYTES: Final = 8 * KIB
"""Bytes of a key that a partition is chosen by: a millisecond or two of hashing."""

HELD_PER_BYTE: Final = 4
"""Bytes of memory for each of a body: itself, its records, their batch, and its copy that the log keeps."""

MEMORY_SECONDS: Final = 5.0
"""Seconds that a request waits for memory, of which others of its client hold too much."""

MAX_SEQUENCE: Final = (1 << 31) - 1
"""Of a record; the next one is 0."""

_KEY: Final = re.compile(r'"?(\d{1,19}):(\d{1,10})"?', re.ASCII)
_END: Final = re.compile(r'"(\d{1,19})"', re.ASCII)


class ProducerBatch(NamedTuple):
    """What an Idempotency-Key says: a producer's id, and the sequence of the batch's first record."""

    producer_id: int
    sequence: int


async def append_to_partition(ask: Ask) -> Answer:
    """The route of one partition."""
    ask.target.only("key")
    topic = find_topic(ask.view, ask.places["topic"])
    partition = find_partition(topic, ask.places["partition"])
    async with _received(ask, topic) as (server, made):
        return await _appended(ask, server, partition, made)


async def append_by_key(ask: Ask) -> Answer:
    """The route that chooses the partition by the key."""
    ask.target.only("key")
    topic = find_topic(ask.view, ask.places["topic"])
    async with _received(ask, topic) as (server, made):
        count = len(topic.partitions)
        async with ask.view.turns.working():
            places = set()
            for key in made.keys:
                places.add(_place(key, count))
                await ask.view.turns.breathe()
        if len(places) != 1:
            raise Failure(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "several-partitions",
                "the keys of these records belong to different partitions, and a batch is appended to one",
                "Send the records of each key by themselves, or choose the partition.",
            )
        return await _appended(ask, server, topic.partitions[places.pop()], made)


def _place(key: bytes | None, partitions: int) -> int:
    if key is None or len(key) > MAX_PLACED_KEY_BYTES:
        raise Failure(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "no-key",
            "a record has no key" if key is None else f"a key has more than {MAX_PLACED_KEY_BYTES} bytes",
            "Give every record a key, or choose the partition: /topics/TOPIC/partitions/N/records.",
        )
    return partition_of(key, partitions)


@asynccontextmanager
async def _received(ask: Ask, topic: Topic) -> AsyncIterator[tuple[Server, Made]]:
    """The records of a request, while its memory is held. Raises Failure."""
    kind = ask.headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    if kind not in {RAW, NDJSON}:
        raise Failure(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "content-type",
            f"records do not come as {kind[:100]!r}",
            f"Send one record as {RAW}, or lines of JSON as {NDJSON}.",
            (("Accept-Post", f"{RAW}, {NDJSON}"),),
        )
    if ask.headers.get(b"content-encoding", b"identity") != b"identity":
        raise Failure(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "content-encoding",
            "bodies are not inflated here",
            "Send the body as it is.",
        )
    key = _key(ask, kind)
    _producer_batch(ask)
    _expected_end(ask)
    most = min(topic.settings.max_message_bytes, MAX_BODY_BYTES)
    length = ask.headers.get(b"content-length")
    size = most if length is None else int(length)
    if size > most:
        raise body_too_large(most)
    server = ask.view.kafka()
    if server is None:
        raise Failure(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "not-ready",
            "the gateway recovers",
            "Try again in a moment.",
            (("Retry-After", "1"),),
        )
    with server.visit(ask.host) as client:
        async with _memory(client, size * HELD_PER_BYTE):
            assert ask.read_body is not None
            body = await ask.read_body(most)
            now_ms = ask.view.broker.context.now_ms()
            if kind == RAW:
                yield server, batch_of_one(body, key, most, now_ms)
            else:
                yield server, await batch_of_lines(body, most, now_ms, ask.view.turns)


@asynccontextmanager
async def _memory(client: Client | None, size: int) -> AsyncIterator[None]:
    """So much of what producers share, for the length of the block. Raises Failure: not in time."""
    if client is None:
        raise busy()
    with trio.move_on_after(MEMORY_SECONDS) as waited:
        await client.produced_memory.reserve(size)
    if waited.cancelled_caught:
        raise busy()
    try:
        yield
    finally:
        client.produced_memory.release(size)


def busy() -> Failure:
    """Others of the same client, or all clients, do too much at once."""
    return Failure(
        HTTPStatus.TOO_MANY_REQUESTS,
        "busy",
        "other requests hold the memory, or the connections, that this client may have",
        "Ask again in a moment, and fewer at a time.",
        (("Retry-After", "2"),),
    )


def _key(ask: Ask, kind: str) -> bytes | None:
    text = ask.target.parameters.get("key")
    if text is None:
        return None
    if kind != RAW:
        raise Failure(
            HTTPStatus.BAD_REQUEST,
            "bad-parameter",
            "lines have their own keys",
            f"Leave key out, or send {RAW}.",
        )
    return text.encode()


def _producer_batch(ask: Ask) -> ProducerBatch | None:
    """What the Idempotency-Key says. Raises Failure."""
    given = ask.headers.get(b"idempotency-key")
    if given is None:
        return None
    found = _KEY.fullmatch(given.decode("latin-1"))
    if found is not None:
        batch = ProducerBatch(int(found[1]), int(found[2]))
        if batch.producer_id < 1 << 63 and batch.sequence <= MAX_SEQUENCE:
            return batch
    raise Failure(
        HTTPStatus.BAD_REQUEST,
        "bad-header",
        "the Idempotency-Key is not PRODUCER:SEQUENCE",
        "POST /api/v1/producers gives a producer; the sequence begins at 0, and goes on at next_sequence.",
    )


def _expected_end(ask: Ask) -> int | None:
    """The end of the log that If-Match names. Raises Failure."""
    given = ask.headers.get(b"if-match")
    if given is None:
        return None
    found = _END.fullmatch(given.decode("latin-1"))
    if found is None or int(found[1]) >= 1 << 63:
        raise Failure(
            HTTPStatus.BAD_REQUEST,
            "bad-header",
            "If-Match is not the end of the log in quotes",
            'Give the ETag of HEAD .../records, as "123".',
        )
    return int(found[1])


async def _appended(ask: Ask, server: Server, partition: Partition, made: Made) -> Answer:
    """Append, and answer. Raises Failure."""
    producer, expected = _producer_batch(ask), _expected_end(ask)
    count = made.batch.count
    if producer is None:
        batch = made.batch.finish()
    else:
        batch = made.batch.finish(
            producer_id=producer.producer_id, producer_epoch=0, base_sequence=producer.sequence
        )
        if _is_there(partition, batch):
            expected = None  # it was judged when it was appended
    before = partition.next_offset
    outcome = await append(server, partition, batch, ask.host, expected_end=expected)
    again = outcome.base_offset < before
    if again and not await is_same(ask.view, partition, batch, outcome.base_offset):
        raise Failure(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "other-body",
            f"this Idempotency-Key has appended other records, at offset {outcome.base_offset}",
            "Go on at the sequence that was answered last; nothing was appended now.",
        )
    row: dict[str, Any] = {
        "topic": partition.topic.name,
        "partition": partition.index,
        "first_offset": str(outcome.base_offset),
        "last_offset": str(outcome.last_offset),
        "duplicate": again,
    }
    if producer is not None:
        row["next_sequence"] = (producer.sequence + count) & MAX_SEQUENCE
    headers = [
        ("Content-Type", "application/json"),
        ("Cache-Control", "no-store"),
        ("Location", _location(partition, outcome.base_offset)),
    ]
    async with ask.view.turns.working():
        body = await encoded(row, ask.view.turns)
    return Answer(HTTPStatus.OK if again else HTTPStatus.CREATED, headers, body)


def _is_there(partition: Partition, batch: bytes) -> bool:
    try:
        return partition.producers.check(read_header(batch)) is not None
    except KafkaError:
        return False  # the append will say so


def _location(partition: Partition, offset: int) -> str:
    name = quote(partition.topic.name, safe="")
    return f"/{'/'.join(API)}/topics/{name}/partitions/{partition.index}/records?offset={offset}"


async def new_producer(ask: Ask) -> Answer:
    """The route of a producer for idempotent appends."""
    ask.target.only()
    assert ask.read_body is not None
    await ask.read_body(0)
    try:
        producer_id = await ask.view.broker.allocate_producer_id(HTTP_CLIENTS)
    except KafkaError as error:
        raise refusal(error.code, error.message) from None
    async with ask.view.turns.working():
        body = await encoded({"producer": str(producer_id), "next_sequence": 0}, ask.view.turns)
    headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
    return Answer(HTTPStatus.CREATED, headers, body)


_KEY_PARAMETER: Final = Parameter("key", {"type": "string"}, "The key of a record that is sent raw.")

ROUTES: Final = (
    Route(
        "topics/{topic}/partitions/{partition}/records",
        "Append one batch of records.",
        append_to_partition,
        (_KEY_PARAMETER,),
        method="POST",
        body_types=(RAW, NDJSON),
    ),
    Route(
        "topics/{topic}/records",
        "Append one batch of records to the partition of their key.",
        append_by_key,
        (_KEY_PARAMETER,),
        method="POST",
        body_types=(RAW, NDJSON),
    ),
    Route("producers", "A producer for idempotent appends.", new_producer, method="POST"),
)
