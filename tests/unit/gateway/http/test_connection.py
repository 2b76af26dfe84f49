"""HTTP on one connection: what is asked, and whatever else is sent."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, memory_stream_pair

from gateway.http.connection import Answer, Asked, HttpConnection
from gateway.http.failures import Failure
from gateway.http.limits import HEAD_SECONDS, KEPT_SECONDS, MAX_REQUEST_HEAD_BYTES, ROUTE_SECONDS

HOST = b"Host: localhost\r\n\r\n"


async def echo(asked: Asked) -> Answer:
    return Answer(HTTPStatus.OK, [("Content-Type", "text/plain")], asked.target)


def exchange(
    *sent: bytes,
    respond: Callable[[Asked], Any] = echo,
    close: bool = True,
    seconds: float = 0,
    takes_bodies: bool = False,
) -> bytes:
    """All that comes back to these bytes; the clock moves on by itself."""

    async def main() -> bytes:
        client, server = memory_stream_pair()
        received = bytearray()

        async def serve() -> None:
            try:
                stream = cast("trio.SocketStream", server)
                await HttpConnection(stream, respond, takes_bodies=takes_bodies).run()
            except (trio.TooSlowError, trio.BrokenResourceError):
                pass
            await server.aclose()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            with contextlib.suppress(trio.BrokenResourceError):  # it is closed already
                for data in sent:
                    await client.send_all(data)
                    await trio.sleep(seconds)
                if close:
                    await client.send_eof()
            async for piece in client:
                received += piece
        return bytes(received)

    return trio.run(main, clock=MockClock(autojump_threshold=0))


def status(received: bytes) -> int:
    return int(received.split(b" ", 2)[1])


def test_requests_of_one_connection_are_answered_one_after_the_other() -> None:
    received = exchange(b"GET /a HTTP/1.1\r\n" + HOST + b"GET /b HTTP/1.1\r\n" + HOST)
    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert received.index(b"\r\n\r\n/a") < received.index(b"\r\n\r\n/b")
    assert b"Content-Security-Policy: default-src 'none'" in received


def test_a_head_request_has_headers_and_no_body() -> None:
    received = exchange(b"HEAD /abc HTTP/1.1\r\n" + HOST)
    assert b"Content-Length: 4\r\n" in received
    assert received.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: 5\r\n" + HOST + b"hello", 413),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + HOST + b"0\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * 2 * MAX_REQUEST_HEAD_BYTES + b"\r\n" + HOST, 431),
    ],
)
def test_what_is_no_request_is_answered_with_a_problem_and_closed(sent: bytes, code: int) -> None:
    received = exchange(sent, close=False)
    assert status(received) == code
    assert b"application/problem+json" in received
    assert b"Connection: close" in received


@settings(max_examples=150, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=80), max_size=5))
def test_whatever_is_sent_it_is_answered_or_closed(pieces: list[bytes]) -> None:
    received = exchange(*pieces)
    assert not received or status(received) in {200, 400, 408, 413, 431}


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 60), st.binary(max_size=8))
def test_a_request_with_bytes_that_are_others_is_answered_or_closed(place: int, other: bytes) -> None:
    whole = b"GET /api/v1/topics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    received = exchange(whole[:place] + other + whole[place + len(other) :])
    assert not received or status(received) in {200, 400, 408, 413, 431}


def test_a_request_that_comes_too_slowly_is_told_so() -> None:
    received = exchange(b"GET / HT", b"TP/1.1\r\n", close=False, seconds=HEAD_SECONDS * 0.6)
    assert status(received) == 408


def test_a_connection_without_a_request_is_closed() -> None:
    assert exchange(b"", close=False, seconds=KEPT_SECONDS) == b""


def test_a_route_that_takes_too_long_is_ended() -> None:
    async def slow(_: Asked) -> Answer:
        await trio.sleep(ROUTE_SECONDS * 2)
        raise AssertionError

    received = exchange(b"GET / HTTP/1.1\r\n" + HOST, respond=slow)
    assert status(received) == 504


def test_a_defect_is_an_answer_and_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(_: Asked) -> Answer:
        raise ZeroDivisionError

    received = exchange(b"GET /x HTTP/1.1\r\n" + HOST, respond=broken)
    assert status(received) == 500
    assert b"ZeroDivision" not in received
    assert "failed unexpectedly" in caplog.text


def test_a_failure_says_what_to_do() -> None:
    async def refuse(_: Asked) -> Answer:
        raise Failure(HTTPStatus.NOT_FOUND, "unknown-topic", "there is none", "Make one.", (("X-A", "b"),))

    received = exchange(b"GET /x?y HTTP/1.1\r\n" + HOST, respond=refuse)
    assert status(received) == 404
    assert b'"next_step": "Make one."' in received
    assert b'"instance": "/x"' in received
    assert b"X-A: b" in received


async def take(asked: Asked) -> Answer:
    assert asked.read_body is not None
    return Answer(HTTPStatus.CREATED, [], await asked.read_body(10))


@pytest.mark.parametrize(
    ("sent", "code", "body"),
    [
        (b"Content-Length: 3\r\nHost: a\r\n\r\nabc", 201, b"abc"),
        (b"Transfer-Encoding: chunked\r\nHost: a\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 201, b"abc"),
        (b"Host: a\r\n\r\n", 201, b""),
        (b"Content-Length: 11\r\nHost: a\r\n\r\nabcdefghijk", 413, b"too-large"),
        (b"Transfer-Encoding: chunked\r\nHost: a\r\n\r\nz\r\n", 400, b"bad-request"),
        (b"Content-Length: 9\r\nHost: a\r\n\r\nabc", 400, b"bad-request"),
    ],
)
def test_bodies_where_they_are_taken(sent: bytes, code: int, body: bytes) -> None:
    received = exchange(b"POST / HTTP/1.1\r\n" + sent, respond=take, takes_bodies=True)
    assert status(received) == code
    assert body in received


def test_who_waits_to_be_told_to_send_is_told() -> None:
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    received = exchange(head, b"abc", respond=take, takes_bodies=True)
    assert received.startswith(b"HTTP/1.1 100 ")
    assert received.endswith(b"\r\n\r\nabc")
