"""A request's body to one batch of records, a turn of little work at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from gateway.http.connection import body_too_large
from gateway.http.failures import Failure
from gateway.http.limits import KIB
from gateway.http.lines import BadLine, bad_record, parse_line
from wireproto.records.builder import GrowingBatch

if TYPE_CHECKING:
    from gateway.http.turns import Turns

MAX_LINE_BYTES: Final = 128 * KIB
"""Bytes of one line: two milliseconds of it, whatever it holds. A larger record is sent raw."""

MAX_APPENDED_RECORDS: Final = 10_000
"""Records of one request."""

RAW: Final = "application/octet-stream"
NDJSON: Final = "application/x-ndjson"


@dataclass(slots=True)
class Made:
    """The records of one request."""

    batch: GrowingBatch
    keys: set[bytes | None]


async def batch_of_lines(body: bytes, most: int, now_ms: int, turns: Turns) -> Made:
    """The batch of a body of lines, of `most` bytes at most. Raises Failure."""
    made = Made(GrowingBatch(), set())
    async with turns.working():
        for number, line in _lines(body):
            if len(line) > MAX_LINE_BYTES:
                raise bad_record(
                    number, f"it has more than {MAX_LINE_BYTES} bytes: send the record by itself, as {RAW}"
                )
            if not line.strip():
                continue
            if made.batch.count >= MAX_APPENDED_RECORDS:
                raise _too_many()
            try:
                fields = parse_line(line, now_ms)
            except BadLine as error:
                raise bad_record(number, error) from None
            made.batch.append(fields)
            made.keys.add(fields[0])
            if made.batch.size > most:
                raise body_too_large(most)
            await turns.breathe()
    if not made.batch.count:
        raise bad_record(1, "there is no record")
    return made


def batch_of_one(body: bytes, key: bytes | None, most: int, now_ms: int) -> Made:
    """The batch of a body that is one value. Raises Failure."""
    made = Made(GrowingBatch(), {key})
    made.batch.append((key, body, (), now_ms))
    if made.batch.size > most:
        raise body_too_large(most)
    return made


def _lines(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Each line, and its number from 1 on, one at a time."""
    start, number = 0, 0
    while start < len(body):
        end = body.find(b"\n", start)
        if end < 0:
            end = len(body)
        number += 1
        yield number, body[start:end]
        start = end + 1


def _too_many() -> Failure:
    return Failure(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "too-large",
        f"there are more than {MAX_APPENDED_RECORDS} records",
        "Send them in several requests.",
    )
