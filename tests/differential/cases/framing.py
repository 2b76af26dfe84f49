"""What is wrong before any API looks at it: sizes, headers, bodies cut short or too long."""

from __future__ import annotations

import struct

from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from tests.differential.case import REGISTERED, case
from tests.differential.samples import sample
from tests.differential.side import Side
from tests.differential.wire import CLIENT_ID, body_of, frame, header

KEY_METADATA = 3
KEY_UNKNOWN = 4711
KEY_OF_CONTROLLERS = 4  # LeaderAndIsr: known to Kafka, never served to clients


@case(MetadataRequest, [9])
def sizes(side: Side, version: int) -> None:
    for label, data in {
        "size -1": b"\xff\xff\xff\xff",
        "size 2^31-1": b"\x7f\xff\xff\xff" + b"x" * 100,
        "size -2^31": b"\x80\0\0\0",
        "size 0": b"\0\0\0\0",
        "size 1": b"\0\0\0\1\0",
        "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "TLS": bytes.fromhex("160301020001 0001fc0303") + bytes(500),
    }.items():
        side.ask_bytes(KEY_METADATA, version, data, label)


@case(MetadataRequest, [1, 8, 9, 13])
def headers(side: Side, version: int) -> None:
    fixed = struct.pack(">hhi", KEY_METADATA, version, 1)
    body = body_of(MetadataRequest(version=version, topics=[]))
    tags = b"\0" if version >= 9 else b""
    for label, data in {
        "null client id": fixed + b"\xff\xff" + tags + body,
        "empty client id": fixed + b"\0\0" + tags + body,
        "client id -2": fixed + b"\xff\xfe" + tags + body,
        "client id too long": fixed + b"\x7f\xff" + b"x" * 20,
        "client id not UTF-8": fixed + b"\0\2\xff\xfe" + tags + body,
        "cut": fixed[:-1],
        "no client id": fixed,
    }.items():
        side.ask_bytes(KEY_METADATA, version, frame(data), label)


@case(ApiVersionsRequest, [0])
def unknown_apis(side: Side, version: int) -> None:
    for key in [KEY_UNKNOWN, -1, KEY_OF_CONTROLLERS]:
        head = struct.pack(">hhih", key, version, 1, len(CLIENT_ID)) + CLIENT_ID.encode()
        side.ask_bytes(key, version, frame(head), f"key {key}")


@case(ApiVersionsRequest, [0])
def unsupported_versions(side: Side, version: int) -> None:
    """Every API but ApiVersions: the connection is closed, in Kafka for the lowest dropped versions too."""
    for key, served in REGISTERED.items():
        if key == ApiVersionsRequest.API_KEY:
            continue
        for unsupported in {served.start - 1, served.stop, 99, version - 1} - set(served):
            head = header(key, unsupported, flexible=unsupported >= served.stop)
            side.ask_bytes(key, served.start, frame(head + bytes(8)), f"key {key} version {unsupported}")


def _every_api(side: Side, spoil: str) -> None:
    for key, served in REGISTERED.items():
        for version in {served.start, (served.start + served.stop) // 2, served.stop - 1}:
            body = body_of(sample(side, key, version))
            spoilt = {"cut": body[:-1], "half": body[: len(body) // 2], "empty": b"", "more": body + b"\0"}[
                spoil
            ]
            if spoilt != body:
                side.ask_body(key, version, spoilt, f"key {key} version {version}")


@case(MetadataRequest, [9])
def bodies_cut(side: Side, version: int) -> None:
    _every_api(side, "cut")


@case(MetadataRequest, [9])
def bodies_halved(side: Side, version: int) -> None:
    _every_api(side, "half")


@case(MetadataRequest, [9])
def bodies_empty(side: Side, version: int) -> None:
    _every_api(side, "empty")


@case(MetadataRequest, [9])
def bodies_too_long(side: Side, version: int) -> None:
    _every_api(side, "more")


@case(MetadataRequest, [8, 9])
def counts(side: Side, version: int) -> None:
    """Array counts and string lengths that cannot be."""
    classic = {
        "count 2^31-1": b"\x7f\xff\xff\xff",
        "count -2": b"\xff\xff\xff\xfe",
        "count 5 of 0": b"\0\0\0\5",
        "string -1": b"\0\0\0\1\xff\xff\0\0\0",
        "string -7": b"\0\0\0\1\xff\xf9\0\0\0",
        "string too long": b"\0\0\0\1\x7f\xffabc",
        "string not UTF-8": b"\0\0\0\1\0\2\xc3\x28\0\0\0",
    }
    flexible = {
        "count 2^32-1": b"\xff\xff\xff\xff\x0f",
        "count of 6 bytes": b"\xff\xff\xff\xff\xff\x01",
        "count of 10 bytes": b"\xff" * 9 + b"\x01",
        "count overlong": b"\x81\x80\x80\x80\0\0\0\0\0",
        "string null": b"\2\0\0\0\0\0\0",
        "string too long": b"\2\x7fabc",
        "string not UTF-8": b"\2\3\xc3\x28\0\0\0\0\0",
        "tags 2^31": b"\1\0\0\0\xff\xff\xff\xff\x07",
        "tag too long": b"\1\0\0\0\1\0\x7fabc",
        "tag twice": b"\1\0\0\0\2\7\0\7\0",
        "tags descending": b"\1\0\0\0\2\7\0\6\0",
        "unknown tag": b"\1\0\0\0\1\7\3abc",
    }
    for label, body in (flexible if version >= 9 else classic).items():
        side.ask_body(KEY_METADATA, version, body, label)


@case(MetadataRequest, [9])
def alive_afterwards(side: Side, version: int) -> None:
    side.ask(MetadataRequest(version=version, topics=[]))


@case(ApiVersionsRequest, [0])
def pipelined(side: Side, version: int) -> None:
    """Many requests in one segment: every answer, in order."""
    one = MetadataRequest(version=9, topics=[])
    together = b"".join(frame(header(KEY_METADATA, 9, n) + body_of(one)) for n in range(50))
    side.connection.send(together)
    for n in range(50):
        answer = side.connection.receive()
        assert answer is not None, f"answer {n} did not come"
        assert struct.unpack_from(">i", answer) == (n,), f"answer {n} is out of order"
