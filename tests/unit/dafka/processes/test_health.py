"""/metrics and /health over real sockets."""

from __future__ import annotations

import json
import socket
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from dafka.processes.health import MAX_HEAD_BYTES, REQUEST_SECONDS, Health, serve_health
from dafka.processes.scrapes import MAX_AGE_SECONDS, SLICE_SECONDS
from gateway.common.access_token import AccessToken
from gateway.common.metrics import Metrics
from gateway.common.visitors import MAX_VISITORS
from gateway.front.door import Door
from gateway.front.listener_sockets import open_listeners
from gateway.front.listeners import parse_listener
from tests.peers.certificates import self_signed
from tests.unit.gateway.kafka_wire import run

Ask = Callable[[bytes], Awaitable[bytes]]


def serve(
    body: Callable[[Ask, Health, Metrics, tuple[str, int]], Awaitable[None]],
    clock: MockClock,
    door: Door | None = None,
) -> None:
    async def main() -> None:
        health, metrics = Health(), Metrics(with_process=False)
        sockets = await open_listeners([parse_listener("127.0.0.1:0")])
        address = sockets[0].socket.getsockname()

        async def ask(request: bytes) -> bytes:
            async with await trio.open_tcp_stream(*address) as stream:
                await stream.send_all(request)
                return b"".join([chunk async for chunk in stream])

        async with trio.open_nursery() as nursery:
            await nursery.start(serve_health, sockets, health, metrics, door)
            await body(ask, health, metrics, address)
            nursery.cancel_scope.cancel()

    run(main, clock=clock)


