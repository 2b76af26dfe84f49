"""The status page behind a token, and over TLS."""

from __future__ import annotations

import json
import socket
import ssl
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.http.batches import NDJSON
from tests.in_process.http_client import events, get, request
from tests.in_process.pages import Pages, with_pages
from tests.peers.certificates import self_signed

PATIENCE_SECONDS = 60

TOKEN = "0123456789abcdef0123"

BEARER = f"Bearer {TOKEN}"

BASIC = f"Basic {b64encode(f'me:{TOKEN}'.encode()).decode()}"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    return path


def start(body: Any, data: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
    async def main() -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            async with with_pages(data, monkeypatch, topics=(("orders", 1),), **settings) as pages:
                await body(pages)

    trio.run(main)


def test_nothing_is_there_without_the_token(
    tmp_path: Path,
    token_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    records = "/api/v1/topics/orders/partitions/0/records"

    async def body(pages: Pages) -> None:
        port = pages.port
        for path in (
            "/",
            "/app.js",
            "/api/v1/overview",
            records,
            "/api/v1/events?view=topics&keys=orders",
            "/nothing",
        ):
            for wrong in ({}, {"Authorization": "Bearer 0123456789abcdef0124"}, {"Authorization": "x"}):
                got = await get(port, path, **wrong)
                assert got.status == 401, path
                assert got.headers["www-authenticate"] == 'Bearer realm="Dafka"'  # the last one
                assert got.json()["type"] == "urn:dafka:problem:no-token"
            for right in (BEARER, BASIC):
                if "events" not in path:
                    status = 404 if path == "/nothing" else 200
                    assert (await get(port, path, Authorization=right)).status == status, path
        line = json.dumps({"value": "x"}).encode()
        kind = {"Content-Type": NDJSON}
        assert (await request(port, "POST", records, line, **kind)).status == 401
        assert (await request(port, "POST", records, line, **kind, Authorization=BEARER)).status == 201
        async with events(port, "view=topics&keys=orders", Authorization=BASIC) as stream:
            assert (await stream.next()).name

    start(body, tmp_path / "data", monkeypatch, http_token_file=token_file, http_data=True)
    assert "--http: a request of 127.0.0.1 shows a wrong token" in caplog.text
    assert TOKEN not in caplog.text


def test_a_page_elsewhere_is_refused_whatever_the_browser_shows_for_it(
    tmp_path: Path, token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser that was given the token sends it with what other sites have it ask for, too."""

    async def body(pages: Pages) -> None:
        given = {"Authorization": BASIC, "Sec-Fetch-Site": "cross-site"}
        got = await get(pages.port, "/api/v1/overview", **given)
        assert (got.status, got.json()["type"]) == (403, "urn:dafka:problem:cross-site")
        given = {"Authorization": BASIC, "Host": "evil.example"}
        assert (await get(pages.port, "/api/v1/overview", **given)).status == 403

    start(body, tmp_path / "data", monkeypatch, http_token_file=token_file)


def test_the_page_over_tls(
    tmp_path: Path, token_file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = self_signed(tmp_path)
    caplog.set_level("INFO")

    def asked(port: int, path: str) -> bytes:
        context = ssl.create_default_context(cafile=certificate)
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as one,
        ):
            head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {BEARER}\r\nConnection: close"
            one.sendall(f"{head}\r\n\r\n".encode())
            received = b""
            while chunk := one.recv(1 << 16):
                received += chunk
            return received

    async def body(pages: Pages) -> None:
        for path in ("/", "/api/v1/overview"):
            received = await trio.to_thread.run_sync(asked, pages.port, path)
            assert received.startswith(b"HTTP/1.1 200 OK\r\n")
            size = int(received.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
            assert len(received.partition(b"\r\n\r\n")[2]) == size

    given = {"tls_certificate": certificate, "tls_key": key, "tls_client_auth": "required"}
    given |= {"tls_client_ca": certificate}  # of Kafka's clients alone
    start(body, tmp_path / "data", monkeypatch, http_token_file=token_file, http_tls=True, **given)
    assert "the status page is at https://127.0.0.1:" in caplog.text
