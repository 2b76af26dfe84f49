"""The other side of a channel, in the test's hands."""

from __future__ import annotations

from typing import Any

import trio
from trio.testing import memory_stream_pair

from gateway.leadership.records import Address
from tests.unit.gateway.peers.answers import framed, versions_answer
from wireproto.kafka.headers import RequestHeader, parse_request_header
from wireproto.kafka.requests import decode_request


class OtherSide:
    """One connection that was opened to it. Everything is read as a gateway reads it."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._received = bytearray()

    async def request(self) -> tuple[RequestHeader, Any]:
        """The next one, and its body as kafka-python's class."""
        size = int.from_bytes(await self._read(4), "big")
        frame = memoryview(await self._read(size))
        header = parse_request_header(frame)
        return header, decode_request(header.api_key, header.api_version, frame, header.body_offset)

    async def greet(self) -> None:
        """Say what it has."""
        header, _ = await self.request()
        assert header.api_key == 18
        await self.answer(header, versions_answer())

    async def answer(self, header: RequestHeader, answer: Any) -> None:
        await self.stream.send_all(framed(answer, header.api_version, header.correlation_id))

    async def _read(self, size: int) -> bytes:
        while len(self._received) < size:
            received = await self.stream.receive_some(1 << 16)
            assert received, "the connection was closed"
            self._received += received
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken


class Listener:
    """Where connections are opened. `refuses`: nobody listens."""

    def __init__(self) -> None:
        self.refuses = False
        self.opened: list[Address | None] = []
        self.opened_at: list[float] = []
        self._send, self._receive = trio.open_memory_channel[OtherSide](100)

    async def open(self, address: Address | None = None) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        self.opened.append(address)
        self.opened_at.append(trio.current_time())
        if self.refuses:
            raise ConnectionRefusedError("Connection refused")
        ours, theirs = memory_stream_pair()
        self._send.send_nowait(OtherSide(theirs))
        return ours

    async def accept(self) -> OtherSide:
        return await self._receive.receive()
