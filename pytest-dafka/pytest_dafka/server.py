"""What a test sees of a server: its address, its topics and what is in them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from dafka.commands.kafka_reader import StoredRecord
from pytest_dafka.admin import Admin
from pytest_dafka.chaos import Chaos
from pytest_dafka.process import CHAOS

WAIT_SECONDS = 10.0
"""How long records are waited for, unless a test says otherwise."""

POLL_MS = 200

KEYS = {"confluent": "bootstrap.servers", "java": "bootstrap.servers"}
KEYS |= {"kafka-python": "bootstrap_servers", "aiokafka": "bootstrap_servers"}


class Server:
    """A running server. `bootstrap` is HOST:PORT; `directory` has its log, None for somebody else's."""

    def __init__(self, bootstrap: str, directory: Path | None) -> None:
        self.bootstrap = bootstrap
        self.directory = directory

    def get_bootstrap_server(self) -> str:
        """`bootstrap`, by the name that testcontainers has for it."""
        return self.bootstrap

    def config(self, client: str = "confluent", **more: Any) -> dict[str, Any]:
        """What configures a client, "confluent", "kafka-python", "aiokafka" or "java", with `more` in it.

        Raises KeyError for another one.
        """
        return {KEYS[client]: self.bootstrap} | more

    @cached_property
    def admin(self) -> Admin:
        """Topics, groups and lags."""
        return Admin(self.bootstrap)

    def chaos(self) -> Chaos:
        """Faults on order. Raises ValueError for a server that takes none."""
        if self.directory is None:
            raise ValueError(f"{self.bootstrap} is somebody else's server, and takes no orders to fail")
        return Chaos(self.directory / CHAOS)

    def records(self, topic: str) -> list[StoredRecord]:
        """All records of a topic that are there now, by partition and offset."""
        return self.admin.records(topic)

    def wait_for(self, topic: str, count: int, seconds: float = WAIT_SECONDS) -> list[StoredRecord]:
        """All records of a topic, once there are `count`. Raises AssertionError if that takes too long."""
        deadline = time.monotonic() + seconds
        found: list[StoredRecord] = []
        with self.admin.reader(topic) as reader:
            while len(found) < count:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise AssertionError(
                        f"{topic} has {len(found)} records after {seconds:g} s, not {count}:\n{shown(found)}"
                    )
                found += reader.poll(min(POLL_MS, max(1, int(left * 1000))))
            while not reader.at_end():
                found += reader.poll(0)
        return in_order(found)


class Topic(str):
    """A topic of a test's own: its name, and what is in it."""

    __slots__ = ("server",)
    server: Server

    def __new__(cls, name: str, server: Server) -> Self:
        topic = super().__new__(cls, name)
        topic.server = server
        return topic

    @property
    def name(self) -> str:
        return str(self)

    def records(self) -> list[StoredRecord]:
        """As `Server.records`."""
        return self.server.records(self)

    def wait_for(self, count: int, seconds: float = WAIT_SECONDS) -> list[StoredRecord]:
        """As `Server.wait_for`."""
        return self.server.wait_for(self, count, seconds)


def in_order(records: Iterable[StoredRecord]) -> list[StoredRecord]:
    """By partition and offset."""
    return sorted(records, key=lambda one: (one.topic, one.partition, one.offset))


def shown(records: Iterable[StoredRecord]) -> str:
    """A line for each record."""
    return "\n".join(
        f"  {one.topic}-{one.partition}@{one.offset}  {_short(one.key)} -> {_short(one.value)}"
        + (f"  {dict(one.headers)}" if one.headers else "")
        for one in records
    )


def _short(data: bytes | None, most: int = 200) -> str:
    if data is None:
        return "null"
    text = repr(data.decode()) if data.isascii() else repr(data)
    return text if len(text) <= most else f"{text[:most]}... ({len(data)} bytes)"
