"""Tools that look at logs: kafka-get-offsets, kafka-delete-records, kafka-log-dirs."""

from __future__ import annotations

import json
from collections import Counter
from typing import Final

from frameworks.checks import equal, until
from java_tools.host import Tools

GET: Final = "kafka-get-offsets"
TIME_MS: Final = 1_700_000_000_000


def shown(tools: Tools, *arguments: str) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition."""
    rows = [line.rsplit(":", 2) for line in tools.run(GET, *arguments).lines]
    return {(topic, int(partition)): int(offset) for topic, partition, offset in rows}


def get_offsets(tools: Tools) -> None:
    """Every form of --time, and of naming partitions."""
    name = tools.topic(3, "retention.ms=-1")
    how = ("--max-messages", "6", "--repeating-keys", "2", "--message-create-time", str(TIME_MS))
    tools.apart("kafka-verifiable-producer", "--topic", name, *how)
    ends = shown(tools, "--topic", name)
    equal(ends, {(name, 0): 3, (name, 1): 0, (name, 2): 3}, "ends: keys 0 and 1 are in partitions 2 and 0")
    zeros = dict.fromkeys(ends, 0)
    two = [(name, 0), (name, 2)]
    times: list[tuple[str, dict[tuple[str, int], int]]] = [
        ("-1", ends), ("latest", ends),
        ("-2", zeros), ("earliest", zeros), ("-4", zeros), ("earliest-local", zeros),
        ("-3", dict.fromkeys(two, 2)), ("max-timestamp", dict.fromkeys(two, 2)),
        ("-5", {}), ("latest-tiered", {}), ("-6", {}), ("earliest-pending-upload", {}),
        ("0", dict.fromkeys(two, 0)), (str(TIME_MS), dict.fromkeys(two, 0)), ("9700000000000", {}),
    ]  # fmt: skip
    for time, wanted in times:
        equal(shown(tools, "--topic", name, "--time", time), wanted, f"--time {time}")
    equal(
        shown(tools, "--topic", f"{name[:-1]}.", "--partitions", "0,1"),
        {(name, 0): 3, (name, 1): 0},
        "a pattern",
    )
    for places, wanted in (
        (f"{name}:1,{name}:2-", {(name, 1): 0, (name, 2): 3}),
        (f"{name}:-2", {(name, 0): 3, (name, 1): 0}),
        (f"{name}:0-2", {(name, 0): 3, (name, 1): 0}),
        (name, ends),
    ):
        found = shown(tools, "--topic-partitions", places, "--exclude-internal-topics")
        equal(found, wanted, f"--topic-partitions {places}")
    tools.refused(GET, "--topic", "no-such-topic", words="Could not match any topic-partitions")
    tools.refused(GET, "--topic", name, "--time", "nonsense", words="Malformed time argument")


def delete_records(tools: Tools) -> None:
    name = tools.topic(2)
    for partition_key in ("k", "l", "m"):
        tools.produce(name, *(f"{partition_key}:{n}" for n in range(4)))
    before = shown(tools, "--topic", name)
    full = max(before, key=lambda place: before[place])
    end = before[full]
    equal(sum(before.values()), 12, "records")

    def delete(*offsets: tuple[int, int]) -> list[str]:
        wanted = [{"topic": name, "partition": place, "offset": offset} for place, offset in offsets]
        file = tools.file("delete.json", {"partitions": wanted, "version": 1})
        return tools.run("kafka-delete-records", "--offset-json-file", file).lines

    assert f"partition: {name}-{full[1]}\tlow_watermark: 2" in delete((full[1], 2))
    equal(shown(tools, "--topic", name, "--time", "earliest")[full], 2, "the log's start")
    assert f"partition: {name}-{full[1]}\tlow_watermark: 2" in delete((full[1], 1)), "an offset that is gone"
    (refused,) = [line for line in delete((full[1], end + 1)) if f"{name}-{full[1]}" in line]
    assert "OffsetOutOfRangeException" in refused, refused
    equal(shown(tools, "--topic", name, "--time", "earliest")[full], 2, "the start after a refusal")
    assert f"partition: {name}-{full[1]}\tlow_watermark: {end}" in delete((full[1], -1))
    equal(shown(tools, "--topic", name, "--time", "earliest")[full], end, "the start at the end")
    equal(shown(tools, "--topic", name), before, "ends")


def log_dirs(tools: Tools) -> None:
    name = tools.topic(2)
    tools.produce(name, "k:" + "x" * 500, "k:" + "y" * 500, "k:" + "z" * 500)
    full = next(place for (_, place), end in shown(tools, "--topic", name).items() if end == 3)

    asked: set[str] = set()

    def sizes(*more: str) -> dict[str, int]:
        """By partition, which one broker tells of: in as many directories as there are copies."""
        *_, last = tools.run("kafka-log-dirs", "--describe", *more).lines
        brokers = json.loads(last)["brokers"]
        found = [one for broker in brokers for folder in broker["logDirs"] for one in folder["partitions"]]
        asked.update(str(broker["broker"]) for broker in brokers)
        assert all(one["isFuture"] is False and one["offsetLag"] == 0 for one in found), found
        told = Counter((one["partition"], one["size"]) for one in found)
        copies = {count for (partition, _), count in told.items() if partition.startswith(f"{name}-")}
        assert copies <= {len(tools.brokers)}, f"not {len(tools.brokers)} copies: {told}"
        return dict(list(told))

    until(lambda: sorted(sizes("--topic-list", name)) == [f"{name}-0", f"{name}-1"], "both partitions")
    found = sizes("--topic-list", name)
    equal(found[f"{name}-{1 - full}"], 0, "bytes of the empty one")
    assert 1500 < found[f"{name}-{full}"] < 2000, found
    assert set(found) <= set(sizes("--broker-list", ",".join(tools.brokers))), "all topics"
    equal(asked, set(tools.brokers), "brokers")
    equal(sizes("--topic-list", "no-such-topic"), {}, "no such topic")
    tools.refused(
        "kafka-log-dirs", "--describe", "--broker-list", "1,7", words="The given brokers do not exist .* 7"
    )
