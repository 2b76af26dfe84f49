"""A batch goes to the log as that of a Produce does after it was decoded: the same checks, the same gate, the
same idempotence. What a Kafka client would be answered becomes a status with its cause.
"""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import trio

from gateway.api.produce import NOT_IN_TIME, begin
from gateway.common.clients import client_of
from gateway.common.handlers import Request
from gateway.http.failures import Failure
from gateway.http.reading import inflated
from gateway.log.appends import Append
from gateway.produce.appending import RefusedBatch
from gateway.security.access import Unrestricted
from gateway.security.producer_ids import HTTP_CLIENTS
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.headers import RequestHeader
from wireproto.kafka.produce import ProducePartition, ProduceRequest, ProduceTopic
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import read_header
from wireproto.records.outline import first_headers, outlines

if TYPE_CHECKING:
    from gateway.front.server import Server
    from gateway.http.view import View
    from gateway.log.partition import Partition

DURABLE_MS: Final = 10_000
"""Milliseconds that an append may take to become durable."""

PRODUCE_VERSION: Final = 12
"""Of the Produce that this is like: topics by name, every codec."""

CLIENT_ID: Final = "http"

ALL: Final = -1

_ACCESS: Final = Unrestricted(HTTP_CLIENTS)

_STATUS: Final = {
    ErrorCode.MESSAGE_TOO_LARGE: (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large"),
    ErrorCode.INVALID_RECORD: (HTTPStatus.UNPROCESSABLE_ENTITY, "bad-record"),
    ErrorCode.INVALID_TIMESTAMP: (HTTPStatus.UNPROCESSABLE_ENTITY, "bad-record"),
    ErrorCode.INVALID_TOPIC_EXCEPTION: (HTTPStatus.FORBIDDEN, "internal-topic"),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (HTTPStatus.NOT_FOUND, "unknown-topic"),
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: (HTTPStatus.CONFLICT, "out-of-order"),
    ErrorCode.INVALID_PRODUCER_EPOCH: (HTTPStatus.CONFLICT, "out-of-order"),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (HTTPStatus.CONFLICT, "other-producer"),
    ErrorCode.NOT_ENOUGH_REPLICAS: (HTTPStatus.SERVICE_UNAVAILABLE, "not-now"),
    ErrorCode.NOT_LEADER_OR_FOLLOWER: (HTTPStatus.SERVICE_UNAVAILABLE, "not-ready"),
}
"""Others are 503, too: nothing is known to be wrong with the request."""

_NEXT_STEP: Final = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Send less at once, or raise the topic's max.message.bytes.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Correct the records; nothing was appended.",
    HTTPStatus.FORBIDDEN: "Choose another topic.",
    HTTPStatus.NOT_FOUND: "'dafka topics create NAME' makes one.",
    HTTPStatus.CONFLICT: "Go on at the sequence that was answered last, or take a new producer.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Try again in a moment; nothing was appended.",
}


class _WouldWait(Exception):
    """The batch cannot be appended at once."""


def _refuse_to_wait() -> None:
    raise _WouldWait


async def append(
    server: Server, partition: Partition, batch: bytes, host: str, *, expected_end: int | None = None
) -> Append:
    """Append the batch and wait until it is durable (acks=all). With `expected_end` only if the log ends
    there. Raises Failure.
    """
    broker = server.context.broker
    records = memoryview(bytearray(batch))
    body = ProduceRequest(
        None,
        ALL,
        DURABLE_MS,
        [ProduceTopic(partition.topic.name, None, [ProducePartition(partition.index, records)])],
    )
    request = Request(
        RequestHeader(ApiKey.PRODUCE, PRODUCE_VERSION, 0, CLIENT_ID, 0, True),
        body,
        records,
        ("", 0),
        host,
        server.context.shutting_down,
        arrived=trio.current_time(),
        client=client_of(host),
    )
    request.access = _ACCESS
    if expected_end is not None:
        if not partition.available:  # where it ends may not be known yet
            partition.asked_for()
            raise refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition.reason)
        if partition.next_offset != expected_end:
            raise _other_end(expected_end, partition.next_offset)
        request.before_waiting = _refuse_to_wait
    try:
        pending = await begin(request, broker)
    except _WouldWait:
        raise Failure(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            "too-large",
            "the batch is too large to be appended in one step, which If-Match needs",
            "Send at most 64 KiB and 1,000 records with If-Match; not to a topic with a codec of its own.",
        ) from None
    if not pending.ready:
        over = trio.Event()
        pending.when_ready(over.set)
        try:
            await over.wait()
        finally:
            pending.forget()
    ((_, ((_, outcome),)),) = pending.appending.topics
    return _judged(outcome)


def _judged(outcome: Append | RefusedBatch) -> Append:
    """The append, if it is durable. Raises Failure."""
    if isinstance(outcome, RefusedBatch):
        raise refusal(outcome.code, outcome.said)
    if not outcome.done:
        raise Failure(
            HTTPStatus.GATEWAY_TIMEOUT,
            "not-durable",
            NOT_IN_TIME,
            "It may still become durable: repeat it with the same Idempotency-Key, or read the log's end.",
        )
    if outcome.error is not ErrorCode.NONE:
        raise refusal(outcome.error, outcome.message)
    return outcome


def refusal(code: ErrorCode, message: str | None) -> Failure:
    """What a Kafka error is here."""
    status, kind = _STATUS.get(code, (HTTPStatus.SERVICE_UNAVAILABLE, "not-now"))
    detail = f"{code.name}: {message}" if message else code.name
    again = (("Retry-After", "1"),) if status is HTTPStatus.SERVICE_UNAVAILABLE else ()
    return Failure(status, kind, detail, _NEXT_STEP[status], again)


def _other_end(expected: int, end: int) -> Failure:
    return Failure(
        HTTPStatus.PRECONDITION_FAILED,
        "other-end",
        f"the log ends at {end}, and not at {expected}",
        "Read what was appended meanwhile, and decide again.",
        (("ETag", f'"{end}"'),),
    )


async def is_same(view: View, partition: Partition, batch: bytes, offset: int) -> bool:
    """Whether the batch at `offset` has the same records as this one, so far as it can still be told."""
    try:
        for stored in await partition.look(offset, 1):
            header, wanted = read_header(stored), read_header(batch)
            if header.base_offset != offset or header.count != wanted.count:
                return True  # compacted, or gone: there is nothing to compare with
            body, wanted_body = await inflated(stored, header), await inflated(batch, wanted)
            async with view.turns.working():
                pairs = zip(outlines(body, header), outlines(wanted_body, wanted), strict=True)
                for one, other in pairs:
                    if (one.key, one.value) != (other.key, other.value):
                        return False
                    headers = partial(first_headers, most=one.header_count)
                    if headers(body, one) != headers(wanted_body, other):
                        return False
                    await view.turns.breathe()
            break
    except (KafkaError, InvalidBatch):
        pass  # it cannot be read now, and was acknowledged
    return True
