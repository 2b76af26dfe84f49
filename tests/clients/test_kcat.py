"""kcat as Debian ships it: librdkafka 2.0.2, which checks exact version numbers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.clients.sample import CODEC_NAMES, LARGEST_VALUE_BYTES, T0, small_records, text
from tests.clients.stored import check_records, put, stored_batches, stored_records
from tests.differential.batches import Record
from tests.peers.requirements import require

SECONDS = 60


def kcat(bootstrap: str, *arguments: str, stdin: bytes | None = None) -> bytes:
    command = [require("kcat"), "-b", bootstrap, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_produces(bootstrap: str, topic: str, codec: str) -> None:
    """Stored under the codec asked for, which it drops in silence when it misses an API version."""
    wanted = [Record(text(100 + n, f"{n}"), b"key%d" % n) for n in range(200)]
    lines = b"".join((r.key or b"") + b":" + (r.value or b"") + b"\n" for r in wanted)
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-z", codec, "-K", ":", stdin=lines)
    assert {one.codec_name for one in stored_batches(bootstrap, topic)} == {codec}
    found = [(offset, Record(r.value, r.key)) for offset, r in stored_records(bootstrap, topic)]
    check_records(found, wanted)


def test_produces_headers_and_nulls(bootstrap: str, topic: str) -> None:
    headers = ["-H", "a=1", "-H", "b=", "-H", "a=2"]
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-K", ":", "-Z", *headers, stdin=b"k:v\nk:\n:v\n")
    found = [(r.key, r.value, r.headers) for _, r in stored_records(bootstrap, topic)]
    expected = (("a", b"1"), ("b", b""), ("a", b"2"))
    assert found == [(b"k", b"v", expected), (b"k", None, expected), (None, b"v", expected)]


def test_produces_a_large_file(bootstrap: str, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(text(LARGEST_VALUE_BYTES, "large"))
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-X", "message.max.bytes=1048588", str(file))
    ((_, record),) = stored_records(bootstrap, topic)
    assert record.value == file.read_bytes()


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_consumes(bootstrap: str, topic: str, codec: str) -> None:
    records = [Record(r.value, r.key, r.timestamp, (("h", b"1"),)) for r in small_records(50)]
    put(bootstrap, topic, records, codec=codec)
    line = "%o %T %k %h %S %s\n"
    out = kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-f", line)
    assert out.decode().splitlines() == [
        f"{n} {r.timestamp} {(r.key or b'').decode()} h=1 {len(r.value or b'')} {(r.value or b'').decode()}"
        for n, r in enumerate(records)
    ]


@pytest.mark.parametrize(("start", "first"), [("3", 3), ("-5", 45), (f"s@{T0 + 30}", 30)])
def test_consumes_from(bootstrap: str, topic: str, start: str, first: int) -> None:
    put(bootstrap, topic, small_records(50))
    out = kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-o", start, "-e", "-q", "-f", "%o ")
    assert list(map(int, out.split())) == list(range(first, 50))


def test_asks_for_offsets_by_time(bootstrap: str, topic: str) -> None:
    put(bootstrap, topic, small_records(50))
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:{T0 + 12}").decode() == f"{topic} [0] offset 12\n"


def test_lists(bootstrap: str, topic: str) -> None:
    listing = kcat(bootstrap, "-L", "-t", topic).decode()
    assert f'topic "{topic}" with 1 partitions' in listing
    assert f"at {bootstrap}" in listing
