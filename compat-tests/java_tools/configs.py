"""kafka-configs."""

from __future__ import annotations

from typing import Final

from frameworks.checks import equal, until
from java_tools.consoles import consume
from java_tools.host import Tools
from java_tools.tables import config_lines

TOOL: Final = "kafka-configs"
BROKER: Final = ("--broker", "1")


def configs(tools: Tools) -> None:
    topic_configs(tools)
    if not tools.several:  # a topic's configs are asked of any broker, and each answers with its own
        broker_default(tools, BROKER, "DYNAMIC_BROKER_CONFIG")
    broker_default(tools, ("--broker-defaults",), "DYNAMIC_DEFAULT_BROKER_CONFIG")
    throttles(tools)
    everything = shown(tools, *BROKER, "--all")
    equal(everything["node.id"][0], "1", "node.id")
    assert len(everything) > 250, len(everything)
    for kind in ("users", "clients", "ips", "client-metrics"):
        equal(tools.run(TOOL, "--describe", "--entity-type", kind).lines, [], f"{kind} without configs")
    groups(tools)


def shown(tools: Tools, *entity: str) -> dict[str, tuple[str, list[str]]]:
    """Value and sources by name."""
    return config_lines(tools.run(TOOL, "--describe", *entity).lines)


def values(tools: Tools, *entity: str) -> dict[str, str]:
    return {name: value for name, (value, _) in shown(tools, *entity).items()}


def topic_configs(tools: Tools) -> None:
    of = ("--entity-type", "topics", "--entity-name", tools.topic())
    change = "retention.ms=777000,cleanup.policy=[compact,delete],max.message.bytes=2000"
    tools.run(TOOL, "--alter", *of, "--add-config", change)
    policy, size = "cleanup.policy=compact,delete", "max.message.bytes=2000"
    wanted = {
        "cleanup.policy": (
            "compact,delete",
            [f"DYNAMIC_TOPIC_CONFIG:{policy}", "DEFAULT_CONFIG:log.cleanup.policy=delete"],
        ),
        "max.message.bytes": (
            "2000",
            [f"DYNAMIC_TOPIC_CONFIG:{size}", "DEFAULT_CONFIG:message.max.bytes=1048588"],
        ),
        "retention.ms": ("777000", ["DYNAMIC_TOPIC_CONFIG:retention.ms=777000"]),
    }
    until(lambda: shown(tools, *of) == wanted, "configs as they were set")
    everything = shown(tools, *of, "--all")
    equal({name: everything[name] for name in wanted}, wanted, "the same among all")
    equal(len(everything), 33, "configs of a topic")
    default = ("1073741824", ["DEFAULT_CONFIG:log.segment.bytes=1073741824"])
    equal(everything["segment.bytes"], default, "a default")
    tools.run(TOOL, "--alter", *of, "--delete-config", "max.message.bytes,cleanup.policy")
    until(lambda: values(tools, *of) == {"retention.ms": "777000"}, "two configs deleted")
    file = tools.file("added.properties", "segment.ms=666000\nretention.ms=555000\n")
    tools.run(TOOL, "--alter", *of, "--add-config-file", file)
    until(lambda: values(tools, *of) == {"retention.ms": "555000", "segment.ms": "666000"}, "those of a file")
    refused(tools, of)


def refused(tools: Tools, of: tuple[str, ...]) -> None:
    unknown = ("--topic", "no-such-topic")
    for entity, added, words in (
        (of, "no.such=1", "Unknown topic config name"),
        (of, "segment.bytes=1", "Value must be at least"),
        (unknown, "segment.ms=1000000", "does not exist|UnknownTopicOrPartition"),
        (BROKER, "node.id=7", "Cannot update these configs dynamically"),
    ):
        tools.refused(TOOL, "--alter", *entity, "--add-config", added, words=words)


def broker_default(tools: Tools, entity: tuple[str, ...], source: str) -> None:
    """A topic without a value of its own takes the broker's, or that of all brokers."""
    topic, name = tools.topic(), "log.segment.bytes"
    tools.run(TOOL, "--alter", *entity, "--add-config", f"{name}=2000000")
    until(lambda: values(tools, *entity).get(name) == "2000000", "the broker's config")
    value, sources = shown(tools, "--topic", topic, "--all")["segment.bytes"]
    equal((value, sources[0]), ("2000000", f"{source}:{name}=2000000"), "the topic's config")
    tools.run(TOOL, "--alter", *entity, "--delete-config", name)
    until(lambda: name not in values(tools, *entity), "the broker's config deleted")


def groups(tools: Tools) -> None:
    """It asks for the configs of each group that there is."""
    topic = tools.topic()
    tools.produce(topic, "k:v")
    group = f"group-{topic}"
    consume(tools, "--topic", topic, "--group", group, "--from-beginning", count=1)
    lines = tools.run(TOOL, "--describe", "--entity-type", "groups").lines
    assert f"Dynamic configs for group {group} are:" in lines, lines
    equal(config_lines(lines), {}, "configs of groups")


def throttles(tools: Tools) -> None:
    """What kafka-reassign-partitions sets on brokers."""
    rates = [
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    ]

    def found() -> dict[str, str]:
        return {name: value for name, value in values(tools, *BROKER).items() if name in rates}

    tools.run(TOOL, "--alter", *BROKER, "--add-config", ",".join(f"{rate}=1000" for rate in rates))
    until(lambda: found() == dict.fromkeys(rates, "1000"), "throttles")
    tools.run(TOOL, "--alter", *BROKER, "--delete-config", ",".join(rates))
    until(lambda: not found(), "throttles deleted")
