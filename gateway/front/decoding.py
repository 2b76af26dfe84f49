"""From a frame to its decoded body: with the memory that this takes, and beside the loop if it takes long."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import trio

from gateway.front.context import ConnectionContext
from gateway.front.dispatch import Route
from gateway.front.limits import (
    DECODED_BYTES_PER_BYTE,
    FREE_ELEMENTS,
    MIN_COUNTED_REQUEST_BYTES,
    PRODUCED_ELEMENT_BYTES,
)
from gateway.front.memory import ConnectionMemory
from wireproto.kafka.headers import RequestHeader
from wireproto.kafka.produce import MAX_PRODUCED_ELEMENTS, ManyPartitions


async def decode_produce(
    context: ConnectionContext,
    memory: ConnectionMemory,
    route: Route,
    header: RequestHeader,
    frame: memoryview,
    flush: Callable[[], object],
) -> tuple[Any, int]:
    """The body of a Produce, and the bytes of `memory.produced` that were taken for it.

    Calls `flush` before it waits. Raises MalformedRequest.
    """
    try:
        body = context.dispatcher.decode(route, header, frame)
    except ManyPartitions:
        size = MAX_PRODUCED_ELEMENTS * PRODUCED_ELEMENT_BYTES
        await memory.produced.take(size, flush)
        flush()
        decode = partial(context.dispatcher.decode_large, route, header, frame)
        return await trio.to_thread.run_sync(decode, limiter=context.decoding), size
    size = max(0, body.elements - FREE_ELEMENTS) * PRODUCED_ELEMENT_BYTES
    if size:
        await memory.produced.take(size, flush)
    return body, size


async def decode_other(
    context: ConnectionContext,
    memory: ConnectionMemory,
    route: Route,
    header: RequestHeader,
    frame: memoryview,
    flush: Callable[[], object],
) -> Any:
    """The body of a request other than a Produce, whose turn has come; its memory is in `memory.decoded`.

    Calls `flush` before it waits. Raises MalformedRequest.
    """
    dispatcher, size = context.dispatcher, len(frame)
    if size >= MIN_COUNTED_REQUEST_BYTES:
        await memory.decoded.take(size * DECODED_BYTES_PER_BYTE, flush)
    if not dispatcher.takes_long(route, frame):
        return dispatcher.decode(route, header, frame)
    flush()
    decode = partial(dispatcher.decode, route, header, frame)
    return await trio.to_thread.run_sync(decode, limiter=context.decoding)
