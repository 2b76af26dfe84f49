"""Requests of an attacker, byte by byte: whatever an attack needs and no client library would send."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Sequence
from typing import Self

from tests.differential.batches import Record, encode_record

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, FIND_COORDINATOR = 0, 1, 2, 3, 8, 10
JOIN_GROUP, CREATE_TOPICS, DESCRIBE_CONFIGS = 11, 19, 32

LOCAL_ANSWER_SECONDS = 60.0
FOREVER_MS = 2**31 - 1


def text(value: str | None) -> bytes:
    """A nullable string of the classic encoding."""
    if value is None:
        return struct.pack(">h", -1)
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def blob(value: bytes) -> bytes:
    """Bytes of the classic encoding."""
    return struct.pack(">i", len(value)) + value


def array(items: Sequence[bytes]) -> bytes:
    """An array of the classic encoding."""
    return struct.pack(">i", len(items)) + b"".join(items)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def int64(value: int) -> bytes:
    return struct.pack(">q", value)


def request(api_key: int, version: int, body: bytes, client_id: str = "attacker") -> bytes:
    """A framed request with a header of version 1."""
    header = struct.pack(">hhi", api_key, version, 1) + text(client_id)
    return struct.pack(">i", len(header) + len(body)) + header + body


def produce(topic: str, batches: Iterable[tuple[int, bytes]], *, acks: int = -1, version: int = 7) -> bytes:
    """A Produce of these batches to partitions of one topic."""
    partitions = array([int32(index) + blob(records) for index, records in batches])
    body = text(None) + struct.pack(">hi", acks, 30_000) + array([text(topic) + partitions])
    return request(PRODUCE, version, body)


def fetch(topic: str, offset: int, wait_ms: int, *, partitions: int = 1) -> bytes:
    """A Fetch 4 that waits at its offset for a megabyte."""
    wanted = array([int32(index) + int64(offset) + int32(1 << 20) for index in range(partitions)])
    body = struct.pack(">iiiib", -1, wait_ms, 1 << 20, 1 << 20, 0) + array([text(topic) + wanted])
    return request(FETCH, 4, body)


def end_offset(peer: Peer, topic: str) -> int:
    """Where partition 0 of a topic ends now (ListOffsets 1). Raises ConnectionError."""
    wanted = array([int32(0) + int64(-1)])
    peer.send(request(LIST_OFFSETS, 1, int32(-1) + array([text(topic) + wanted])))
    return int(struct.unpack(">q", peer.answer()[-8:])[0])


def commit(group: str, topic: str, partitions: Iterable[int], metadata: str = "") -> bytes:
    """An OffsetCommit 2 of a group without members."""
    wanted = array([int32(index) + int64(1) + text(metadata) for index in partitions])
    body = text(group) + int32(-1) + text("") + int64(-1) + array([text(topic) + wanted])
    return request(OFFSET_COMMIT, 2, body)


def join(group: str, metadata: bytes = b"m", *, protocols: int = 1, timeout_ms: int = 300_000) -> bytes:
    """A JoinGroup 1 of somebody new."""
    named = array([text(f"range{number}") + blob(metadata) for number in range(protocols)])
    body = text(group) + int32(30_000) + int32(timeout_ms) + text("") + text("consumer") + named
    return request(JOIN_GROUP, 1, body)


def create_topics(names: Sequence[str], partitions: int = 1, **configs: str) -> bytes:
    """A CreateTopics 2."""
    settings = array([text(name) + text(value) for name, value in configs.items()])
    topics = [text(name) + struct.pack(">ih", partitions, 1) + array([]) + settings for name in names]
    return request(CREATE_TOPICS, 2, array(topics) + struct.pack(">i?", 30_000, False))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def records(count: int, *, key: bytes | None = None, value: bytes = b"") -> bytes:
    """The bytes of so many records, not compressed."""
    base = now_ms()
    return b"".join(encode_record(Record(value, key, base), delta, base) for delta in range(count))


class Peer:
    """One connection of an attacker's."""

    def __init__(self, host: str, port: int, timeout: float = LOCAL_ANSWER_SECONDS, source: str = "") -> None:
        self.socket = socket.create_connection((host, port), timeout, (source, 0) if source else None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> int:
        """Read one answer; its size. Raises ConnectionError."""
        (left,) = size = struct.unpack(">i", self._exactly(4))
        while left > 0:
            left -= len(self._some(min(left, 1 << 20)))
        return int(size[0])

    def answer(self) -> bytes:
        """Read one answer. Raises ConnectionError."""
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def ask(self, data: bytes) -> int:
        """Send a request and read its answer; the answer's size. Raises ConnectionError."""
        self.send(data)
        return self.receive()

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            found += self._some(size - len(found))
        return found

    def _some(self, most: int) -> bytes:
        data = self.socket.recv(most)
        if not data:
            raise ConnectionError("the server hung up")
        return data
