"""Bytes that are no requests, or no honest ones: the connection is closed, nobody else notices."""

from __future__ import annotations

import logging
import struct
from collections.abc import Awaitable, Callable

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.metadata import ApiVersionsResponse
from trio.testing import wait_all_tasks_blocked

from gateway.front.limits import Limits
from tests.unit.gateway.kafka_wire import BEGIN, ECHO, Client, Running, answer, request, run, running

KIB, MIB = 1024, 1024 * 1024


def serve(body: Callable[[Running, Client], Awaitable[None]], limits: Limits | None = None) -> None:
    async def main() -> None:
        async with running(limits) as server, server.client() as client:
            await body(server, client)

    run(main)


TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(range(200))

GARBAGE = [
    ("size -1", struct.pack(">i", -1)),
    ("smallest size", struct.pack(">i", -(2**31))),
    ("size 0", struct.pack(">i", 0)),
    ("largest size", struct.pack(">i", 2**31 - 1)),
    ("one byte too large", struct.pack(">i", 100 * MIB + 1)),
    ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ("TLS", TLS_HELLO),
    ("no room for a header", struct.pack(">i", 7) + bytes(7)),
    ("client id cut short", struct.pack(">ihhih", 10, ECHO, 0, 1, 5)),
    ("client id not UTF-8", request(ECHO, 1).replace(b"t", b"\xff")),
    ("unknown API key", request(9999, 1)),
    ("negative API key", request(-1, 1)),
    ("API key that is not offered", request(36, 1)),
    ("version not offered", request(ECHO, 1, version=14)),
    ("negative version", request(ECHO, 1, version=-1)),
]


