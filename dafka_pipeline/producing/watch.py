"""Ends a producer that must not go on: its server does not answer, its lease is over, its executor is gone.

Without transactions the records of a task must be in the target as a prefix of what was sent. librdkafka
gives up each record when its own time is over, and sends those behind it all the same: that would be a hole.
So a thread of our own looks after the oldest record that is not acknowledged yet, and throws away the whole
queue before librdkafka drops one.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Final

from dafka_pipeline.producing.plan import Timing

LOOK_SECONDS: Final = 0.25


class Watch:
    """Looks after one producer from a thread, until it is closed.

    until: seconds since 1970 at which the producer must end.
    ended: why it was ended; empty while it may go on. Nothing may be produced once it is set.
    failure: what ended the producer by itself, e.g. a record that the server refuses for good; else None.
    """

    def __init__(self, producer: Any, timing: Timing, until: float) -> None:
        self._producer = producer
        self._timing = timing
        self._until = until
        self._parent = os.getppid()
        self._pieces = 0
        self._waiting: dict[int, float] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._serving = threading.Lock()
        self.ended = ""
        self.failure: Any = None
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)
        self._thread.start()

    def queued(self) -> int:
        """A piece is about to be given to the producer; its number."""
        with self._lock:
            self._pieces += 1
            self._waiting[self._pieces] = time.monotonic()
            return self._pieces

    def acknowledged(self, piece: int) -> None:
        """A piece has arrived whole; those of another partition may have been queued before it."""
        with self._lock:
            del self._waiting[piece]

    @property
    def waiting(self) -> int:
        """Pieces that are not acknowledged."""
        return len(self._waiting)

    def oldest_seconds(self) -> float:
        """How long the oldest piece has waited; 0 where none does."""
        with self._lock:
            first = next(iter(self._waiting.values()), None)
        return 0.0 if first is None else time.monotonic() - first

    def serve(self, seconds: float) -> None:
        """Run the producer's callbacks. One thread at a time: two would run them out of order."""
        from confluent_kafka import KafkaException

        with self._serving:
            try:
                self._producer.poll(seconds)
            except KafkaException as error:
                # A producer that can never go on says so to whichever thread asks first.
                self.failure = self.failure or error

    def end(self, why: str) -> None:
        """Throw away what is queued. What is on its way may still arrive."""
        if not self.ended:
            self.ended = why
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)

    def check(self) -> str:
        """Why the producer has ended; empty when it may go on."""
        if self.ended:
            return self.ended
        if time.time() >= self._until:
            self.end("its time was over")
        elif os.getppid() != self._parent:
            self.end("its executor has gone")
        elif self.oldest_seconds() > self._timing.stall:
            self.end(f"a record was not acknowledged for {self._timing.stall:g} s")
        return self.ended

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            # Serves the callbacks, too: the task may wait for its input meanwhile.
            self.serve(0)
            if self.check():
                return
