"""Programs read the records of a partition from an offset on, and wait for more at its end."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from gateway.http.batches import NDJSON
from gateway.http.connection import Answer
from gateway.http.failures import Failure, bad_parameter
from gateway.http.limits import MAX_STREAMS
from gateway.http.record_stream import EVENTS, RecordStream
from gateway.http.router import Ask, Parameter, Route
from gateway.http.routes.topics import find_partition, find_topic
from gateway.http.target import whole_number

if TYPE_CHECKING:
    from gateway.log.partition import Partition

MAX_READ_RECORDS: Final = 1_000_000_000
"""Records that one request may ask for: it says how many, and is served a little at a time."""

USUAL_READ_RECORDS: Final = 1000
"""Records of an answer that does not wait for more."""

OFFSET_WANTED: Final = "earliest, latest or an offset"


async def records(ask: Ask) -> Answer:
    """The route."""
    view, target = ask.view, ask.target
    target.only("offset", "limit", "block")
    partition = find_partition(find_topic(view, ask.places["topic"]), ask.places["partition"])
    if view.hide_values:
        raise Failure(
            HTTPStatus.FORBIDDEN,
            "values-hidden",
            "the gateway runs with --http-no-values",
            "Read with a Kafka client.",
        )
    server = view.kafka()
    if server is None or not partition.available:
        raise Failure(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "not-ready",
            partition.reason or "the gateway recovers",
            "Try again in a moment.",
            (("Retry-After", "1"),),
        )
    block = target.choice("block", ("false", "true")) == "true"
    limit = target.number("limit", MAX_READ_RECORDS if block else USUAL_READ_RECORDS, 1, MAX_READ_RECORDS)
    offset = _begin(ask, partition)
    as_events = EVENTS in ask.headers.get(b"accept", b"").decode("latin-1")
    if view.streams >= MAX_STREAMS:
        raise Failure(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "crowded",
            f"{view.streams} streams are open already",
            "Close one, or come again.",
            (("Retry-After", "10"),),
        )
    stream = RecordStream(view, server, ask.host, partition, offset, limit, block=block, as_events=as_events)
    headers = [
        ("Content-Type", EVENTS if as_events else NDJSON),
        ("Cache-Control", "no-store"),
        ("X-Accel-Buffering", "no"),
        ("ETag", f'"{partition.high_watermark}"'),
        ("Dafka-Start-Offset", str(partition.log_start_offset)),
        ("Dafka-End-Offset", str(partition.high_watermark)),
    ]
    return Answer(HTTPStatus.OK, headers, stream=stream.run)


def _begin(ask: Ask, partition: Partition) -> int:
    """The offset to begin at; a stream that is resumed has its own. Raises Failure."""
    start, end = partition.log_start_offset, partition.high_watermark
    text = ask.target.text("offset", "earliest")
    resumed = ask.headers.get(b"last-event-id", b"").decode("latin-1")
    if resumed:
        text = resumed
    if text == "earliest":
        return start
    if text == "latest":
        return end
    offset = whole_number(text)
    if offset is None:
        raise bad_parameter("Last-Event-ID" if resumed else "offset", text, OFFSET_WANTED)
    if not start <= offset <= end:
        raise Failure(
            HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
            "offset-out-of-range",
            f"the log has offsets from {start} up to {end}, and not {offset}",
            "Begin at earliest or latest; what is before was deleted by retention.",
        )
    return offset


ROUTES: Final = (
    Route(
        "topics/{topic}/partitions/{partition}/records",
        "Read records from an offset on.",
        records,
        (
            Parameter("offset", {"type": "string", "default": "earliest"}, OFFSET_WANTED),
            Parameter("limit", {"type": "integer", "minimum": 1, "maximum": MAX_READ_RECORDS}),
            Parameter(
                "block",
                {"type": "string", "enum": ["false", "true"], "default": "false"},
                "Wait for more at the end.",
            ),
        ),
        content_type=NDJSON,
    ),
)
