"""A TCP proxy that treats what passes through it badly: late, slowly, one way only, or with a reset.

Every fault is a context manager and heals itself. The proxy runs in a thread of its own; ways are named as
its client sees them: OUT to the server, IN from it.
"""

from __future__ import annotations

import math
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Self

import trio

OUT: Final = "out"
IN: Final = "in"
WAYS: Final = (OUT, IN)

CHUNK_BYTES = 64 * 1024
PARTS_OF_A_SECOND = 20
"""How finely a rate is dealt out."""
CHUNKS_ON_THE_WAY = 1000
START_SECONDS = 10.0


@dataclass
class _Way:
    """How one way is treated now."""

    delay_seconds: float = 0.0
    bytes_per_second: float = math.inf
    held: bool = False
    dropped: bool = False
    reset_after: float = math.inf


@dataclass(eq=False)
class _Pair:
    """Both ends of one connection."""

    client: trio.SocketStream
    server: trio.SocketStream
    passed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 0))
    lost: int = 0

    def reset(self) -> None:
        """Ends both with RST."""
        for stream in (self.client, self.server):
            try:
                stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass  # closed
            stream.socket.close()


class Proxy:
    """A context manager around a proxy to `target`; it listens at `host` on a port of its choice."""

    def __init__(self, target: tuple[str, int], *, host: str = "127.0.0.1") -> None:
        self.target = target
        self.connections = self.reset_count = 0
        self._ways = {way: _Way() for way in WAYS}
        self._pairs: set[_Pair] = set()
        self._socket = socket.create_server((host, 0))
        self.host, self.port = self._socket.getsockname()[:2]
        self._started = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._main,), name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(START_SECONDS)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._token.run_sync_soon(self._scope.cancel)
        self._thread.join(START_SECONDS)

    @property
    def passed(self) -> dict[str, int]:
        """Bytes that open connections have passed on, each way."""
        return {way: sum(pair.passed[way] for pair in set(self._pairs)) for way in WAYS}

    # faults -----------------------------------------------------------------------------------------------

    @contextmanager
    def slowed(self, delay_seconds: float = 0.0, bytes_per_second: float = math.inf) -> Iterator[None]:
        """Both ways."""
        for way in self._ways.values():
            way.delay_seconds, way.bytes_per_second = delay_seconds, bytes_per_second
        try:
            yield
        finally:
            for way in self._ways.values():
                way.delay_seconds, way.bytes_per_second = 0.0, math.inf

    @contextmanager
    def held(self, *ways: str) -> Iterator[None]:
        """Nothing passes; it does afterwards."""
        for way in ways:
            self._ways[way].held = True
        try:
            yield
        finally:
            for way in ways:
                self._ways[way].held = False

    @contextmanager
    def dropped(self, *ways: str) -> Iterator[None]:
        """What comes is thrown away; connections that lost something are reset at the end."""
        for way in ways:
            self._ways[way].dropped = True
        try:
            yield
        finally:
            for way in ways:
                self._ways[way].dropped = False
            trio.from_thread.run_sync(self._reset_the_torn, trio_token=self._token)

    @contextmanager
    def resets(self, after_bytes: int, way: str = IN) -> Iterator[None]:
        """Each connection is reset once so many more bytes came this way; what is behind them is lost."""
        trio.from_thread.run_sync(self._forget_passed, trio_token=self._token)
        self._ways[way].reset_after = after_bytes
        try:
            yield
        finally:
            self._ways[way].reset_after = math.inf

    def reset_all(self) -> None:
        """Every connection, now."""
        trio.from_thread.run_sync(self._reset_all, trio_token=self._token)

    # on the loop ------------------------------------------------------------------------------------------

    def _forget_passed(self) -> None:
        for pair in self._pairs:
            pair.passed = dict.fromkeys(WAYS, 0)

    def _reset_the_torn(self) -> None:
        for pair in [pair for pair in self._pairs if pair.lost]:
            self._reset(pair)

    def _reset_all(self) -> None:
        for pair in list(self._pairs):
            self._reset(pair)

    def _reset(self, pair: _Pair) -> None:
        if pair in self._pairs:
            self._pairs.discard(pair)
            self.reset_count += 1
            pair.reset()

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._nonblocking()))
        with trio.CancelScope() as self._scope:
            self._started.set()
            await trio.serve_listeners(self._serve, [listener])

    def _nonblocking(self) -> socket.socket:
        self._socket.setblocking(False)
        return self._socket

    async def _serve(self, client: trio.SocketStream) -> None:
        self.connections += 1
        try:
            server = await trio.open_tcp_stream(*self.target)
        except OSError:
            await client.aclose()
            return
        pair = _Pair(client, server)
        self._pairs.add(pair)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._pass, pair, OUT, client, server)
                nursery.start_soon(self._pass, pair, IN, server, client)
        finally:
            self._pairs.discard(pair)
            client.socket.close()
            server.socket.close()

    async def _pass(self, pair: _Pair, way: str, source: trio.SocketStream, sink: trio.SocketStream) -> None:
        into, out_of = trio.open_memory_channel[tuple[float, bytes]](CHUNKS_ON_THE_WAY)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._deliver, pair, way, out_of, sink)
            async with into:
                try:
                    while data := await source.receive_some(CHUNK_BYTES):
                        await into.send((trio.current_time() + self._ways[way].delay_seconds, data))
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    pass  # reset, here or there

    async def _deliver(
        self,
        pair: _Pair,
        way: str,
        source: trio.MemoryReceiveChannel[tuple[float, bytes]],
        sink: trio.SocketStream,
    ) -> None:
        treated = self._ways[way]
        try:
            async for due, data in source:
                await trio.sleep_until(due)
                while treated.held:  # noqa: ASYNC110 - set from another thread
                    await trio.sleep(0.01)
                if treated.dropped or pair.lost:
                    pair.lost += len(data)
                    continue
                left = treated.reset_after - pair.passed[way]
                if left < len(data):
                    await sink.send_all(data[: int(max(left, 0))])
                    self._reset(pair)
                    return
                await self._send(sink, data, treated)
                pair.passed[way] += len(data)
            await sink.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            self._reset(pair)

    async def _send(self, sink: trio.SocketStream, data: bytes, treated: _Way) -> None:
        while data:
            rate = treated.bytes_per_second
            size = len(data) if math.isinf(rate) else max(1, int(rate / PARTS_OF_A_SECOND))
            await sink.send_all(data[:size])
            if not math.isinf(rate):
                await trio.sleep(min(size, len(data)) / rate)
            data = data[size:]
