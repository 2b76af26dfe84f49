"""Tools that ask about the cluster, and those whose answer is that there is nothing of the kind."""

from __future__ import annotations

import json
import re
from typing import Final

from frameworks.checks import equal, until
from java_tools.host import Tools
from java_tools.tables import table

REASSIGN: Final = "kafka-reassign-partitions"


def cluster(tools: Tools) -> None:
    server = ("--bootstrap-server", tools.bootstrap)
    (line,) = tools.run("kafka-cluster", "cluster-id", *server).lines
    assert re.fullmatch(r"Cluster ID: [\w-]{16,}", line), line
    rows = table(tools.run("kafka-cluster", "list-endpoints", *server).lines, "ID")
    wanted = [
        {
            "ID": number,
            "HOST": address.rpartition(":")[0],
            "PORT": address.rpartition(":")[2],
            "RACK": "null",
            "STATE": "unfenced",
            "ENDPOINT_TYPE": "broker",
        }
        for number, address in tools.brokers.items()
    ]
    equal(sorted(rows, key=lambda row: row["ID"]), wanted, "endpoints")
    if tools.several:
        unregister = ("unregister", *server, "--id", "2")
        tools.refused("kafka-cluster", *unregister, words="gateway 2 is alive: stop it first")


def api_versions(tools: Tools) -> None:
    """Whatever is offered is a version that the client of the same release can use."""
    said = tools.run("kafka-broker-api-versions").out
    heads = {line for line in said.splitlines() if line.endswith(" -> (")}
    wanted = {
        f"{address} (id: {number} rack: null isFenced: false) -> ("
        for number, address in tools.brokers.items()
    }
    equal(heads, wanted, "brokers")
    found = re.findall(r"^\s(\w+)\((\d+)\): (\d+)(?: to (\d+))? \[usable: (\d+)\]", said, re.MULTILINE)
    usable = {name: (int(key), int(best)) for name, key, _, _, best in found}
    for name, key_and_best in (
        ("Produce", (0, 13)),
        ("Fetch", (1, 18)),
        ("Metadata", (3, 13)),
        ("JoinGroup", (11, 9)),
    ):
        equal(usable.get(name), key_and_best, f"key and best version of {name}")
    assert "node too" not in said, said


def metadata_quorum(tools: Tools) -> None:
    """One voter, who leads, and nobody behind; other gateways observe."""
    status = dict(
        line.split(":", 1) for line in tools.run("kafka-metadata-quorum", "describe", "--status").lines
    )
    told = {name: value.strip() for name, value in status.items()}
    equal((told["LeaderId"], told["MaxFollowerLag"]), ("1", "0"), "status")
    observers = [str(one["id"]) for one in json.loads(told["CurrentObservers"])]
    equal(observers, list(tools.brokers)[1:], "observers")
    (voter,) = json.loads(told["CurrentVoters"])
    equal(voter["id"], 1, "the voter")
    rows = table(tools.run("kafka-metadata-quorum", "describe", "--replication").lines, "NodeId")
    states = dict.fromkeys(tools.brokers, "Observer") | {"1": "Leader"}
    equal({row["NodeId"]: row["Status"] for row in rows}, states, "replication")
    for row in rows:
        equal(row["Lag"], "0", f"lag of {row['NodeId']}")
        assert int(row["LogEndOffset"]) >= int(told["HighWatermark"]) > 0, (row, told)


def leader_election(tools: Tools) -> None:
    tool, name = "kafka-leader-election", tools.topic(2)
    for kind in ("preferred", "unclean"):
        (line,) = tools.run(tool, "--election-type", kind, "--topic", name, "--partition", "1").lines
        equal(line, f"Valid replica already elected for partitions {name}-1", kind)
    places = [{"topic": name, "partition": n} for n in (1, 0)]
    file = tools.file("election.json", {"partitions": places})
    (line,) = tools.run(tool, "--election-type", "preferred", "--path-to-json-file", file).lines
    equal(sorted(re.findall(rf"{name}-\d", line)), [f"{name}-0", f"{name}-1"], "partitions of a file")
    equal(
        tools.run(tool, "--election-type", "preferred", "--all-topic-partitions").lines, [], "all partitions"
    )
    unknown = ("--topic", "no-such-topic", "--partition", "0")
    tools.refused(tool, "--election-type", "preferred", *unknown, words="UnknownTopicOrPartitionException")


def reassign_partitions(tools: Tools) -> None:
    name = tools.topic(2)
    equal(tools.run(REASSIGN, "--list").lines, ["No partition reassignments found."], "reassignments")
    if tools.several:
        led_by_gateways(tools, name)
    else:
        where_it_can_be(tools, name)
    elsewhere = ("--execute", "--reassignment-json-file", plan_of(tools, name, 7))
    tools.refused(REASSIGN, *elsewhere, words="Unknown broker id 7")
    nothing = ("--execute", "--reassignment-json-file", plan_of(tools, "no-such-topic", 1))
    tools.refused(REASSIGN, *nothing, words="UnknownTopicOrPartitionException")


