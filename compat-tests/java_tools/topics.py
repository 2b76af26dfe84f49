"""kafka-topics."""

from __future__ import annotations

import re
from typing import Final

from frameworks.checks import equal, until
from java_tools.host import Tools

TOOL: Final = "kafka-topics"


def described(tools: Tools, *arguments: str) -> list[str]:
    """The lines of --describe; a broker of Kafka hears of changes a moment later than it answers."""
    return tools.run(TOOL, "--describe", *arguments).lines


def partitions_of(tools: Tools, topic: str) -> list[tuple[str, ...]]:
    """(partition, leader, replicas, in sync) of each."""
    lines = described(tools, "--topic", topic)[1:]
    pattern = r"\tTopic: (\S+)\tPartition: (\d+)\tLeader: (\S+)\tReplicas: (\S+)\tIsr: (\S*)\t.*"
    found = [re.fullmatch(pattern, line) for line in lines]
    assert all(match and match[1] == topic for match in found), lines
    return [match.groups()[1:] for match in found if match]


def copies(tools: Tools) -> int:
    """Of a topic that is made without saying how many: as many as there are stores, three at most."""
    return len(tools.brokers)


def check_places(tools: Tools, topic: str, count: int) -> None:
    """Alone the broker is where everything is; brokers of a cluster lead, and stores have the copies."""
    stores = {str(1000 + n) for n in range(len(tools.brokers))} if tools.several else {"1"}
    rows = partitions_of(tools, topic)
    equal([row[0] for row in rows], [str(n) for n in range(count)], "partitions")
    for _, leader, replicas, in_sync in rows:
        assert leader in tools.brokers, rows
        equal(set(replicas.split(",")), stores, "replicas")
        equal(set(in_sync.split(",")), stores, "in sync")


def topics(tools: Tools) -> None:
    name = tools.topic(2, "retention.ms=-1")
    listed_and_described(tools, name)
    refused(tools, name)
    tools.run(TOOL, "--alter", "--topic", name, "--partitions", "4")
    until(lambda: len(partitions_of(tools, name)) == 4, "four partitions")
    check_places(tools, name, 4)
    by_hand = f"{name}-by-hand"
    tools.run(TOOL, "--create", "--topic", by_hand, "--replica-assignment", "1,1,1")
    until(lambda: len(partitions_of(tools, by_hand)) == 3, "three partitions chosen by hand")
    tools.run(TOOL, "--delete", "--topic", f"{name}.*")
    until(lambda: name not in tools.run(TOOL, "--list").lines, "the topic gone")
    tools.refused(TOOL, "--delete", "--topic", name, words=f"Topic '{name}' does not exist as expected")
    tools.run(TOOL, "--delete", "--topic", name, "--if-exists")
    equal([one for one in tools.run(TOOL, "--list").lines if one.startswith(name)], [], "topics left")


def listed_and_described(tools: Tools, name: str) -> None:
    assert name in tools.run(TOOL, "--list").lines
    assert name in tools.run(TOOL, "--list", "--exclude-internal").lines
    equal(tools.run(TOOL, "--list", "--topic", f"{name[:-1]}.").lines, [name], "list by a pattern")
    head, *rows = described(tools, "--topic", name)
    found = re.fullmatch(
        rf"Topic: {name}\tTopicId: (\S+)\tPartitionCount: 2\tReplicationFactor: (\d)\tConfigs: (\S+)", head
    )
    assert found, head
    equal(int(found[2]), copies(tools), "copies")
    assert "retention.ms=-1" in found[3].split(","), head
    check_places(tools, name, 2)
    equal(described(tools, "--topic-id", found[1])[0], head, "described by its id")
    equal(
        described(tools, "--topic", name, "--partition-size-limit-per-response", "1"), [head, *rows], "pages"
    )
    for kind in ("unavailable", "under-replicated", "under-min-isr"):
        equal(described(tools, "--topic", name, f"--{kind}-partitions"), [], kind)
    at_least = [] if tools.several else rows  # where one copy has to be in sync, and three are
    equal(described(tools, "--topic", name, "--at-min-isr-partitions"), at_least, "at-min-isr")
    assert head in described(tools, "--topics-with-overrides")
    equal(described(tools, "--topic", "no-such-topic", "--if-exists"), [], "no such topic, if it exists")


def refused(tools: Tools, name: str) -> None:
    tools.refused(TOOL, "--create", "--topic", name, words=f"Topic '{name}' already exists")
    tools.run(TOOL, "--create", "--topic", name, "--if-not-exists")
    tools.refused(TOOL, "--create", "--topic", "bad name", words="Topic name is invalid")
    for more, words in (
        (("--replication-factor", "9"), "InvalidReplicationFactor"),
        (("--config", "segment.bytes=1"), "Value must be at least"),
    ):
        tools.refused(TOOL, "--create", "--topic", f"{name}-x", *more, words=words)
    fewer = ("--alter", "--topic", name, "--partitions", "1")
    tools.refused(TOOL, *fewer, words="currently has 2 partition.* not be an increase")
    for what in ("--describe", "--delete"):
        tools.refused(TOOL, what, "--topic", "no-such-topic", words="does not exist as expected")
