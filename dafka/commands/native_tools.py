"""`dafka produce` and `dafka consume`: a native producer or consumer as a process, lines in or lines out."""

import logging
import os
import signal
import sys
from collections.abc import AsyncIterator

import trio

from dafka.processes.mesh_keys import keys_of
from dafka.settings import NativeSettings
from mesh.beacon import Beacon
from mesh.joining import join_mesh
from mesh.keys.directory import KeysRefused
from mesh.keys.roles import Role
from mesh.native.consumer import NativeConsumer
from mesh.native.producer import NativeProducer
from mesh.node import Node
from mesh.protocol.native_order import Delivery
from mesh.zmq_trio import Context

READ_BYTES = 64 * 1024
"""Bytes read from standard input at a time."""

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Longest line that becomes a record."""

POLL_SECONDS = 0.05
"""How often it is looked whether a tower is there."""

WARN_SECONDS = 10.0
"""How often it is said that a producer waits because nothing is acknowledged."""

SETTLE_SECONDS = 1.0
"""Pause between the first link to a tower and the first record: consumers that are there hear it then."""

SETTLE_LONGEST_SECONDS = 3.0
"""How long a tower is waited for before the first record all the same: stores get it later."""

LINGER_SECONDS = 0.2
"""Pause between the last acknowledgement and the end: what is on its way to consumers arrives."""

EXIT_NOT_ACKNOWLEDGED = 2
"""The exit code of `dafka produce` without enough stores, or with a line that is too long."""

logger = logging.getLogger(__name__)


class NotAcknowledged(Exception):
    """Records that may be lost; the text says which, why, and what to do."""

    exit_code = EXIT_NOT_ACKNOWLEDGED


class LineTooLong(Exception):
    """A line of standard input cannot be a record."""

    exit_code = EXIT_NOT_ACKNOWLEDGED


def join(context: Context, node: Node, settings: NativeSettings) -> Beacon:
    """Bind a node and have it meet the others; run the beacon. Raises EndpointTaken."""
    return join_mesh(
        context,
        node,
        settings.mesh_listen,
        settings.tower,
        settings.mesh_advertise,
        insecure=settings.insecure_mesh,
    )


# produce ---------------------------------------------------------------------------------------------------


def produce(settings: NativeSettings, subject: str, stores: int, wait_seconds: float) -> None:
    """Each line of standard input becomes a record. Returns when `stores` stores have acknowledged all.

    Raises KeysRefused; NotAcknowledged, LineTooLong, EndpointTaken, possibly in an exception group.
    """
    keys = keys_of(settings, Role.PRODUCER)
    if keys is not None and not keys.own.may_publish(subject):
        raise KeysRefused(
            f"{keys.path} may not publish {subject!r}: its key has the subjects "
            f"{', '.join(keys.own.subjects)}. Make one with --subject {subject}: 'dafka keys init'"
        )
    context = Context(keys)
    try:
        trio.run(_produce, context, settings, subject, stores, wait_seconds)
    finally:
        context.close()


async def _produce(
    context: Context, settings: NativeSettings, subject: str, stores: int, wait_seconds: float
) -> None:
    producer = NativeProducer(context, subject, stores)
    beacon = join(context, producer.node, settings)
    reading = trio.CancelScope()
    acknowledged = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(context.run)
        await nursery.start(producer.run)
        await nursery.start(beacon.run)
        await nursery.start(_stop_reading, reading)
        nursery.start_soon(_complain, producer)
        with reading:
            await _settle(beacon)
            async for line in _lines():
                await producer.produce(line)
        with trio.move_on_after(wait_seconds):
            await producer.drained()
            acknowledged = True
            await trio.sleep(LINGER_SECONDS)
        nursery.cancel_scope.cancel()
    if not acknowledged:
        raise NotAcknowledged(_what_is_missing(producer, beacon, wait_seconds))


async def _settle(beacon: Beacon) -> None:
    """Wait until whoever is on the mesh has had the time to connect."""
    for _ in range(int(SETTLE_LONGEST_SECONDS / POLL_SECONDS)):
        if any(tower.connected for tower in beacon.towers):
            await trio.sleep(SETTLE_SECONDS)
            return
        await trio.sleep(POLL_SECONDS)


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


async def _complain(producer: NativeProducer) -> None:
    acknowledged = -1
    while True:
        await trio.sleep(WARN_SECONDS)
        writer = producer.writer
        if len(writer) and writer.acknowledged == acknowledged:
            logger.warning("%d records wait: no store has acknowledged anything for a while", len(writer))
        acknowledged = writer.acknowledged


def _what_is_missing(producer: NativeProducer, beacon: Beacon, wait_seconds: float) -> str:
    writer = producer.writer
    linked = sum(peer.state == "connected" for peer in beacon.peers)
    stores = "a store" if writer.stores == 1 else f"{writer.stores} stores"
    return (
        f"{len(writer)} of {writer.next_sequence} records were not acknowledged by {stores} within "
        f"{wait_seconds:g} s (sequences {writer.acknowledged + 1} to {writer.next_sequence - 1} of address "
        f"{writer.address}): they may be kept or not. {linked} other nodes are linked: is 'dafka store' "
        "running with the same --tower?"
    )


async def _lines() -> AsyncIterator[bytes]:
    """The lines of standard input, without their ends. Raises LineTooLong."""
    rest = b""
    while data := await trio.to_thread.run_sync(
        os.read, sys.stdin.fileno(), READ_BYTES, abandon_on_cancel=True
    ):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
        if len(rest) > MAX_LINE_BYTES:
            raise LineTooLong(f"a line is longer than {MAX_LINE_BYTES} bytes: a record is no larger")
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
    context = Context(keys_of(settings, Role.READER))
    consumer = NativeConsumer(context, subject, from_beginning=from_beginning)
    try:
        trio.run(_consume, context, consumer, settings, with_address, max_records)
    except BaseExceptionGroup as group:
        if group.split(BrokenPipeError)[1] is None:
            raise BrokenPipeError from None  # who read our lines went away
        raise
    finally:
        context.close()
    if consumer.order.skipped:
        logger.warning("%d records were skipped: no store had them any more", consumer.order.skipped)


async def _consume(
    context: Context,
    consumer: NativeConsumer,
    settings: NativeSettings,
    with_address: bool,
    max_records: int,
) -> None:
    beacon = join(context, consumer.node, settings)
    async with trio.open_nursery() as nursery:
        await nursery.start(_stop, nursery.cancel_scope)
        nursery.start_soon(context.run)
        await nursery.start(consumer.run)
        await nursery.start(beacon.run)
        written = 0
        while not max_records or written < max_records:
            delivery = await consumer.receive()
            written += 1
            _write(consumer.order.subject, delivery, with_address)
            if not consumer.order.ready:
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
