"""`dafka topics`: make, list, show and delete topics of a running gateway, or of any Kafka."""

from collections.abc import Sequence
from typing import Any, Final

import click

from gateway.commands.decorators import bootstrap_option, log_options
from gateway.commands.exits import CommandFailed
from gateway.commands.parsing import MAX_PARTITIONS

REQUEST_TIMEOUT_MS: Final = 8_000
"""What the server may take to make or delete a topic: less than this client waits, so that it answers."""

AS_THE_SERVER_IS_SET: Final = -1  # in CreateTopics

_TOPIC_RESOURCE: Final = 2
_SET_ON_TOPIC: Final = 1  # the source of a config that was given for this topic

_IF_NOT_EXISTS = "TOPIC_ALREADY_EXISTS"
_IF_EXISTS = "UNKNOWN_TOPIC_OR_PARTITION"


@click.group(
    short_help="Create, list, describe and delete topics.",
    help="Topics of a running gateway. It works with any Kafka: --bootstrap says which.",
)
def topics() -> None:
    """The group."""


@topics.command(
    help="Create topics.\n\nExample: dafka topics create orders --partitions 4 --config retention.ms=3600000"
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--partitions",
    type=click.IntRange(1, MAX_PARTITIONS),
    metavar="N",
    help="Number of partitions.  [default: the server's]",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 32_767),
    metavar="N",
    help="Copies of each record.  [default: the server's]",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A topic config, as max.message.bytes=2000000; may be given several times.",
)
@click.option("--if-not-exists", is_flag=True, help="A topic that is there already is no failure.")
@bootstrap_option
@log_options
def create(
    names: Sequence[str],
    partitions: int | None,
    replication_factor: int | None,
    configs: Sequence[str],
    if_not_exists: bool,
    bootstrap: str,
) -> None:
    """Create topics."""
    sizes = partitions or AS_THE_SERVER_IS_SET, replication_factor or AS_THE_SERVER_IS_SET
    wanted = [_key_value(config) for config in configs]
    with _connect(bootstrap) as client:
        answer = client.ask(
            _keys().CREATE_TOPICS,
            7,
            topics=[(name, *sizes, [], wanted) for name in names],
            timeout_ms=REQUEST_TIMEOUT_MS,
        )
    done = {topic.name: topic for topic in answer.topics}
    for name in names:
        topic = done[name]
        if topic.error_code == 0:
            number = f" with {_count(topic.num_partitions, 'partition')}" if topic.num_partitions > 0 else ""
            click.echo(f"created {name}{number}")
        elif if_not_exists and _error_name(topic.error_code) == _IF_NOT_EXISTS:
            click.echo(f"{name} is there already")
    _report("cannot create", answer.topics, unless=_IF_NOT_EXISTS if if_not_exists else "")


@topics.command(name="list", help="List the topics, one name a line.")
@click.option("--internal", is_flag=True, help="Also those that Kafka keeps for itself.")
@bootstrap_option
@log_options
def list_topics(internal: bool, bootstrap: str) -> None:
    """List topics."""
    with _connect(bootstrap) as client:
        answer = client.ask(_keys().METADATA, 12, topics=None, allow_auto_topic_creation=False)
    for topic in sorted(answer.topics, key=lambda topic: str(topic.name)):
        if internal or not topic.is_internal:
            click.echo(topic.name)


