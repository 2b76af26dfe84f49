"""kafka-consumer-groups, and kafka-streams-application-reset, which resets a group as well."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from frameworks.checks import equal, until
from java_tools.consoles import consume
from java_tools.host import Tools
from java_tools.tables import table

TOOL: Final = "kafka-consumer-groups"


def describe(tools: Tools, *arguments: str) -> list[dict[str, str]]:
    """Rows of --describe."""
    return table(tools.run(TOOL, "--describe", *arguments).lines, "GROUP")


def offsets(tools: Tools, group: str) -> dict[tuple[str, int], tuple[str, str, str]]:
    """(committed, end, lag) by topic and partition; `-` where there is none."""
    return {
        (row["TOPIC"], int(row["PARTITION"])): (row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"])
        for row in describe(tools, "--group", group)
    }


def consumer_groups(tools: Tools) -> None:
    topic = tools.topic(2)
    tools.produce(topic, *(f"k{n}:v{n}" for n in range(10)))
    group, other = f"group-{topic}", f"other-{topic}"
    consume(tools, "--topic", topic, "--group", other, "--from-beginning", count=10)
    with tools.beside("kafka-verifiable-consumer", "--topic", topic, "--group-id", group) as member:
        assert member.stdout is not None
        while "offsets_committed" not in (line := member.stdout.readline()):
            assert line, "the member of the group ended"
        until(lambda: [lag for _, _, lag in offsets(tools, group).values()] == ["0", "0"], "all committed")
        with_a_member(tools, topic, group)
        tools.refused(TOOL, "--delete", "--group", group, words="GroupNotEmptyException", status=0)
    until(lambda: states(tools).get(group) == "Empty", "the member gone")
    without_members(tools, topic, group, other)


def states(tools: Tools, *wanted: str) -> dict[str, str]:
    """By group."""
    rows = table(tools.run(TOOL, "--list", "--state", *wanted).lines, "GROUP")
    return {row["GROUP"]: row["STATE"] for row in rows}


def with_a_member(tools: Tools, topic: str, group: str) -> None:
    until(lambda: states(tools).get(group) == "Stable", "a stable group")
    assert group in states(tools, "stable")
    assert group not in states(tools, "empty,dead")
    rows = describe(tools, "--group", group, "--offsets", "--verbose")
    ends = {row["PARTITION"]: row["LOG-END-OFFSET"] for row in rows}
    equal(sorted(ends), ["0", "1"], "partitions of the group")
    equal(sum(map(int, ends.values())), 10, "records")
    for row in rows:
        equal((row["TOPIC"], row["CURRENT-OFFSET"], row["LAG"]), (topic, row["LOG-END-OFFSET"], "0"), "a row")
        equal(row["HOST"], "/127.0.0.1", "the member's host")
        assert row["CONSUMER-ID"].startswith(row["CLIENT-ID"]), row
    (member,) = describe(tools, "--group", group, "--members", "--verbose")
    equal(member["#PARTITIONS"], "2", "partitions of the member")
    equal(member["CURRENT-ASSIGNMENT"], f"{topic}:0,1", "its assignment")
    equal(member["CONSUMER-ID"], rows[0]["CONSUMER-ID"], "its id")
    (state,) = describe(tools, "--group", group, "--state")
    equal(
        (state["ASSIGNMENT-STRATEGY"], state["STATE"], state["#MEMBERS"]), ("range", "Stable", "1"), "state"
    )
    assert state["COORDINATOR (ID)"] in {f"{at} ({number})" for number, at in tools.brokers.items()}, state
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    tools.refused(TOOL, *reset, words="can only be reset if the group .* is inactive", status=0)


def without_members(tools: Tools, topic: str, group: str, other: str) -> None:
    listed = tools.run(TOOL, "--list").lines
    assert {group, other} <= set(listed), listed
    for kind, there in (("classic", True), ("consumer", False)):
        rows = table(tools.run(TOOL, "--list", "--type", kind).lines, "GROUP")
        equal(group in {row["GROUP"] for row in rows}, there, f"listed as {kind}")
    both = {row["GROUP"] for row in describe(tools, "--all-groups")}
    assert {group, other} <= both, both
    equal(describe(tools, "--group", group, "--members"), [], "members")
    tools.refused(TOOL, "--describe", "--group", "no-such", words="Group no-such not found", status=0)
    said = tools.run(TOOL, "--delete-offsets", "--group", group, "--topic", f"{topic}:1")
    equal(table(said.lines, "TOPIC"), [{"TOPIC": topic, "PARTITION": "1", "STATUS": "Successful"}], "deleted")
    equal(list(offsets(tools, group)), [(topic, 0)], "offsets that are left")
    for where, words in (
        (("--group", group, "--topic", "no-such-topic"), "UnknownTopicOrPartition"),
        (("--group", "no-such", "--topic", topic), "GroupIdNotFound"),
    ):
        tools.refused(TOOL, "--delete-offsets", *where, words=words, status=0)
    said = tools.run(TOOL, "--delete", "--group", group, "--group", other)
    assert "was successful" in said.out, said
    listed = tools.run(TOOL, "--list").lines
    assert not {group, other} & set(listed), listed
    tools.refused(TOOL, "--delete", "--group", group, words="GroupIdNotFoundException", status=0)


def reset_offsets(tools: Tools) -> None:
    """Every way to say where to, as a dry run and for good."""
    topic, second = tools.topic(2), tools.topic()
    tools.produce(second, *(f"k{n}:v{n}" for n in range(10)))
    group = f"group-{topic}"
    consume(tools, "--topic", second, "--group", group, "--from-beginning", count=6)
    until(lambda: offsets(tools, group) == {(second, 0): ("6", "10", "4")}, "what was committed")
    hour_ago = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.000")
    ways = [
        (("--to-earliest",), 0),
        (("--to-latest",), 10),
        (("--to-offset", "3"), 3),
        (("--shift-by", "-2"), 1),
        (("--shift-by", "4"), 5),
        (("--to-current",), 5),  # and so the dry run before it changed nothing
        (("--to-offset", "99"), 10),
        (("--by-duration", "PT1H"), 0),
        (("--shift-by", "-99"), 0),
        (("--to-datetime", "2099-01-01T00:00:00.000"), 10),
        (("--to-datetime", hour_ago), 0),
    ]
    for way, wanted in ways:
        here = ("--group", group, "--topic", second, *way)
        equal(reset(tools, *here, "--dry-run"), {(group, second, "0"): wanted}, f"dry run of {way}")
        equal(reset(tools, *here, "--execute"), {(group, second, "0"): wanted}, f"{way}")
        equal(offsets(tools, group), {(second, 0): (str(wanted), "10", str(10 - wanted))}, f"after {way}")
    several_topics(tools, group, topic, second)


def reset(tools: Tools, *arguments: str) -> dict[tuple[str, str, str], int]:
    """New offsets by group, topic and partition."""
    rows = table(tools.run(TOOL, "--reset-offsets", *arguments).lines, "GROUP")
    return {(row["GROUP"], row["TOPIC"], row["PARTITION"]): int(row["NEW-OFFSET"]) for row in rows}


def several_topics(tools: Tools, group: str, topic: str, second: str) -> None:
    one = reset(tools, "--group", group, "--topic", f"{topic}:1", "--to-latest", "--execute")
    equal(one, {(group, topic, "1"): 0}, "one partition")
    everywhere = reset(tools, "--group", group, "--all-topics", "--to-latest", "--execute")
    equal(everywhere, {(group, topic, "1"): 0, (group, second, "0"): 10}, "all topics")
    how = ("--reset-offsets", "--group", group, "--all-topics", "--to-earliest")
    exported = tools.run(TOOL, *how, "--dry-run", "--export").lines
    equal(sorted(exported), sorted([f"{topic},1,0", f"{second},0,0"]), "exported")
    file = tools.file("offsets.csv", f"{second},0,5\n{topic},0,0\n")
    planned = reset(tools, "--group", group, "--from-file", file, "--dry-run")
    equal(planned, {(group, topic, "0"): 0, (group, second, "0"): 5}, "dry run from a file")
    equal(reset(tools, "--group", group, "--from-file", file, "--execute"), planned, "from a file")
    wanted = {(topic, 0): ("0", "0", "0"), (topic, 1): ("0", "0", "0"), (second, 0): ("5", "10", "5")}
    equal(offsets(tools, group), wanted, "offsets at the end")
    new = f"new-{group}"
    equal(
        reset(tools, "--group", new, "--topic", second, "--to-offset", "4", "--execute"),
        {(new, second, "0"): 4},
        "a group that was not there",
    )
    of = ("--topic", second, "--group", new)
    found = consume(tools, *of, count=6)
    equal([text.split("\t")[-1] for text in found], [f"v{n}" for n in range(4, 10)], "read from there")


def application_reset(tools: Tools) -> None:
    """kafka-streams-application-reset: offsets of the input, and the application's own topics."""
    topic = tools.topic()
    tools.produce(topic, "a:1", "b:2", "c:3")
    application = f"app-{topic}"
    consume(tools, "--topic", topic, "--group", application, "--from-beginning", count=3)
    own = f"{application}-store-changelog"
    tools.run("kafka-topics", "--create", "--topic", own)
    how = ("--application-id", application, "--input-topics", topic)
    said = tools.run("kafka-streams-application-reset", *how, "--dry-run").out
    assert f"Topic: {topic} Partition: 0 Offset: 0" in said, said
    assert own in said, said
    equal(offsets(tools, application), {(topic, 0): ("3", "3", "0")}, "after the dry run")
    tools.run("kafka-streams-application-reset", *how)
    equal(offsets(tools, application), {(topic, 0): ("0", "3", "3")}, "after the reset")
    until(lambda: own not in tools.run("kafka-topics", "--list").lines, "its own topic deleted")
