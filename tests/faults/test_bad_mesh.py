"""Hostile bytes on the mesh's own port, when it is opened: dropped, and the node lives."""

from __future__ import annotations

import contextlib
import random
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from tests.faults.victim import MIB, Victim
from tests.peers.standalone import Standalone

ENDPOINT = re.compile(r"tcp://\S*127\.0\.0\.1\]?:(\d+)")
RFC_46_IDS = b"MKFDHNABC"
OUR_IDS = b"OSCXYBPQRVIoscxybpqrin"
ADDRESS = b"0123456789ABCDEF0123456789ABCDEF"


@pytest.fixture(scope="module")
def mesh() -> Iterator[tuple[Victim, int]]:
    """A server whose mesh listens, and the port."""
    with Standalone(None, "--mesh-listen", "127.0.0.1") as server:
        found = ENDPOINT.search(server.log)
        assert found, f"the mesh's port is not told: {server.log}"
        yield Victim(server), int(found[1])


def hostile_messages() -> list[list[bytes]]:
    """Every id with each way to be wrong: cut, no NUL, another version, too many frames, long names."""
    made: list[list[bytes]] = [[b""], [b"", b""], [b"\0"], [b"\xff" * 100], [b"M"] * 100]
    for number in RFC_46_IDS + OUR_IDS:
        head = bytes([number])
        topic = head + b"topic\0"
        made += [
            [head],
            [head + b"topic"],
            [topic],
            [topic + b"\0"],
            [topic + b"\x63" + bytes(40)],
            [topic + b"\1" + ADDRESS],
            [topic + b"\1" + ADDRESS + bytes(7)],
            [topic + b"\1" + b"\xff" * 60, b"content"],
            [topic + b"\1" + struct.pack(">Q", 2**64 - 1) * 5, b"content", b"more"],
            [head + b"t" * 5000 + b"\0\1" + ADDRESS + bytes(8)],
            [head + b"a\0b\0\1" + ADDRESS + bytes(8), b"content"],
            [head + ADDRESS + b"\0\1" + bytes(8), bytes(100_000)],
        ]
    return made


def test_messages(mesh: tuple[Victim, int]) -> None:
    """From peers of every shape: a subscriber, a publisher, and what is neither."""
    victim, port = mesh
    context = zmq.Context()
    try:
        with victim.bounded(32 * MIB):
            for kind in (zmq.XSUB, zmq.XPUB, zmq.DEALER):
                with context.socket(kind) as peer:
                    peer.linger = 500
                    peer.sndtimeo = 200
                    peer.connect(f"tcp://127.0.0.1:{port}")
                    with contextlib.suppress(zmq.Again):  # nobody takes what a DEALER sends
                        for message in hostile_messages():
                            peer.send_multipart(message)
                victim.check()
    finally:
        context.term()


def test_subscriptions(mesh: tuple[Victim, int]) -> None:
    """Many, long ones, and the same again; then all gone with their peer."""
    victim, port = mesh
    context = zmq.Context()
    try:
        with victim.bounded(96 * MIB), context.socket(zmq.SUB) as peer:
            peer.linger = 500
            peer.connect(f"tcp://127.0.0.1:{port}")
            for number in range(20_000):
                peer.subscribe(b"M%d" % number)
            for number in range(100):
                peer.subscribe(bytes([number]) * 20_000)
            victim.check()
    finally:
        context.term()


def test_a_subscriber_that_never_reads(mesh: tuple[Victim, int]) -> None:
    """It hears everything and takes nothing: it is dropped from, and nobody waits for it."""
    victim, port = mesh
    context = zmq.Context()
    try:
        with victim.bounded(128 * MIB), context.socket(zmq.SUB) as peer:
            peer.linger = 0
            peer.rcvhwm = 1
            peer.connect(f"tcp://127.0.0.1:{port}")
            peer.subscribe(b"")
            for _ in range(50):
                victim.check()
    finally:
        context.term()


def test_noise(mesh: tuple[Victim, int]) -> None:
    """No ZeroMQ at all: HTTP, half a greeting, random bytes, sizes of 2^63 behind a right greeting."""
    victim, port = mesh
    noise = random.Random(46)
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + b"\x00" + bytes(31)
    ready = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB"
    streams = [
        b"GET / HTTP/1.1\r\n\r\n",
        greeting[:10],
        greeting,
        greeting + b"\x04\xff" + b"x" * 255,
        greeting + b"\x06" + struct.pack(">Q", 2**63 - 1) + b"x" * 1000,
        greeting + ready + b"\x02" + struct.pack(">Q", 2**40) + b"x" * 1000,
        *(noise.randbytes(noise.randrange(1, 2000)) for _ in range(100)),
    ]
    with victim.bounded(32 * MIB):
        for stream in streams:
            with socket.create_connection(("127.0.0.1", port)) as peer:
                peer.sendall(stream)
    victim.check()


def test_it_is_told_that_the_mesh_is_open(tmp_path: Path) -> None:
    """And it is not, unless asked for."""
    with Standalone(tmp_path / "data", directory=tmp_path / "closed") as server:
        assert not ENDPOINT.search(server.log)