@topics.command(help="Show topics: id, configs that were set, and each partition's leader and offsets.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@bootstrap_option
@log_options
def describe(names: Sequence[str], bootstrap: str) -> None:
    """Describe topics."""
    from gateway.commands.cluster import Cluster

    with _connect(bootstrap) as client, Cluster(client) as cluster:
        metadata = cluster.metadata(names)
        _report("cannot describe", metadata.topics)
        configs = client.ask(
            _keys().DESCRIBE_CONFIGS, 4, resources=[(_TOPIC_RESOURCE, name, None) for name in names]
        )
        given = {
            result.resource_name: [
                f"{config.name}={config.value}"
                for config in result.configs
                if config.config_source == _SET_ON_TOPIC
            ]
            for result in configs.results
        }
        for topic in metadata.topics:
            click.echo(f"{topic.name}  id {topic.topic_id}  {_count(len(topic.partitions), 'partition')}")
            for config in given.get(topic.name, []):
                click.echo(f"  {config}")
            earliest, latest = (
                cluster.offsets(topic, cluster.EARLIEST),
                cluster.offsets(topic, cluster.LATEST),
            )
            for partition in sorted(topic.partitions, key=lambda partition: int(partition.partition_index)):
                index = partition.partition_index
                replicas, isr = _join(partition.replica_nodes), _join(partition.isr_nodes)
                click.echo(
                    f"  partition {index}  leader {partition.leader_id}  replicas {replicas}  isr {isr}  "
                    f"offsets {earliest[index]} to {latest[index]}"
                )


@topics.command(help="Delete topics with all their records. There is no way back.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="A topic that is not there is no failure.")
@bootstrap_option
@log_options
def delete(names: Sequence[str], if_exists: bool, bootstrap: str) -> None:
    """Delete topics."""
    keys = _keys()
    with _connect(bootstrap) as client:
        by_name: dict[str, Any] = (
            {"topics": [(name, None) for name in names]}
            if client.version(keys.DELETE_TOPICS, 6) >= 6
            else {"topic_names": list(names)}
        )
        answer = client.ask(keys.DELETE_TOPICS, 6, timeout_ms=REQUEST_TIMEOUT_MS, **by_name)
    for topic in answer.responses:
        if topic.error_code == 0:
            click.echo(f"deleted {topic.name}")
        elif if_exists and _error_name(topic.error_code) == _IF_EXISTS:
            click.echo(f"{topic.name} is not there")
    _report("cannot delete", answer.responses, unless=_IF_EXISTS if if_exists else "")


def _connect(bootstrap: str) -> Any:
    """A connection with its versions known; says how to start a gateway where there is none."""
    from gateway.commands.kafka_client import KafkaClient, KafkaTrouble, parse_bootstrap

    try:
        client = KafkaClient(*parse_bootstrap(bootstrap))
        client.negotiate()
    except KafkaTrouble as trouble:
        raise CommandFailed(
            f"{trouble} Start a gateway with 'dafka standalone', or say with --bootstrap where it is; "
            f"'dafka doctor {bootstrap}' says more."
        ) from trouble
    return client


def _keys() -> Any:
    from wireproto.kafka.api_keys import (
        ApiKey,
    )  # its package loads Kafka's schemas, which --help has no need of

    return ApiKey


def _error_name(code: int) -> str:
    from gateway.commands.kafka_client import error_name

    return error_name(code)


def _report(doing: str, results: Sequence[Any], unless: str = "") -> None:
    """Raises CommandFailed that names every topic with an error, each with the server's reason."""
    failures = []
    for result in results:
        name = _error_name(result.error_code)
        if result.error_code and name != unless:
            message = getattr(result, "error_message", None)
            failures.append(f"{result.name}: {name}{f' ({message.rstrip(chr(46))})' if message else ''}")
    if failures:
        raise CommandFailed(f"{doing} {'; '.join(failures)}. {_advice(failures)}")


def _advice(failures: Sequence[str]) -> str:
    text = " ".join(failures)
    for name, advice in (
        (_IF_NOT_EXISTS, "Add --if-not-exists if that is fine."),
        (_IF_EXISTS, "'dafka topics list' shows those that are there."),
        ("INVALID_CONFIG", "Kafka's documentation lists the topic configs."),
        ("INVALID_REPLICATION_FACTOR", "Leave --replication-factor out, or start more stores."),
    ):
        if name in text:
            return advice
    return "Nothing was changed for the topics named."


def _key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise CommandFailed(f"--config {text}: write KEY=VALUE, for example max.message.bytes=2000000")
    return key, value


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _join(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers)) or "none"
