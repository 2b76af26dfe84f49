"""`dafka produce` and `dafka consume`: a native producer or consumer as a process, lines in or lines out."""

import logging
import os
import signal
import sys
from collections.abc import AsyncIterator

import trio

from dafka.native import MAX_RECORD_BYTES, Consumer, Producer
from dafka.settings import NativeSettings
from mesh.protocol.native_order import Delivery

READ_BYTES = 64 * 1024
"""Bytes read from standard input at a time."""

EXIT_NOT_ACKNOWLEDGED = 2
"""The exit code of `dafka produce` with a line that is too long, as with too few stores."""

logger = logging.getLogger(__name__)


class LineTooLong(Exception):
    """A line of standard input cannot be a record."""

    exit_code = EXIT_NOT_ACKNOWLEDGED


# produce ---------------------------------------------------------------------------------------------------


def produce(settings: NativeSettings, subject: str, stores: int, wait_seconds: float) -> None:
    """Each line of standard input becomes a record. Returns when `stores` stores have acknowledged all.

    Raises KeysRefused; NotAcknowledged, LineTooLong, EndpointTaken, possibly in an exception group.
    """
    trio.run(_produce, Producer(subject, stores=stores, wait_seconds=wait_seconds, settings=settings))


async def _produce(producer: Producer) -> None:
    reading = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        await nursery.start(_stop_reading, reading)
        async with producer:
            with reading:
                async for line in _lines():
                    await producer.produce(line)
        nursery.cancel_scope.cancel()


async def _stop_reading(
    reading: trio.CancelScope, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """The first signal ends the input; the second one the process."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
        task_status.started()
        await anext(received)
        reading.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        await trio.sleep_forever()


async def _lines() -> AsyncIterator[bytes]:
    """The lines of standard input, without their ends. Raises LineTooLong."""
    rest = b""
    while data := await trio.to_thread.run_sync(
        os.read, sys.stdin.fileno(), READ_BYTES, abandon_on_cancel=True
    ):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
        if len(rest) > MAX_RECORD_BYTES:
            raise LineTooLong(f"a line is longer than {MAX_RECORD_BYTES} bytes: a record is no larger")
    if rest:
        yield rest


# consume ---------------------------------------------------------------------------------------------------


def consume(
    settings: NativeSettings, subject: str, *, from_beginning: bool, with_address: bool, max_records: int
) -> None:
    """Write each record as a line to standard output, until a signal, or until there were `max_records` (0:
    for ever).

    Raises EndpointTaken and BrokenPipeError, possibly in an exception group.
    """
    consumer = Consumer(subject, from_beginning=from_beginning, settings=settings)
    try:
        trio.run(_consume, consumer, subject, with_address, max_records)
    except BaseExceptionGroup as group:
        if group.split(BrokenPipeError)[1] is None:
            raise BrokenPipeError from None  # who read our lines went away
        raise
    if consumer.skipped:
        logger.warning("%d records were skipped: no store had them any more", consumer.skipped)


async def _consume(consumer: Consumer, subject: str, with_address: bool, max_records: int) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(_stop, nursery.cancel_scope)
        written = 0
        async with consumer:
            while not max_records or written < max_records:
                delivery = await consumer.receive()
                written += 1
                _write(subject, delivery, with_address)
                if not consumer.has_more:
                    sys.stdout.buffer.flush()
        nursery.cancel_scope.cancel()
    sys.stdout.buffer.flush()


def _write(subject: str, delivery: Delivery, with_address: bool) -> None:
    address, _, content = delivery
    prefix = f"{subject} {address} ".encode() if with_address else b""
    sys.stdout.buffer.write(prefix + content + b"\n")


async def _stop(
    scope: trio.CancelScope, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
        task_status.started()
        await anext(received)
        scope.cancel()
