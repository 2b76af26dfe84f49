"""Tools that write and read: verifiable ones, performance tests, latency, Kafka's test of compatibility."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, Final

from frameworks.checks import equal
from java_tools.consoles import WAIT
from java_tools.host import Said, Tools
from java_tools.logs import shown

RECORDS: Final = 500


def events(said: Said) -> list[dict[str, Any]]:
    """What the verifiable ones print, a JSON object a line."""
    return [json.loads(line) for line in said.lines]


def verifiable(tools: Tools) -> None:
    """What the producer says was acknowledged is what the consumer says it read, in order."""
    name = tools.topic(3)
    how = ("--topic", name, "--max-messages", str(RECORDS), "--value-prefix", "7", "--repeating-keys", "10")
    produced = events(tools.apart("kafka-verifiable-producer", *how))
    sent = [one for one in produced if one["name"] == "producer_send_success"]
    equal(Counter(one["value"] for one in sent), Counter(f"7.{n}" for n in range(RECORDS)), "acknowledged")
    (summary,) = [one for one in produced if one["name"] == "tool_data"]
    equal((summary["sent"], summary["acked"]), (RECORDS, RECORDS), "the producer's own summary")

    group = ("--topic", name, "--group-id", f"group-{name}")
    read = events(tools.run("kafka-verifiable-consumer", *group, "--max-messages", str(RECORDS), "--verbose"))
    records = [one for one in read if one["name"] == "record_data"]
    fields = ("topic", "partition", "offset", "key", "value")
    places = sorted(tuple(one[field] for field in fields) for one in records)
    equal(places, sorted(tuple(one[field] for field in fields) for one in sent), "records at their places")
    for partition in range(3):
        offsets = [one["offset"] for one in records if one["partition"] == partition]
        equal(offsets, list(range(len(offsets))), f"offsets of partition {partition} in order")
    committed = [one for one in read if one["name"] == "offsets_committed"]
    assert committed, "nothing was committed"
    assert all(one["success"] for one in committed), committed
    last = {
        (place["topic"], place["partition"]): place["offset"] for one in committed for place in one["offsets"]
    }
    ends = shown(tools, "--topic", name)
    equal({place: last.get(place, 0) for place in ends}, ends, "offsets that were committed at last")


def performance(tools: Tools) -> None:
    name = tools.topic(2)
    of = ("--topic", name, "--throughput", "-1")
    produce = "kafka-producer-perf-test"
    props = ("--command-property", "acks=all", "linger.ms=5")
    said = tools.run(produce, *of, "--num-records", str(RECORDS), "--record-size", "100", *props).lines[-1]
    assert re.match(rf"{RECORDS} records sent, [\d.]+ records/sec .* ms 99.9th\.$", said), said
    tools.run(produce, *of, "--num-records", "20", "--payload-monotonic")
    file = tools.file("payloads.txt", "one,two,three")
    tools.run(produce, *of, "--num-records", "30", "--payload-file", file, "--payload-delimiter", ",")
    total = RECORDS + 20 + 30
    equal(sum(shown(tools, "--topic", name).values()), total, "records stored")
    for group in ("a", "b"):
        read = ("--topic", name, "--num-records", str(total), "--group", f"{group}-{name}", "--hide-header")
        (said,) = tools.run("kafka-consumer-perf-test", *read).lines
        equal(said.split(", ")[4], str(total), "records read")
    values = tools.run(
        "kafka-console-consumer", "--topic", name, "--from-beginning", "--max-messages", str(total), *WAIT
    ).out.splitlines()
    small = Counter(value for value in values if len(value) < 100)
    equal(len(values) - small.total(), RECORDS, "records of 100 bytes")
    equal({n: small.pop(n) for n in map(str, range(20))}, dict.fromkeys(map(str, range(20)), 1), "numbers")
    assert set(small) <= {"one", "two", "three"}, small
    equal(small.total(), 30, "payloads of the file")


def end_to_end_latency(tools: Tools) -> None:
    """It compares each record that comes back with the one that it sent, and fails where they differ."""
    name = tools.topic()
    for acks in ("all", "1"):
        said = tools.run("kafka-e2e-latency", tools.bootstrap, name, "50", acks, "100").out
        assert re.search(r"Avg latency: [\d.]+ ms\n+Percentiles: 50th = \d+, 99th = \d+", said), said
    equal(shown(tools, "--topic", name), {(name, 0): 100}, "records stored")


def client_compatibility(tools: Tools) -> None:
    """The test with which Kafka checks its new clients against its old brokers. Its topics are its own."""
    tools.run("kafka-topics", "--delete", "--topic", "newtopic", "--if-exists")
    name = tools.topic()
    supported = ("offsets-for-times", "cluster-id", "create-topics", "describe-acls", "describe-configs",
                 "idempotent-producer")  # fmt: skip
    flags = [part for one in supported for part in (f"--{one}-supported", "True")]
    said = tools.run(
        "kafka-client-compatibility-test", "--topic", name, "--num-cluster-nodes", str(len(tools.brokers)),
        "--expect-record-too-large-exception", "False", *flags,
    )  # fmt: skip
    assert said.lines[-1].startswith("SUCCESS"), said


def replica_verification(tools: Tools) -> None:
    """It reads all replicas as a replica would, and tells how far they are apart: there is nobody behind."""
    name = tools.topic()
    tools.produce(name, "a:1", "b:2")
    how = (
        "--broker-list",
        tools.bootstrap,
        "--topics-include",
        name,
        "--time",
        "-2",
        "--report-interval-ms",
        "100",
    )
    with tools.beside("kafka-replica-verification", *how) as process:
        assert process.stdout is not None
        told = ""
        while f"max lag is 0 for partition {name}-0 at offset 2" not in told:
            line = process.stdout.readline()
            assert line, f"it ended:\n{told}"
            told += line
