"""Inputs made of good ones, as a seed has it: bytes changed, taken away, doubled, mixed."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from typing import Final

MAX_BYTES: Final = 64 * 1024
"""Longest input that is made, about."""

_NUMBERS: Final = (0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)

_BITS: Final = (*range(7), *range(7), *range(7), 7)
_BELOW: Final = (128, 128, 128, 256)
"""Most of what is changed is text: a byte that is none ends the matter."""

_TEXTS: Final = (
    b"\0",
    b"\x01",
    b"=",
    b",",
    b"n,,",
    b"y,,",
    b"p=tls-unique,,",
    b"=2C",
    b"=3D",
    b"a=admin",
    b"m=x",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    "\u202e\u0000\ufeff".encode(),
    b"*",
    b"User:*",
    b"User:admin",
    b"/../",
    b"%00",
    b"null",
    b"-1",
    b"1e999",
    b"[" * 2_000,
    b'{"a":' * 2_000,
    b"A" * 5_000,
    b"tokenauth=true",
    b"Bearer ",
    b"PLAIN",
    b"SCRAM-SHA-256",
    b"kafka-cluster",
    b"\r\n",
    b".",
    b"..",
    b"admin",
    b"User:bob",
)


def mutated(data: bytes, others: Sequence[bytes], chooser: random.Random) -> bytes:
    """One to six changes of it; `others` are what it is mixed with."""
    found = bytearray(data)
    for _ in range(min(6, 1 + int(chooser.expovariate(0.7)))):
        chooser.choice(_CHANGES)(found, others, chooser)
    return bytes(found[:MAX_BYTES])


def _at(data: bytearray, chooser: random.Random) -> int:
    return chooser.randrange(len(data) + 1)


def _flip(data: bytearray, _others: Sequence[bytes], chooser: random.Random) -> None:
    if data:
        data[chooser.randrange(len(data))] ^= 1 << chooser.choice(_BITS)


def _set(data: bytearray, _others: Sequence[bytes], chooser: random.Random) -> None:
    if data:
        data[chooser.randrange(len(data))] = chooser.randrange(chooser.choice(_BELOW))


def _number(data: bytearray, _others: Sequence[bytes], chooser: random.Random) -> None:
    size = chooser.choice((1, 2, 4))
    at = _at(data, chooser)
    data[at : at + size] = struct.pack(">I", chooser.choice(_NUMBERS))[-size:]


def _insert(data: bytearray, _others: Sequence[bytes], chooser: random.Random) -> None:
    at = _at(data, chooser)
    below = chooser.choice(_BELOW)
    data[at:at] = bytes(chooser.randrange(below) for _ in range(chooser.randrange(1, 9)))


def _text(data: bytearray, _others: Sequence[bytes], chooser: random.Random) -> None:
    at = _at(data, chooser)
    data[at : at + chooser.choice((0, 0, 1, 4))] = chooser.choice(_TEXTS)


def _remove(data: bytearray, _others: Sequence[bytes], chooser: random.Random) -> None:
    at = _at(data, chooser)
    del data[at : at + chooser.randrange(1, 17)]


def _cut(data: bytearray, _others: Sequence[bytes], chooser: random.Random) -> None:
    del data[_at(data, chooser) :]


def _double(data: bytearray, _others: Sequence[bytes], chooser: random.Random) -> None:
    start, end = sorted((_at(data, chooser), _at(data, chooser)))
    data[end:end] = data[start:end] * chooser.choice((1, 1, 1, 2, 20))
    del data[MAX_BYTES:]


def _mix(data: bytearray, others: Sequence[bytes], chooser: random.Random) -> None:
    other = chooser.choice(others)
    start, end = sorted((chooser.randrange(len(other) + 1), chooser.randrange(len(other) + 1)))
    at = _at(data, chooser)
    data[at : at + chooser.choice((0, end - start))] = other[start:end]


_CHANGES: Final[Sequence[Callable[[bytearray, Sequence[bytes], random.Random], None]]] = (
    _flip,
    _flip,
    _set,
    _number,
    _number,
    _insert,
    _text,
    _remove,
    _cut,
    _double,
    _mix,
)


def joined(parts: Sequence[bytes]) -> bytes:
    """Several messages as one input, each with its size (16 bit) before it."""
    return b"".join(struct.pack(">H", len(part)) + part for part in parts)


def taken_apart(data: bytes) -> list[bytes]:
    """The messages of an input, whatever it is: of the last one what there is."""
    parts = []
    while data:
        size = int.from_bytes(data[:2], "big")
        parts.append(data[2 : 2 + size])
        data = data[2 + size :]
    return parts