def where_it_can_be(tools: Tools, name: str) -> None:
    """With one broker every partition is where it can be: a reassignment to there is done at once."""
    generated = generate(tools, name, "1")
    equal(places(generated[1]), {(name, 0): [1], (name, 1): [1]}, "where they are")
    equal(places(generated[3]), {(name, 0): [1], (name, 1): [1]}, "where they should be")
    plan = plan_of(tools, name, 1)
    for more in ((), ("--throttle", "1000000")):
        said = tools.run(REASSIGN, "--execute", "--reassignment-json-file", plan, *more).out
        assert f"Successfully started partition reassignments for {name}-0,{name}-1" in said, said
        until(
            lambda: (
                tools.run(REASSIGN, "--verify", "--reassignment-json-file", plan).out.count("is completed.")
                == 2
            ),
            "reassignments completed",
        )
    left = tools.run("kafka-configs", "--describe", "--topic", name).out
    assert "throttled" not in left, left
    tools.run(REASSIGN, "--cancel", "--reassignment-json-file", plan)


def led_by_gateways(tools: Tools, name: str) -> None:
    """Stores have the copies, and gateways lead: a plan for brokers is made, and not carried out."""
    generated = generate(tools, name, ",".join(tools.brokers))
    brokers = sorted(map(int, tools.brokers))
    for found in places(generated[3]).values():
        equal(sorted(found), brokers, "where they should be")
    plan = tools.file("several.json", json.loads(generated[3]))
    tools.refused(
        REASSIGN,
        "--execute",
        "--reassignment-json-file",
        plan,
        words="several gateways, and a partition has one",
    )


def generate(tools: Tools, topic: str, brokers: str) -> list[str]:
    """The lines of --generate: the second one says where it is, the fourth where it should be."""
    move = tools.file("move.json", {"topics": [{"topic": topic}], "version": 1})
    how = ("--generate", "--topics-to-move-json-file", move, "--broker-list", brokers)
    return tools.run(REASSIGN, *how).lines


def places(text: str) -> dict[tuple[str, int], list[int]]:
    return {(one["topic"], one["partition"]): one["replicas"] for one in json.loads(text)["partitions"]}


def plan_of(tools: Tools, topic: str, broker: int) -> str:
    moves = [{"topic": topic, "partition": n, "replicas": [broker]} for n in range(2)]
    return tools.file(f"plan-{topic}-{broker}.json", {"partitions": moves, "version": 1})


def transactions(tools: Tools) -> None:
    """None is under way; the producers of a partition are shown, idempotent ones as well."""
    tool, name = "kafka-transactions", tools.topic()
    tools.produce(name, "a:1", "b:2", "c:3")
    equal(table(tools.run(tool, "list").lines, "TransactionalId"), [], "transactions")
    for places_of in (("--topic", name), ("--broker-id", "1")):
        equal(table(tools.run(tool, "find-hanging", *places_of).lines, "Topic"), [], "hanging ones")
    (row,) = table(
        tools.run(tool, "describe-producers", "--topic", name, "--partition", "0").lines, "ProducerId"
    )
    found = (row["ProducerEpoch"], row["LastSequence"], row["CurrentTransactionStartOffset"])
    equal(found, ("0", "2", "None"), "the producer of the partition")
    tools.refused(tool, "describe", "--transactional-id", "none", words="ID could not be found")


def acls(tools: Tools) -> None:
    """Without an authorizer each is refused by that reason, which is how tools know that ACLs are off."""
    off = "SecurityDisabledException: No Authorizer is configured"
    rule = ("--allow-principal", "User:a", "--operation", "Read", "--topic", "t")
    tools.refused("kafka-acls", "--list", words=off)
    tools.refused("kafka-acls", "--add", *rule, words=off)
    tools.refused("kafka-acls", "--remove", *rule, "--force", words=off)


def features(tools: Tools) -> None:
    """What is in effect is shown, a level is lowered and raised, and what is wrong is refused."""
    tool = "kafka-features"
    before = _levels(tools)
    assert before["metadata.version"]
    # Each server has one that nothing of the other scenarios needs.
    name = "dafka.preferred.leaders" if "dafka.preferred.leaders" in before else "streams.version"
    to = ("--feature", f"{name}=")
    raised = ("upgrade", to[0], f"{to[1]}1")
    tools.run(tool, *raised)
    assert _levels(tools)[name] == "1"
    tools.run(tool, "downgrade", to[0], f"{to[1]}0")
    assert _levels(tools)[name] == "0"
    tools.run(tool, *raised, "--dry-run")
    assert _levels(tools)[name] == "0"
    tools.run(tool, *raised)
    tools.run(tool, "disable", "--feature", name)
    assert _levels(tools)[name] == "0"
    tools.refused(tool, "upgrade", to[0], f"{to[1]}9", words="only supports versions 0-1")
    tools.refused(tool, "upgrade", "--feature", "nonsense=1", words="does not support this feature")
    tools.run(tool, *raised)
    assert _levels(tools) == {**before, name: "1"}


def _levels(tools: Tools) -> dict[str, str]:
    """Feature -> its level, as people read it."""
    found = {}
    for line in tools.run("kafka-features", "describe").lines:
        shown = re.match(
            r"Feature: (\S+)\s+SupportedMinVersion: \S+\s+SupportedMaxVersion: \S+\s+"
            r"FinalizedVersionLevel: (\S+)\s+Epoch: \d+",
            line,
        )
        assert shown, line
        found[shown[1]] = shown[2]
    return found
