"""`dafka produce` and `dafka consume` with --bootstrap, beside other clients and on another Kafka's terms."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.applications.test_ephemeral import SECONDS
from tests.clients.stored import create_topic, stored_batches
from tests.differential.batches import records_of
from tests.peers.standalone import Standalone
from wireproto.kafka.partitioner import murmur2

DAFKA = [sys.executable, "-m", "dafka"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(None, "--fsync", "never", directory=tmp_path_factory.mktemp("records")) as server:
        yield server


@pytest.fixture
def topic(server: Standalone, request: pytest.FixtureRequest) -> str:
    return create_topic(server.bootstrap, request.node.name.replace("[", "-").replace("]", ""), 2)


def dafka(*arguments: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run(
        [*DAFKA, *arguments], input=stdin, capture_output=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*arguments: str, stdin: bytes = b"") -> str:
    done = subprocess.run(
        [*DAFKA, *arguments], input=stdin, capture_output=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    return done.stderr.decode()


def test_lines_and_what_is_shown_before_them(server: Standalone, topic: str) -> None:
    where = (topic, "--bootstrap", server.bootstrap)
    lines = b"a:1\r\nb:2\na:3\nc:without an end"
    dafka("produce", *where, "--key-separator", ":", "--header", "from=test", "--codec", "zstd", stdin=lines)
    found = dafka("consume", *where, "--show", "key", "--show", "headers", "--separator", "|").splitlines()
    header = b'[["from", "test"]]'
    assert sorted(found) == sorted(
        b"|".join((key, header, value))
        for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"without an end"))
    )
    of_a = [line for line in found if line.startswith(b"a|")]
    assert [line[-1:] for line in of_a] == [b"1", b"3"]
    codecs = {batch.codec for n in range(2) for batch in stored_batches(server.bootstrap, topic, n)}
    assert codecs == {4}


def test_keys_go_where_other_clients_put_them(server: Standalone, topic: str) -> None:
    keys = [b"key %d" % n for n in range(40)] + [b"", b"\xff\x00", "ключ".encode()]
    theirs: dict[bytes, int] = {}
    producer = Producer({"bootstrap.servers": server.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(
            topic,
            b"",
            key,
            on_delivery=lambda _, sent: theirs.setdefault(sent.key() or b"", sent.partition()),
        )
    assert producer.flush(SECONDS) == 0
    # (librdkafka places an empty key as if there were none.)
    assert {key: (murmur2(key) & 0x7FFFFFFF) % 2 for key in keys if key} == {
        key: index for key, index in theirs.items() if key
    }


def test_json_says_everything_and_can_be_read_again(server: Standalone, topic: str) -> None:
    records: list[dict[str, Any]] = [
        {"key": "k", "value": '\u2603 "quotes"', "headers": [["h", "1"], ["h", None]], "timestamp": 1000},
        {"key": None, "value": None, "headers": [], "timestamp": 2000},
        {
            "key": {"base64": "/wA="},
            "value": {"base64": "gA=="},
            "headers": [["b", {"base64": "/w=="}]],
            "timestamp": 3000,
        },
    ]  # fmt: skip
    lines = "".join(json.dumps(one | {"partition": 1}) + "\n" for one in records).encode()
    where = ("--bootstrap", server.bootstrap, "--format", "json")
    dafka("produce", topic, *where, stdin=lines)
    first = dafka("consume", topic, *where)
    found = [json.loads(line) for line in first.splitlines()]
    assert found == [
        one | {"topic": topic, "partition": 1, "offset": offset} for offset, one in enumerate(records)
    ]
    stored = [one for batch in stored_batches(server.bootstrap, topic, 1) for _, one in records_of(batch)]
    assert [(one.key, one.value) for one in stored] == [
        (b"k", '\u2603 "quotes"'.encode()), (None, None), (b"\xff\x00", b"\x80")
    ]  # fmt: skip
    create_topic(server.bootstrap, f"{topic}-2", 2)
    dafka("produce", f"{topic}-2", *where, stdin=first)
    assert dafka("consume", f"{topic}-2", *where) == first.replace(topic.encode(), f"{topic}-2".encode())
    dafka("produce", topic, *where, stdin=b'{"value": {"a": [1, 2]}, "partition": 0}')
    assert dafka("consume", topic, "--bootstrap", server.bootstrap, "--partition", "0") == b'{"a":[1,2]}\n'


def test_hexadecimal_and_raw(server: Standalone, topic: str) -> None:
    where = (topic, "--bootstrap", server.bootstrap, "--partition", "1")
    dafka("produce", *where, "--format", "hex", "--key-separator", "=", stdin=b"00ff=0a0d\n=\n")
    assert dafka("consume", *where, "--format", "hex", "--show", "key") == b"00ff\t0a0d\n\t\n"
    dafka("produce", *where, "--format", "raw", stdin=b"two\nlines\0\r\n")
    assert dafka("consume", *where, "--format", "raw", "--from", "last:1") == b"two\nlines\0\r\n"


@pytest.mark.parametrize(
    ("start", "values"),
    [
        ("beginning", b"0123456789"), ("end", b""), ("offset:7", b"789"), ("offset:99", b""),
        ("last:3", b"789"),
        ("last:99", b"0123456789"), ("time:1970-01-01T00:00:05+00:00", b"56789"), ("time:2970-01-01", b""),
    ],
)  # fmt: skip
def test_where_it_begins(server: Standalone, start: str, values: bytes) -> None:
    if not dafka("topics", "list", "--bootstrap", server.bootstrap).count(b"beginnings\n"):
        create_topic(server.bootstrap, "beginnings", 1)
        lines = "".join(json.dumps({"value": str(n), "timestamp": n * 1000}) + "\n" for n in range(10))
        dafka(
            "produce", "beginnings", "--bootstrap", server.bootstrap, "--format", "json", stdin=lines.encode()
        )
    found = dafka("consume", "beginnings", "--bootstrap", server.bootstrap, "--from", start)
    assert found.replace(b"\n", b"") == values
    limited = dafka(
        "consume", "beginnings", "--bootstrap", server.bootstrap, "--from", start, "--max-records", "2"
    )
    assert limited.replace(b"\n", b"") == values[:2]


def test_it_follows_until_it_is_stopped(server: Standalone, topic: str) -> None:
    where = (topic, "--bootstrap", server.bootstrap)
    dafka("produce", *where, "--partition", "0", stdin=b"before\n")
    with subprocess.Popen(
        [*DAFKA, "consume", *where, "--follow", "--from", "last:1"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"before\n"
        # What is typed is there before the input ends.
        with subprocess.Popen([*DAFKA, "produce", *where], stdin=subprocess.PIPE) as producer:
            assert producer.stdin is not None
            producer.stdin.write(b"while it listens\n")
            producer.stdin.flush()
            assert process.stdout.readline() == b"while it listens\n"
        assert producer.returncode == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 0


def test_many_records_in_several_batches(server: Standalone, topic: str, tmp_path: Path) -> None:
    where = (topic, "--bootstrap", server.bootstrap)
    lines = b"".join(b"%d %s\n" % (n, b"x" * (n % 50)) for n in range(30_000))
    dafka("produce", *where, stdin=lines)
    assert sorted(dafka("consume", *where).splitlines()) == sorted(lines.splitlines())
    assert all(stored_batches(server.bootstrap, topic, n) for n in range(2))


def test_what_cannot_be_is_said(server: Standalone, topic: str) -> None:
    where = (topic, "--bootstrap", server.bootstrap)
    for arguments, stdin, why in (
        (
            ("produce", "no-such-topic", *where[1:]),
            b"a",
            "UNKNOWN_TOPIC_OR_PARTITION. 'dafka topics create no-",
        ),
        (
            ("produce", "bad name", *where[1:]),
            b"a",
            "bad name: INVALID_TOPIC_EXCEPTION. A name has letters, digits",
        ),
        (("produce", *where, "--partition", "2"), b"a", "has no partition 2: it has 2"),
        (("produce", *where, "--format", "json"), b"a", "no JSON object: 'a'"),
        (("produce", *where, "--format", "json"), b'{"partition": 7}', "has no partition 7"),
        (("produce", *where, "--format", "json"), b'{"headers": 1}', "a line is no record"),
        (("produce", *where, "--format", "hex"), b"xy", "not hexadecimal: 'xy'"),
        (("produce", *where, "--key-separator", "="), b"xy", "no '=' after its key: 'xy'"),
        (("produce", *where, "--header", "x"), b"", "write NAME=VALUE"),
        (("produce", *where, "--stores", "2"), b"", "--stores is for native records"),
        (("produce", "subject", "--format", "hex"), b"", "--format is for Kafka topics"),
        (("consume", *where, "--from-beginning"), b"", "--from-beginning is for native records"),
        (("consume", "subject", "--from", "end"), b"", "--from is for Kafka topics"),
        (("consume", *where, "--from", "yesterday"), b"", "write beginning, end, offset:N"),
        (("consume", *where, "--from", "time:yesterday"), b"", "'yesterday' is no time"),
        (("consume", *where, "--partition", "2"), b"", "has no partition 2"),
    ):
        assert why in refused(*arguments, stdin=stdin)
    assert dafka("consume", *where) == b""


def test_read_committed_shows_what_was_committed_and_ends_before_what_is_open(
    server: Standalone, topic: str
) -> None:
    def transaction(of: Producer, *values: bytes) -> None:
        of.begin_transaction()
        for value in values:
            of.produce(topic, value, partition=0)
        assert of.flush(SECONDS) == 0

    made = [
        Producer({"bootstrap.servers": server.bootstrap, "transactional.id": f"{topic}-{number}"})
        for number in range(3)
    ]
    for one in made:
        one.init_transactions(SECONDS)
    first, second, third = made
    where = ("--bootstrap", server.bootstrap, "--partition", "0")
    committed = (*where, "--isolation-level", "read_committed")
    transaction(first, b"a1", b"a2")
    transaction(second, b"b1", b"b2")
    dafka("produce", topic, *where, stdin=b"plain\n")
    first.produce(topic, b"a3", partition=0)
    second.abort_transaction(SECONDS)
    first.commit_transaction(SECONDS)
    transaction(second, b"b3")
    second.commit_transaction(SECONDS)
    everything = [b"a1", b"a2", b"b1", b"b2", b"plain", b"a3", b"b3"]
    assert dafka("consume", topic, *where).splitlines() == everything
    # What is committed is seen once it has its markers.
    seen = dafka("consume", topic, *committed, "--follow", "--max-records", "5").splitlines()
    assert seen == [b"a1", b"a2", b"plain", b"a3", b"b3"]
    transaction(third, b"open")
    dafka("produce", topic, *where, stdin=b"behind\n")
    assert dafka("consume", topic, *where).splitlines() == [*everything, b"open", b"behind"]
    assert dafka("consume", topic, *committed).splitlines() == [b"a1", b"a2", b"plain", b"a3", b"b3"]
    from_there = dafka("consume", topic, *committed, "--from", "last:3").splitlines()
    assert from_there == [b"b3"]  # markers count, as in every offset
    third.abort_transaction(SECONDS)
    decided = [b"a1", b"a2", b"plain", b"a3", b"b3", b"behind"]
    assert dafka("consume", topic, *committed, "--follow", "--max-records", "6").splitlines() == decided
