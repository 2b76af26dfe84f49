"""A native consumer in a thread that reads the values of a published topic from the beginning."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import trio

import dafka
from mesh.protocol.native_order import Delivery

START_SECONDS = 60.0


class ReadValues:
    """What a reader of a published topic was given."""

    def __init__(self) -> None:
        self.values: defaultdict[int, list[bytes]] = defaultdict(list)
        """By partition, from its first offset on."""
        self.wrong: list[str] = []

    def has(self, expected: Mapping[int, Sequence[bytes]], seconds: float) -> bool:
        """Whether it has just this, once it has as much, or after so long."""
        deadline = time.monotonic() + seconds
        while any(len(self.values[one]) < len(wanted) for one, wanted in expected.items()):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        found = {partition: values for partition, values in self.values.items() if values}
        return found == {one: list(wanted) for one, wanted in expected.items() if wanted}


class NativeReader(ReadValues):
    """A context manager. What it is given of each partition must come in order, with no offset left out."""

    def __init__(self, subject: str, tower: str) -> None:
        super().__init__()
        self._subject, self._tower = subject, tower
        self._scope = trio.CancelScope()
        self._token: trio.lowlevel.TrioToken | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._run,))

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(START_SECONDS), "it does not start"
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        assert self._token is not None
        self._token.run_sync_soon(self._scope.cancel)
        self._thread.join()

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            async with dafka.Consumer(self._subject, from_beginning=True, tower=self._tower) as records:
                self._started.set()
                async for record in records:
                    self._take(record)

    def _take(self, record: Delivery) -> None:
        values = self.values[int(record.address.rpartition("-")[2])]
        if record.sequence != len(values):
            self.wrong.append(f"{record.address}: {record.sequence} comes where {len(values)} is next")
        values.append(record.content)
