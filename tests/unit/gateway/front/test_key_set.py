"""Keys that are read again while they are used."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from gateway.front.key_set import (
    EARLY_SECONDS,
    MAX_BYTES,
    MOST_RETRY_SECONDS,
    REFRESH_SECONDS,
    KeySet,
    load_from,
)
from gateway.front.key_set_address import BadKeySetAddress, check_address
from tests.unit.gateway.security.test_web_tokens import EC, RSA, public


def text(*keys: object) -> bytes:
    return json.dumps({"keys": keys}).encode()


ONE, TWO = public(RSA, kid="one"), public(EC, kid="two")


class Source:
    """What is read; an error is raised."""

    def __init__(self, now: bytes | OSError) -> None:
        self.now = now
        self.reads = 0

    def load(self) -> bytes:
        self.reads += 1
        if isinstance(self.now, OSError):
            raise self.now
        return self.now


def running(source: Source, body: Callable[[KeySet], Awaitable[None]]) -> None:
    async def main() -> None:
        keys = KeySet(source.load, "keys.json")
        async with trio.open_nursery() as nursery:
            await nursery.start(keys.run)
            await body(keys)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0.05))


def test_a_key_is_found_by_its_id_or_is_the_only_one() -> None:
    async def one(keys: KeySet) -> None:
        assert keys.key_of("one") is keys.key_of("") is not None
        assert keys.key_of("two") is None

    async def two(keys: KeySet) -> None:
        assert keys.key_of("two") is not None
        assert keys.key_of("") is None

    running(Source(text(ONE)), one)
    running(Source(text(ONE, TWO)), two)


def test_the_set_is_read_again_each_hour() -> None:
    source = Source(text(ONE))

    async def body(keys: KeySet) -> None:
        source.now = text(TWO)
        await trio.sleep(REFRESH_SECONDS + 2 * EARLY_SECONDS)
        assert keys.key_of("two") is not None
        assert keys.key_of("one") is None
        assert source.reads == 2

    running(source, body)


def test_an_unknown_key_has_it_read_soon_and_not_for_each_token() -> None:
    source = Source(text(ONE))

    async def body(keys: KeySet) -> None:
        source.now = text(ONE, TWO)
        for _ in range(1000):
            assert keys.key_of("two") is None
        await trio.sleep(EARLY_SECONDS + 1)
        assert keys.key_of("two") is not None
        assert source.reads == 2
        for number in range(1000):
            assert keys.key_of(f"forged {number}") is None
        await trio.sleep(EARLY_SECONDS * 3)
        assert source.reads == 3

    running(source, body)


def test_keys_from_before_are_used_while_there_are_none() -> None:
    source = Source(text(ONE))

    async def body(keys: KeySet) -> None:
        source.now = OSError("no route")
        await trio.sleep(REFRESH_SECONDS + MOST_RETRY_SECONDS)
        assert keys.key_of("one") is not None
        assert keys.failures > 1
        source.now = text(TWO)
        await trio.sleep(2 * MOST_RETRY_SECONDS)
        assert keys.key_of("two") is not None

    running(source, body)


def test_it_starts_without_keys_and_takes_them_when_they_come() -> None:
    source = Source(OSError("no such file"))

    async def body(keys: KeySet) -> None:
        assert keys.key_of("one") is None
        source.now = text(ONE)
        await trio.sleep(MOST_RETRY_SECONDS)
        assert keys.key_of("one") is not None

    running(source, body)


@pytest.mark.parametrize("address", ["keys.json", "/etc/keys.json", "https://login.example/keys"])
def test_where_a_set_can_be(address: str) -> None:
    assert check_address(address) == address


@pytest.mark.parametrize("address", ["", "http://login.example/keys", "file:///etc/keys", "https://", "a\0b"])
def test_where_it_cannot_be(address: str) -> None:
    with pytest.raises(BadKeySetAddress, match="write the path of a file"):
        check_address(address)


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(text(ONE))
    assert load_from(str(path))() == text(ONE)
    path.write_bytes(bytes(MAX_BYTES + 1))
    with pytest.raises(ValueError, match="more than"):
        load_from(str(path))()
    with pytest.raises(FileNotFoundError):
        load_from(str(tmp_path / "nowhere"))()


@pytest.fixture
def server() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", "/keys")
                self.end_headers()
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text(ONE) if self.path == "/keys" else bytes(MAX_BYTES + 1))

        def log_message(self, *_what: object) -> None:
            pass

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_address[1]}"
    made.shutdown()
    made.server_close()


def test_a_url_is_read_and_leads_nowhere_else(server: str) -> None:
    assert load_from(f"{server}/keys")() == text(ONE)
    with pytest.raises(OSError, match="302"):
        load_from(f"{server}/moved")()
    with pytest.raises(ValueError, match="more than"):
        load_from(f"{server}/large")()
