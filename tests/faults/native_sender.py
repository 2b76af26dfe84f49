"""A native producer as a program that is killed: it publishes numbered records, and notes how many of them
are acknowledged.

    python -m tests.faults.native_sender SUBJECT HOST:IN:OUT STORES FILE

It says "ready" once SIGTERM ends it in order: then everything is acknowledged, or it says what is not.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TextIO

import trio

import dafka

PAUSE_SECONDS = 0.002
NOTE_SECONDS = 0.02
"""Between two notes: what was acknowledged since the last one may be there or not."""


def content_of(address: str, number: int) -> bytes:
    return b"%s %d" % (address.encode(), number)


async def send(subject: str, tower: str, stores: int, path: Path) -> None:
    """Until SIGTERM."""
    with path.open("a") as file, trio.open_signal_receiver(signal.SIGTERM) as received:
        print("ready", flush=True)
        async with (
            dafka.Producer(subject, tower=tower, stores=stores, wait_seconds=60) as producer,
            trio.open_nursery() as nursery,
        ):

            async def publish() -> None:
                for number in range(sys.maxsize):
                    await producer.produce(content_of(producer.address, number))
                    published[0] = number + 1
                    await trio.sleep(PAUSE_SECONDS)

            async def note_all() -> None:
                while True:
                    note(file, producer, published[0])
                    await trio.sleep(NOTE_SECONDS)

            published = [0]
            nursery.start_soon(publish)
            nursery.start_soon(note_all)
            await anext(received)
            nursery.cancel_scope.cancel()
        note(file, producer, published[0])


def note(file: TextIO, producer: dafka.Producer, published: int) -> None:
    print(producer.address, published - producer.unacknowledged, file=file, flush=True)


if __name__ == "__main__":
    trio.run(send, sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