@pytest.mark.parametrize("garbage", [each for _, each in GARBAGE], ids=[name for name, _ in GARBAGE])
def test_garbage_closes_the_connection_and_only_that(
    garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(server: Running, client: Client) -> None:
        async with server.client() as good:
            await client.send(request(ECHO, 1, b"before"), garbage)
            assert await client.frame() == answer(1, b"before")
            assert await client.closed()
            await good.send(request(ECHO, 2, b"alive"))
            assert await good.frame() == answer(2, b"alive")
        assert server.server.context.request_memory.used == 0

    with caplog.at_level(logging.WARNING):
        serve(body)
    (record,) = caplog.records
    assert "closing the connection of 127.0.0.1:" in record.getMessage()
    assert record.exc_info is None


def test_an_unsupported_version_is_logged_with_who_asked_for_it(caplog: pytest.LogCaptureFixture) -> None:
    async def body(server: Running, client: Client) -> None:
        await client.send(request(ECHO, 1, version=99, client="old-sarama"))
        assert await client.closed()
        assert server.server.metrics.connections_closed == {("unsupported",): 1}

    with caplog.at_level(logging.WARNING):
        serve(body)
    assert "Metadata (key 3) version 99 is not supported here; client id 'old-sarama'" in caplog.text


@pytest.mark.parametrize("version", [5, 99, 2**15 - 1])
def test_api_versions_of_an_unknown_version_is_answered_with_what_there_is(version: int) -> None:
    async def body(server: Running, client: Client) -> None:
        await client.send(request(18, 7, b"\x05spam\x041.0\0", version=version), request(ECHO, 8))
        frame = await client.frame()
        assert struct.unpack_from(">iih", frame) == (len(frame) - 4, 7, 35)
        decoded = ApiVersionsResponse.decode(frame[8:], version=0)
        assert [(a.api_key, a.min_version, a.max_version) for a in decoded.api_keys] == [
            (BEGIN, 0, 0), (ECHO, 0, 0), (18, 0, 4), (19, 0, 0),
        ]  # fmt: skip
        assert await client.frame() == answer(8)  # the connection lives

    serve(body)


def test_a_large_request_that_is_not_a_produce_is_refused() -> None:
    async def body(server: Running, client: Client) -> None:
        async with server.client() as producer, trio.open_nursery() as nursery:
            nursery.start_soon(producer.send, request(BEGIN, 1, bytes(200 * KIB)))
            await client.send(request(ECHO, 2, bytes(100 * KIB)))
            assert await client.closed()
            await wait_all_tasks_blocked()
            server.fakes.pending[0].finish()
            assert await producer.frame() == answer(1, bytes(200 * KIB))

    serve(body, Limits(max_other_request_bytes=100 * KIB))


def test_a_stated_size_allocates_nothing_beyond_the_budget() -> None:
    async def body(server: Running, client: Client) -> None:
        # Ten connections of a client state 100 MiB each and send nothing: one fits into its share.
        memory = server.server.context.request_memory
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                stream = await nursery.start(_connected, server)
                await stream.send_all(struct.pack(">i", 100 * MIB))
            await wait_all_tasks_blocked()
            assert (memory.used, memory.waiting) == (100 * MIB, 9)
            await client.send(request(ECHO, 1, b"alive"), request(BEGIN, 2, b"still"))
            assert await client.frame() == answer(1, b"alive")  # small requests need none of that memory
            await wait_all_tasks_blocked()
            server.fakes.pending[0].finish()
            assert await client.frame() == answer(2, b"still")
            nursery.cancel_scope.cancel()
        await wait_all_tasks_blocked()
        assert (memory.used, memory.waiting) == (0, 0)

    serve(body, Limits(request_memory_bytes=250 * MIB))


async def _connected(server: Running, task_status: trio.TaskStatus[trio.SocketStream]) -> None:
    async with await trio.open_tcp_stream(*server.address) as stream:
        task_status.started(stream)
        await trio.sleep_forever()


def test_ten_thousand_requests_without_reading_stop_being_read() -> None:
    async def body(server: Running, client: Client) -> None:
        async with server.client() as deaf, trio.open_nursery() as nursery:
            piece = b"x" * 8 * KIB
            frames = b"".join(request(ECHO, i, piece) for i in range(10_000))
            nursery.start_soon(deaf.stream.send_all, frames)
            await wait_all_tasks_blocked(0.05)
            begun = len(server.fakes.ran)
            assert begun < 5_000
            (connection,) = (c for c in server.server.connections if c._output.unsent)
            assert connection._output.unsent < 2 * MIB
            assert server.server.context.request_memory.used < 1 * MIB
            await client.send(request(ECHO, 1, b"alive"))
            assert await client.frame() == answer(1, b"alive")
            # Once it reads, it gets everything, in order.
            for i in range(10_000):
                assert await deaf.frame() == answer(i, piece)

    serve(body)


def test_ten_thousand_produces_without_reading_stop_at_the_cap() -> None:
    async def body(server: Running, client: Client) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, *(request(BEGIN, i) for i in range(10_000)))
            await wait_all_tasks_blocked()
            assert len(server.fakes.pending) == 256
            for i in range(10_000):
                server.fakes.pending[i].finish()
                assert await client.frame() == answer(i)
                if i % 256 == 0:
                    await wait_all_tasks_blocked()
                    assert len(server.fakes.pending) == min(i + 257, 10_000)

    serve(body)


def test_many_bad_clients_write_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    async def body(server: Running, _: Client) -> None:
        for _i in range(50):
            async with server.client() as bad:
                await bad.send(b"\xff" * 4)
                assert await bad.closed()
        assert server.server.metrics.connections_closed == {("malformed",): 50}

    with caplog.at_level(logging.WARNING):
        serve(body)
    assert len(caplog.records) == 20


@settings(max_examples=60)
@given(st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([g for _, g in GARBAGE])), max_size=6))
def test_whatever_comes_others_are_served(chunks: list[bytes]) -> None:
    async def body(server: Running, client: Client) -> None:
        async with server.client() as bad:
            try:
                for chunk in chunks:
                    await bad.send(request(ECHO, 1, b"ok"), chunk)
                    await client.send(request(ECHO, 2, b"alive"))
                    assert await client.frame() == answer(2, b"alive")
            except trio.BrokenResourceError:
                pass  # closed, as it should be
        await wait_all_tasks_blocked()
        assert server.server.context.request_memory.used == 0
        assert len(server.server.connections) == 1

    serve(body)
