"""From a frame to its decoded body: with the memory that this takes, and beside the loop if it takes long."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import trio

from gateway.common.costs import DECODED_KIB
from gateway.common.work import Work
from gateway.front.context import ConnectionContext
from gateway.front.dispatch import Route
from gateway.front.limits import (
    DECODED_BYTES_PER_BYTE,
    FREE_ELEMENTS,
    PRODUCED_ELEMENT_BYTES,
)
from gateway.front.memory import ConnectionMemory
from wireproto.kafka.headers import RequestHeader
from wireproto.kafka.produce import MAX_PRODUCED_ELEMENTS


async def take_produced(memory: ConnectionMemory, elements: int, flush: Callable[[], object]) -> int:
    """Takes the memory of a decoded Produce of so many elements, and says how many bytes that is.

    Calls `flush` before it waits.
    """
    size = max(0, elements - FREE_ELEMENTS) * PRODUCED_ELEMENT_BYTES
    await memory.produced.take(size, flush)
    return size


async def decode_many_partitions(
    context: ConnectionContext,
    memory: ConnectionMemory,
    route: Route,
    header: RequestHeader,
    frame: memoryview,
    flush: Callable[[], object],
) -> tuple[Any, int]:
    """The body of a Produce that raised ManyPartitions, and the bytes of `memory.produced` taken for it.

    Calls `flush` before it waits. Raises MalformedRequest.
    """
    size = await take_produced(memory, FREE_ELEMENTS + MAX_PRODUCED_ELEMENTS, flush)
    flush()
    decode = partial(context.dispatcher.decode_large, route, header, frame)
    return await trio.to_thread.run_sync(decode, limiter=context.decoding), size


async def decode_counted(
    context: ConnectionContext,
    memory: ConnectionMemory,
    work: Work,
    route: Route,
    header: RequestHeader,
    frame: memoryview,
    flush: Callable[[], object],
) -> Any:
    """The body of a request from MIN_COUNTED_REQUEST_BYTES on, other than a Produce, whose turn has come; its
    memory is in `memory.decoded`.

    Calls `flush` before it waits. Raises MalformedRequest.
    """
    dispatcher = context.dispatcher
    await memory.decoded.take(len(frame) * DECODED_BYTES_PER_BYTE, flush)
    if not dispatcher.takes_long(route, frame):
        await work.before((len(frame) >> 10) * DECODED_KIB)
        return dispatcher.decode(route, header, frame)
    flush()
    decode = partial(dispatcher.decode, route, header, frame)
    return await trio.to_thread.run_sync(decode, limiter=context.decoding)
