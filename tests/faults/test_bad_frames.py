"""Hostile bytes before and around any request: sizes, headers, endless and silent connections."""

from __future__ import annotations

import random
import socket
import struct
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from tests.clients.stored import put
from tests.differential.batches import Record
from tests.differential.case import REGISTERED
from tests.differential.requests import fetch, fetch_partition
from tests.differential.samples import sample
from tests.differential.side import Server, Side
from tests.differential.wire import UndecodableError, body_of, decode, encode, frame, header
from tests.faults.victim import MIB, Victim
from tests.peers.standalone import Standalone

METADATA = 3
NOT_FRAMES = {
    "size -1": b"\xff\xff\xff\xff",
    "size 0": b"\0\0\0\0",
    "size 2^31-1": b"\x7f\xff\xff\xff" + b"x" * 1000,
    "size just too large": struct.pack(">i", 100 * MIB + 1) + b"x" * 1000,
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("16030102000100") + bytes(512),
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n",
    "Redis": b"*1\r\n$4\r\nPING\r\n",
}


@pytest.mark.parametrize("name", NOT_FRAMES)
def test_what_is_no_frame_is_hung_up_on(victim: Victim, name: str) -> None:
    with victim.bounded(8 * MIB):
        for _ in range(20):
            assert victim.answer_to(NOT_FRAMES[name]) is None


def test_large_sizes_alone_are_bounded() -> None:
    """Many clients announce large requests and send little of them: 9 GB if each were believed."""
    with Standalone() as server:
        victim = Victim(server)
        with victim.bounded(320 * MIB), ExitStack() as stack:
            for _ in range(100):
                connection = stack.enter_context(victim.connect())
                connection.send(struct.pack(">i", 90 * MIB) + header(0, 9) + b"x" * 5000)
            victim.check()


def test_silent_and_slow_connections_disturb_nobody(victim: Victim) -> None:
    """Nothing at all, half a size, half a header, a byte now and then."""
    request = encode(MetadataRequest(version=9, topics=[]))
    victim.check()
    with victim.bounded(32 * MIB), ExitStack() as stack:
        slow = []
        for number in range(300):
            connection = stack.enter_context(victim.connect())
            connection.send(request[: number % 12])
            slow.append((connection, number % 12))
        for step in range(5):
            for connection, sent in slow[::10]:
                connection.send(request[sent + step : sent + step + 1])
            victim.check()
        # A slow one that goes on to the end is answered.
        connection, sent = slow[10]
        connection.send(request[sent + 5 :])
        assert connection.receive() is not None


def test_every_byte_alone(victim: Victim) -> None:
    """A request that comes byte by byte is the same request."""
    request = encode(MetadataRequest(version=9, topics=[]))
    with victim.connect() as connection:
        for byte in request:
            connection.send(bytes([byte]))
        answer = connection.receive()
    assert answer is not None
    assert decode(METADATA, 9, answer).brokers


@pytest.mark.parametrize(
    ("key", "version"),
    [(4711, 0), (-1, 0), (4, 0), (0, 2), (0, 14), (1, 3), (3, 99), (3, -1), (19, 1), (60, 3)],
)
def test_unknown_apis_and_versions(victim: Victim, key: int, version: int) -> None:
    assert victim.answer_to(frame(struct.pack(">hhih", key, version, 1, 0) + bytes(20))) is None
    victim.check()


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_unknown_versions_of_api_versions_are_answered(victim: Victim, version: int) -> None:
    answer = victim.answer_to(frame(struct.pack(">hhih", 18, version, 1, 0) + b"\0"))
    assert answer is not None
    decoded = decode(18, 0, answer)
    assert decoded.error_code == 35
    assert {(e.api_key, e.min_version, e.max_version) for e in decoded.api_keys} >= {(18, 0, 4), (3, 0, 13)}


@pytest.mark.parametrize("count", [2**31 - 1, 10_000_000, 200_001, -2, -(2**31)])
def test_array_counts(victim: Victim, count: int) -> None:
    """In the classic encoding: the bytes are not there."""
    with victim.bounded(8 * MIB):
        for api_key, version in [(3, 8), (19, 4), (20, 3), (2, 5), (23, 3), (32, 3)]:
            prefix = b"\xff\xff\xff\xff\0" if api_key == 2 else b"\xff\xff\xff\xff" if api_key == 23 else b""
            assert victim.ask_body(api_key, version, prefix + struct.pack(">i", count)) is None


