"""A standalone gateway inside the test's own process, for tests that reach between its parts."""

import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import pytest
import trio

from dafka.processes import life
from dafka.processes.standalone import Standalone, open_directories
from dafka.settings import Settings
from gateway.front.listeners import ListenerSpec
from mesh.links import Context

LISTEN = (ListenerSpec("PLAINTEXT", "127.0.0.1", 0),)


@asynccontextmanager
async def running(
    data: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> AsyncIterator[tuple[Standalone, int]]:
    """(the standalone, the port it serves on) while the block runs."""
    ready = trio.Event()
    ports: list[int] = []

    def say_ready(sockets: Any) -> None:
        ports.append(sockets[0].socket.getsockname()[1])
        ready.set()

    async def no_signals(*_calls: Any, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()

    monkeypatch.setattr(life, "say_ready", say_ready)
    monkeypatch.setattr(life, "watch_signals", no_signals)
    directories, context = open_directories(data), Context()
    server: Standalone | None = None
    try:
        async with trio.open_nursery() as nursery:
            # What is deleted goes at once, unless a test says otherwise.
            settings = dict[str, Any](delete_delay_ms=0, listen=LISTEN) | settings
            server = Standalone(Settings(data=data, **settings), directories, context)
            nursery.start_soon(server.main)
            with trio.fail_after(20):
                await ready.wait()
            yield server, ports[0]
            nursery.cancel_scope.cancel()
    finally:
        if server is not None:
            # As the end of the process does; a test may go on with its files.
            server.catalog._catalog._shut()  # type: ignore[attr-defined]
        context.close()
        directories.close()


class RawClient:
    """One connection: framed requests out, framed answers in."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream

    @classmethod
    async def connect(cls, port: int) -> "RawClient":
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(stream)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await trio.aclose_forcefully(self.stream)

    async def send(self, request: Any, correlation_id: int = 1) -> None:
        request.with_header(correlation_id, "test")
        await self.stream.send_all(request.encode(header=True, framed=True))

    async def receive(self, response_class: Any, version: int) -> Any:
        size = struct.unpack(">i", await self._exactly(4))[0]
        return response_class.decode(await self._exactly(size), version=version, header=True)

    async def ask(self, request: Any, response_class: Any) -> Any:
        await self.send(request)
        return await self.receive(response_class, request.API_VERSION)

    async def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = await self.stream.receive_some(size - len(data))
            if not piece:
                raise ConnectionError("the gateway closed the connection")
            data += piece
        return data


def produce_request(
    batch: bytes, *, topic: str = "orders", partition: int = 0, timeout_ms: int = 5000, acks: int = -1
) -> Any:
    """A Produce (version 9) of one batch."""
    from kafka.protocol.producer import ProduceRequest

    data = ProduceRequest.TopicProduceData
    part = data.PartitionProduceData(version=9, index=partition, records=batch)
    return ProduceRequest(
        version=9,
        transactional_id=None,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[data(version=9, name=topic, partition_data=[part])],
    )