def parts(response: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers, body."""
    head, _, body = response.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), body


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def test_metrics_are_served_in_prometheus_format() -> None:
    async def body(ask: Ask, _: Health, metrics: Metrics, __: object) -> None:
        metrics.api(3, "Metadata").requests = 5
        status, headers, text = parts(await ask(get("/metrics")))
        assert status == 200
        assert headers["Content-Type"].startswith("text/plain; version=")
        assert int(headers["Content-Length"]) == len(text)
        assert b'\ndafka_requests_total{api="Metadata"} 5.0\n' in text
        assert parts(await ask(get("/metrics?name=x")))[0] == 200

    serve(body, MockClock())


def test_health_follows_the_gateway_through_its_life() -> None:
    async def body(ask: Ask, health: Health, _: Metrics, __: object) -> None:
        status, _headers, text = parts(await ask(get("/health")))
        assert (status, json.loads(text)) == (503, {"live": True, "ready": False, "because": "starting"})
        health.ready()
        for path in ("/health", "/health/ready"):
            status, _headers, text = parts(await ask(get(path)))
            assert (status, json.loads(text)) == (200, {"live": True, "ready": True})
        health.not_ready("stopping")
        status, _headers, text = parts(await ask(get("/health/ready")))
        assert (status, json.loads(text)["because"]) == (503, "stopping")
        status, _headers, text = parts(await ask(get("/health/live")))
        assert (status, json.loads(text)) == (200, {"live": True})

    serve(body, MockClock())


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (get("/"), 404),
        (get("/../etc/passwd"), 404),
        (get("/health\xe9"), 404),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"\x16\x03\x01\x00\xc8\r\n\r\n", 405),
        (b"\r\n\r\n", 405),
        (b"GET\r\n\r\n", 404),
        (b"GET /health" + b"a" * MAX_HEAD_BYTES + b" HTTP/1.1\r\n\r\n", 400),
    ],
)
def test_anything_else_is_refused(request_bytes: bytes, status: int) -> None:
    async def body(ask: Ask, health: Health, _: Metrics, __: object) -> None:
        health.ready()
        assert parts(await ask(request_bytes))[0] == status
        assert parts(await ask(get("/health")))[0] == 200

    serve(body, MockClock())


def test_head_has_the_headers_and_no_body() -> None:
    async def body(ask: Ask, health: Health, _: Metrics, __: object) -> None:
        health.ready()
        got = parts(await ask(get("/health")))
        status, headers, text = parts(await ask(get("/health").replace(b"GET", b"HEAD", 1)))
        assert (status, headers, text) == (200, got[1], b"")

    serve(body, MockClock())


def test_a_request_that_comes_byte_by_byte_is_answered() -> None:
    async def body(_: Ask, health: Health, __: Metrics, address: tuple[str, int]) -> None:
        health.ready()
        async with await trio.open_tcp_stream(*address) as stream:
            for byte in get("/health"):
                await stream.send_all(bytes([byte]))
                await wait_all_tasks_blocked()
            assert parts(b"".join([chunk async for chunk in stream]))[0] == 200

    serve(body, MockClock())


def test_silent_clients_are_dropped() -> None:
    clock = MockClock()

    async def body(ask: Ask, health: Health, _: Metrics, address: tuple[str, int]) -> None:
        health.ready()
        silent = [await trio.open_tcp_stream(*address) for _ in range(10)]
        await wait_all_tasks_blocked()
        clock.jump(REQUEST_SECONDS + 1)
        for stream in silent:
            assert await stream.receive_some(1) == b""
            await stream.aclose()
        assert parts(await ask(get("/health")))[0] == 200

    serve(body, clock)


@pytest.mark.parametrize("sent", [b"", b"GET /hea", get("/metrics")])
def test_health_is_answered_however_many_are_slow(sent: bytes) -> None:
    """They say nothing, or half of it, or do not read what they asked for. The time stands still."""

    async def body(ask: Ask, health: Health, metrics: Metrics, address: tuple[str, int]) -> None:
        health.ready()
        large = {(f"{number:01000}",): number for number in range(20_000)}
        metrics.gauge("dafka_large", "More than sockets take.", lambda: iter(large.items()), ("n",))
        slow: list[trio.SocketStream] = []
        for _ in range(2 * MAX_VISITORS):
            stream = await trio.open_tcp_stream(*address)
            slow.append(stream)
            if sent:
                await stream.send_all(sent)
            if len(slow) % 16 == 0:
                assert parts(await ask(get("/health/live")))[0] == 200
                assert parts(await ask(get("/health")))[0] == 200
        await wait_all_tasks_blocked()
        assert parts(await ask(get("/health/live")))[0] == 200
        for stream in slow:
            await trio.aclose_forcefully(stream)

    serve(body, MockClock())


def test_a_text_that_takes_long_is_made_a_little_at_a_time_and_for_all_who_ask() -> None:
    clock = MockClock()

    async def body(ask: Ask, health: Health, metrics: Metrics, address: tuple[str, int]) -> None:
        made = turns = 0
        stop = trio.CancelScope()

        def values() -> Iterator[tuple[tuple[str], float]]:
            nonlocal made
            made += 1
            for number in range(20_000):
                yield (str(number),), number

        async def others() -> None:
            nonlocal turns
            with stop:
                while True:
                    await trio.lowlevel.checkpoint()
                    turns += bool(made)

        metrics.gauge("dafka_many", "Many.", values, ("n",))
        answers: list[bytes] = []

        async def scrape() -> None:
            answers.append(await ask(get("/metrics")))
            if len(answers) == 5:
                stop.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            for _ in range(5):
                nursery.start_soon(scrape)
        assert made == 1
        assert {parts(one)[2].count(b"\ndafka_many{") for one in answers} == {20_000}
        assert turns >= 20_000 * 1e-6 / SLICE_SECONDS / 4
        clock.jump(MAX_AGE_SECONDS)
        await ask(get("/metrics"))
        assert made == 2

    serve(body, clock)


def test_a_text_that_is_made_fast_is_new_each_time() -> None:
    async def body(ask: Ask, _: Health, metrics: Metrics, __: object) -> None:
        for requests in range(3):
            metrics.api(3, "Metadata").requests = requests
            assert f'dafka_requests_total{{api="Metadata"}} {requests}.0'.encode() in await ask(
                get("/metrics")
            )
            await trio.sleep(0.1)

    serve(body, MockClock(autojump_threshold=0.05))


TOKEN = "0123456789abcdef0123"


def with_token(directory: Path) -> AccessToken:
    path = directory / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    return AccessToken(path)


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (None, 401),
        ("Bearer wrong-wrong-wrong", 401),
        (f"Bearer {TOKEN}", 200),
        (f"Basic {b64encode(f'prometheus:{TOKEN}'.encode()).decode()}", 200),
        (f"Basic {b64encode(f'{TOKEN}:'.encode()).decode()}", 401),
    ],
)
def test_metrics_may_need_a_token_and_health_needs_none(
    tmp_path: Path, authorization: str | None, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    def asked(path: str) -> bytes:
        header = f"AUTHORIZATION: {authorization}\r\n" if authorization else ""
        return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n".encode()

    async def body(ask: Ask, health: Health, _: Metrics, __: object) -> None:
        health.ready()
        got, headers, text = parts(await ask(asked("/metrics")))
        assert (got, b"dafka_ready" in text) == (status, status == 200)
        assert ("WWW-Authenticate" in headers) == (status == 401)
        for path in ("/health", "/health/ready", "/health/live"):
            assert parts(await ask(asked(path)))[0] == 200
        assert parts(await ask(asked("/metrics").replace(b"GET", b"HEAD", 1)))[0] == status

    serve(body, MockClock(), Door("--metrics", with_token(tmp_path)))
    said = "--metrics: a request of 127.0.0.1 shows a wrong token"
    assert (said in caplog.text) == (authorization is not None and status == 401)
    assert TOKEN not in caplog.text


def test_both_may_be_over_tls(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def body(_: Ask, health: Health, __: Metrics, address: tuple[str, int]) -> None:
        health.ready()

        def asked(path: str) -> bytes:
            client = ssl.create_default_context(cafile=certificate)
            with (
                socket.create_connection(address) as plain,
                client.wrap_socket(plain, server_hostname="localhost") as one,
            ):
                one.sendall(get(path))
                received = b""
                while chunk := one.recv(1 << 16):
                    received += chunk
                return received

        status, _headers, text = parts(await trio.to_thread.run_sync(asked, "/metrics"))
        assert (status, b"dafka_ready 1" in text) == (200, True)
        assert parts(await trio.to_thread.run_sync(asked, "/health"))[0] == 200

    serve(body, MockClock(), Door("--metrics", tls=lambda: context))
