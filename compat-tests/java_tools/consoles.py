"""kafka-console-producer and kafka-console-consumer."""

from __future__ import annotations

from typing import Final

from frameworks.checks import equal, until
from java_tools.host import Tools
from java_tools.tables import table

WAIT: Final = ("--timeout-ms", "30000")
"""What a consumer waits for the records that must come."""

ALL: Final = tuple(
    part
    for field in ("key", "headers", "partition", "offset")
    for part in ("--formatter-property", f"print.{field}=true")
)


def consume(tools: Tools, *arguments: str, count: int) -> list[str]:
    """The lines of exactly so many records."""
    return tools.run(
        "kafka-console-consumer", *arguments, "--max-messages", str(count), *WAIT, *ALL
    ).out.splitlines()


def consoles(tools: Tools) -> None:
    keys_and_headers(tools)
    topic = tools.topic()
    tools.produce(topic, *(f"k{n}:v{n}" for n in range(10)))
    places(tools, topic)
    groups(tools, topic)
    codecs(tools)


def keys_and_headers(tools: Tools) -> None:
    topic = tools.topic()
    reader = ("parse.headers=true", "parse.key=true", "null.marker=NULL")
    how = [part for one in reader for part in ("--reader-property", one)]
    lines = ["h1:a,h2:b\tk1\tv1", "h1:x,h1:y\tNULL\tv2", "NULL\tk3\tNULL", "NULL\tköln\tgrüße"]
    tools.run("kafka-console-producer", "--topic", topic, *how, stdin="".join(f"{one}\n" for one in lines))
    equal(
        consume(tools, "--topic", topic, "--from-beginning", count=4),
        [
            "Partition:0\tOffset:0\th1:a,h2:b\tk1\tv1",
            "Partition:0\tOffset:1\th1:x,h1:y\tnull\tv2",
            "Partition:0\tOffset:2\tNO_HEADERS\tk3\tnull",
            "Partition:0\tOffset:3\tNO_HEADERS\tköln\tgrüße",
        ],
        "records read again",
    )


def line(offset: int) -> str:
    return f"Partition:0\tOffset:{offset}\tNO_HEADERS\tk{offset}\tv{offset}"


def places(tools: Tools, topic: str) -> None:
    """By partition and offset, without a group; by a pattern of topics."""
    at = ("--topic", topic, "--partition", "0", "--offset")
    equal(consume(tools, *at, "7", count=3), [line(7), line(8), line(9)], "from offset 7")
    equal(consume(tools, *at, "earliest", count=1), [line(0)], "from the earliest offset")
    nothing = tools.run("kafka-console-consumer", *at, "latest", "--timeout-ms", "500")
    equal(nothing.lines, [], "behind the latest offset")
    found = consume(tools, "--include", f"{topic}|no-such-topic", "--from-beginning", count=10)
    equal(found, [line(n) for n in range(10)], "by a pattern")


def groups(tools: Tools, topic: str) -> None:
    """A group goes on where it stopped."""
    of = ("--topic", topic, "--group", f"group-{topic}", "--from-beginning")
    equal(consume(tools, *of, count=4), [line(n) for n in range(4)], "a group's first records")
    equal(consume(tools, *of, count=3), [line(n) for n in range(4, 7)], "its next records")
    committed = ("--isolation-level", "read_committed")
    equal(consume(tools, *of, *committed, count=3), [line(n) for n in range(7, 10)], "its last records")


def codecs(tools: Tools) -> None:
    """All of them, and acks=1; each record is there and comes back."""
    topic = tools.topic()
    words = ["gzip", "snappy", "lz4", "zstd", "none"]
    for codec in words:
        how = ("--compression-codec", codec, "--request-required-acks", "1")
        tools.run("kafka-console-producer", "--topic", topic, *how, stdin=f"by {codec}\n")
    found = tools.run(
        "kafka-console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "5", *WAIT
    )
    equal(found.out.splitlines(), [f"by {codec}" for codec in words], "records of all codecs")


def kafka_groups(tools: Tools) -> None:
    """kafka-groups: groups of all kinds, filtered."""
    topic = tools.topic()
    tools.produce(topic, "k:v")
    group = f"group-{topic}"
    consume(tools, "--topic", topic, "--group", group, "--from-beginning", count=1)

    def shown(*filters: str) -> dict[str, tuple[str, str]]:
        rows = table(tools.run("kafka-groups", "--list", *filters).lines, "GROUP")
        return {row["GROUP"]: (row["TYPE"], row["PROTOCOL"]) for row in rows}

    until(lambda: group in shown(), "the group in the list")
    for filters in ((), ("--consumer",), ("--group-type", "classic"), ("--protocol", "consumer")):
        equal(shown(*filters).get(group), ("Classic", "consumer"), f"kafka-groups {filters}")
    for other in (("--share",), ("--streams",), ("--group-type", "consumer"), ("--protocol", "connect")):
        equal(shown(*other).get(group), None, f"kafka-groups {other}")