def test_millions_of_empty_elements(victim: Victim) -> None:
    """10 million empty topic names in 20 MB, and as many as fit under the limit of bytes."""
    with victim.bounded(48 * MIB):
        for names in (10_000_000, 3_000_000):
            body = struct.pack(">i", names) + b"\0\0" * names + b"\0\0\0"
            assert victim.ask_body(METADATA, 8, body) is None


@pytest.mark.parametrize("width", [6, 10, 1000, 1_000_000])
def test_varints_without_end(victim: Victim, width: int) -> None:
    with victim.bounded(16 * MIB):
        assert victim.ask_body(METADATA, 9, b"\xff" * width + b"\1") is None
        assert victim.ask_body(METADATA, 9, b"\1\0\0\0" + b"\xff" * width) is None


def bodies() -> list[tuple[int, int, bytes]]:
    """A right body for each API and version, but those that would make topics when changed a little."""
    side = Side(Server("ours", "nowhere:1", "run"), "bad", 0)
    return [
        (key, version, body_of(sample(side, key, version)))
        for key, served in REGISTERED.items()
        for version in served
        if key != 19
    ]


BODIES = bodies()


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(BODIES), st.data())
def test_changed_requests(victim: Victim, right: tuple[int, int, bytes], data: st.DataObject) -> None:
    """A few bytes changed, cut or added: an answer that can be read, or the end of the connection."""
    key, version, body = right
    changed = bytearray(body)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed)))
        replaced = data.draw(st.integers(0, 4))
        changed[at : at + replaced] = data.draw(st.binary(max_size=6))
    answer = victim.answer_to(frame(header(key, version) + bytes(changed)))
    if answer is None:
        return
    try:
        decode(key, version, answer)
    except UndecodableError as error:
        raise AssertionError(f"key {key} version {version}, body {bytes(changed).hex()}: {error}") from error


def test_the_good_client_after_all_that(victim: Victim) -> None:
    with victim.bounded(32 * MIB):
        victim.check()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
def test_noise(victim: Victim, noise: bytes) -> None:
    """Random bytes as a frame's payload, and as the stream itself."""
    victim.answer_to(frame(noise) + frame(noise)) if len(noise) >= 8 else None
    with victim.connect() as connection:
        connection.send(noise)


def test_pipelined_requests_that_nobody_reads(victim: Victim) -> None:
    """The server stops reading at some point; once answers are taken, all come in order."""
    count = 10_000
    one = body_of(ApiVersionsRequest(version=0))
    requests = [frame(header(18, 0, n) + one) for n in range(count)]
    with victim.bounded(64 * MIB), victim.connect() as connection:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.socket.settimeout(0.5)
        data, sent = b"".join(requests), 0
        try:
            while sent < len(data):
                sent += connection.socket.send(data[sent : sent + 65536])
        except TimeoutError:
            pass  # as it should: it waits for us
        victim.check()
        connection.socket.settimeout(30)
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB)
        # `sent` may end inside a request: those before it are answered.
        for n in range(sent // len(requests[0])):
            answer = connection.receive()
            assert answer is not None
            assert struct.unpack_from(">i", answer) == (n,)


@pytest.mark.slow
def test_large_fetches_that_nobody_reads(victim: Victim) -> None:
    """Eight clients ask for 40 MB each and read nothing, more than may be held: others are served still."""
    topic = victim.new_topic()
    records = [Record(random.Random(n).randbytes(1_000_000)) for n in range(40)]
    put(victim.bootstrap, topic, records, per_batch=1)
    side = Side(Server("ours", victim.bootstrap, "run"), "bad", 0)
    ask = fetch(side, 11, {topic: [fetch_partition(0, 0, partition_max_bytes=64 * MIB)]}, max_bytes=64 * MIB)
    with victim.bounded(400 * MIB), ExitStack() as stack:
        for _ in range(8):
            connection = stack.enter_context(victim.connect())
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.send(encode(ask))
        victim.check()
