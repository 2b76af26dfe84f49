"""A server that is treated badly, and a good client that must not notice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.clients.stored import create_topic, put, stored_records
from tests.differential.batches import Record
from tests.differential.wire import Connection, decode, frame, header
from tests.peers.standalone import Standalone

MIB = 1024 * 1024
ANSWER_SECONDS = 30.0


class Victim:
    """A running server with a topic of its good client's."""

    def __init__(self, server: Standalone) -> None:
        self.server = server
        self._numbers = itertools.count()
        self._topic = create_topic(server.bootstrap, "good-client", 1)
        self._written: list[Record] = []

    @property
    def bootstrap(self) -> str:
        return self.server.bootstrap

    def connect(self) -> Connection:
        return Connection(self.bootstrap, timeout=ANSWER_SECONDS)

    def new_topic(self, partitions: int = 1, **configs: str) -> str:
        return create_topic(self.bootstrap, f"t{next(self._numbers)}", partitions, **configs)

    def check(self) -> None:
        """The good client writes one more record and finds all of its own."""
        assert self.server.returncode is None, self.server.tail()
        record = Record(b"good %d" % len(self._written))
        put(self.bootstrap, self._topic, [record])
        self._written.append(record)
        assert [found for _, found in stored_records(self.bootstrap, self._topic)] == self._written

    def answer_to(self, data: bytes) -> bytes | None:
        """What comes back for these bytes on a connection of their own; None: the server hung up."""
        with self.connect() as connection:
            try:
                connection.send(data)
                return connection.receive()
            except ConnectionError:
                return None

    def ask_body(self, api_key: int, version: int, body: bytes) -> Any:
        """The decoded answer to a body behind a good header; None: the server hung up."""
        answer = self.answer_to(frame(header(api_key, version) + body))
        return None if answer is None else decode(api_key, version, answer)

    @property
    def peak_bytes(self) -> int:
        """The most memory that was ever resident (VmHWM)."""
        for line in Path(f"/proc/{self.server.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmHWM")

    @contextmanager
    def bounded(self, more_bytes: int) -> Iterator[None]:
        """What is done inside costs no more memory than this, and the good client is served after it."""
        # The peak so far is forgotten, so that only what comes now counts.
        Path(f"/proc/{self.server.pid}/clear_refs").write_text("5")
        before = self.server.rss_bytes
        yield
        self.check()
        grown = self.peak_bytes - before
        assert grown < more_bytes, f"{grown / MIB:.1f} MiB more than before, {more_bytes / MIB:.0f} allowed"
