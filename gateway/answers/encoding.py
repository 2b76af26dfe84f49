"""Framed answers: encoded at once, or in a worker thread where they are large."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import trio

from gateway.common.handlers import Request
from wireproto.kafka.responses import encode_response

MANY_ELEMENTS: Final = 4096
"""Elements of an answer above which it is encoded in a worker thread: some ten milliseconds of work."""

_R = TypeVar("_R")


def answer(request: Request, response: Any) -> bytes:
    """The framed answer to `request`: an instance of kafka-python's class, in the request's version."""
    return encode_response(response, request.header.api_version, request.header.correlation_id)


async def encoded(elements: int, encode: Callable[[], _R]) -> _R:
    """`encode()`, in a worker thread if the answer has many elements.

    Encoding cannot pause: 200,000 configs would keep every other client waiting for a second.
    """
    return encode() if elements <= MANY_ELEMENTS else await trio.to_thread.run_sync(encode)


async def answer_of(elements: int, request: Request, response: Any) -> bytes:
    """As :func:`answer`, for answers that may be large."""
    return await encoded(elements, partial(answer, request, response))
