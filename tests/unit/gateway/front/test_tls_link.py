"""TLS between two ends in memory: what a client may send with nothing in it, and how connections end."""

from __future__ import annotations

import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.front.tls import MAX_EMPTY_BYTES, TlsLink
from gateway.front.tls_output import TlsOutput
from tests.unit.gateway.front.test_tls import certificate  # noqa: F401 - a fixture


class Kernel:
    """A socket: what is received in pieces, and what was sent. It takes `room` bytes."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.pieces: list[bytes] = []
        self.received = 0
        self.sent = b""
        self.room = room

    def recv(self, _size: int) -> bytes:
        if not self.pieces:
            raise BlockingIOError
        self.received += 1
        return self.pieces.pop(0)

    def send(self, data: memoryview) -> int:
        taken = min(self.room, len(data))
        if not taken:
            raise BlockingIOError
        self.room -= taken
        self.sent += bytes(data[:taken])
        return taken


class Ends:
    """Both ends, connected."""

    def __init__(self, path: Path) -> None:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(path)
        self.link = TlsLink(server)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = ssl.create_default_context(cafile=path).wrap_bio(
            self._in, self._out, server_hostname="localhost"
        )
        for end in (self.client, self.link._object) * 3:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
            self.link._received.write(self._out.read())
            self._in.write(self.link._to_send.read())
        self.kernel = Kernel()
        self.buffer = memoryview(bytearray(100_000))

    def say(self, data: bytes) -> bytes:
        self.client.write(data)
        return self._out.read()

    def end(self) -> bytes:
        with pytest.raises(ssl.SSLWantReadError):
            self.client.unwrap()
        return self._out.read()

    def receive(self) -> int:
        return self.link.recv_into(cast("Any", self.kernel), self.buffer)

    def hear(self, data: bytes) -> bytes:
        self._in.write(data)
        return self.client.read(100_000)


@pytest.fixture
def ends(certificate: Path) -> Ends:  # noqa: F811 - the fixture
    return Ends(certificate)


def test_it_receives_once_and_lets_others_have_their_turn(ends: Ends) -> None:
    whole = ends.say(b"x" * 10_000)
    ends.kernel.pieces = [whole[start : start + 1_000] for start in range(0, len(whole), 1_000)]
    for received in range(1, len(ends.kernel.pieces)):
        with pytest.raises(BlockingIOError):
            ends.receive()
        assert ends.kernel.received == received
    assert ends.receive() == 10_000


def test_what_has_nothing_in_it_is_bounded(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins for new keys, which both sides agree on as often as one of them likes."""
    piece = bytes(MAX_EMPTY_BYTES // 4)
    ends.kernel.pieces = [piece] * 100
    monkeypatch.setattr(ends.link, "_read", lambda _buffer: 0)
    for _ in range(4):
        with pytest.raises(BlockingIOError):
            ends.receive()
    with pytest.raises(ConnectionAbortedError, match="with nothing in them"):
        ends.receive()
    assert ends.kernel.received == 5


def test_requests_between_make_it_begin_anew(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    piece = bytes(MAX_EMPTY_BYTES // 4)
    ends.kernel.pieces = [piece] * 100
    found = iter([0, 0, 0, 0, 0, 1] * 6)
    monkeypatch.setattr(ends.link, "_read", lambda _buffer: next(found))
    for _ in range(4):
        with pytest.raises(BlockingIOError):
            ends.receive()
        with pytest.raises(BlockingIOError):
            ends.receive()
        assert ends.receive() == 1


def test_what_waits_to_be_said_is_bounded_too(ends: Ends) -> None:
    ends.kernel.pieces = [ends.say(b"request")]
    ends.link._to_send.write(bytes(MAX_EMPTY_BYTES + 1))
    with pytest.raises(ConnectionAbortedError, match="with nothing in them"):
        ends.receive()


def test_the_end_behind_a_request_is_seen(ends: Ends) -> None:
    ends.kernel.pieces = [ends.say(b"request") + ends.end()]
    assert ends.receive() == 7
    assert ends.link.has_some
    assert ends.receive() == 0


@pytest.mark.parametrize("room", [0, 1, 5_000, 1 << 20])
def test_an_output_knows_whether_it_ends_in_the_middle_of_a_record(ends: Ends, room: int) -> None:
    ends.kernel.room = room
    output = TlsOutput(cast("Any", ends.kernel), cast("Any", SimpleNamespace(left=0)), ends.link)
    assert not output.is_cut
    output.put(b"x" * 10_000)
    output.try_send()
    assert output.is_cut == (room < 1 << 20)
    if not output.is_cut:
        assert ends.hear(ends.kernel.sent) == b"x" * 10_000
