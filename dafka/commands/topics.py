"""`dafka topics`: make, list, show and delete topics of a running gateway, or of any Kafka."""

from collections.abc import Sequence
from typing import Any, Final

import click

from dafka.commands.asking import (
    IF_EXISTS,
    IF_NOT_EXISTS,
    SET_ON_TOPIC,
    TOPIC_RESOURCE,
    api_keys,
    connect,
    count,
    error_name,
    join_numbers,
    key_value,
    report,
)
from dafka.commands.client_security import Bootstrap
from dafka.commands.decorators import bootstrap_option, log_options
from dafka.commands.parsing import MAX_PARTITIONS
from dafka.commands.topics_alter import alter
from dafka.commands.topics_trim import trim

REQUEST_TIMEOUT_MS: Final = 8_000
"""What the server may take to make or delete a topic: less than this client waits, so that it answers."""

NATIVE_SUBJECT: Final = "dafka.native.subject"
PUBLISH: Final = "dafka.publish"

AS_THE_SERVER_IS_SET: Final = -1  # in CreateTopics


@click.group(
    short_help="Create, list, describe, alter, trim and delete topics.",
    help="Topics of a running gateway. It works with any Kafka: --bootstrap says which.",
)
def topics() -> None:
    """The group."""


topics.add_command(alter)
topics.add_command(trim)


@topics.command(
    help="Create topics.\n\n\b\ndafka topics create orders --partitions 4 --config retention.ms=3600000"
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
@click.option(
    "--native",
    "subject",
    default="",
    metavar="SUBJECT",
    help="Have the records that native producers publish under this subject in it, too.",
)
@click.option(
    "--publish",
    is_flag=True,
    help="Have native programs read its values, under the subject NAME.values or dafka.publish.subject.",
)
@click.option("--if-not-exists", is_flag=True, help="A topic that is there already is no failure.")
@bootstrap_option
@log_options
def create(
    names: Sequence[str],
    partitions: int | None,
    replication_factor: int | None,
    configs: Sequence[str],
    subject: str,
    publish: bool,
    if_not_exists: bool,
    bootstrap: Bootstrap,
) -> None:
    """Create topics."""
    sizes = partitions or AS_THE_SERVER_IS_SET, replication_factor or AS_THE_SERVER_IS_SET
    wanted = [key_value("--config", config) for config in configs]
    if subject:
        wanted.append((NATIVE_SUBJECT, subject))
    if publish:
        wanted.append((PUBLISH, "values"))
    with connect(bootstrap) as client:
        answer = client.ask(
            api_keys().CREATE_TOPICS,
            7,
            topics=[(name, *sizes, [], wanted) for name in names],
            timeout_ms=REQUEST_TIMEOUT_MS,
        )
    done = {topic.name: topic for topic in answer.topics}
    for name in names:
        topic = done[name]
        if topic.error_code == 0:
            number = f" with {count(topic.num_partitions, 'partition')}" if topic.num_partitions > 0 else ""
            click.echo(f"created {name}{number}")
        elif if_not_exists and error_name(topic.error_code) == IF_NOT_EXISTS:
            click.echo(f"{name} is there already")
    report("cannot create", answer.topics, unless=IF_NOT_EXISTS if if_not_exists else "")


@topics.command(name="list", help="List the topics, one name a line.")
@click.option("--internal", is_flag=True, help="Also those that Kafka keeps for itself.")
@bootstrap_option
@log_options
def list_topics(internal: bool, bootstrap: Bootstrap) -> None:
    """List topics."""
    with connect(bootstrap) as client:
        answer = client.ask(api_keys().METADATA, 12, topics=None, allow_auto_topic_creation=False)
    for topic in sorted(answer.topics, key=lambda topic: str(topic.name)):
        if internal or not topic.is_internal:
            click.echo(topic.name)


@topics.command(
    short_help="Show configs, leaders and offsets.",
    help="Show topics: id, configs that were set, and each partition's leader and offsets.",
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@bootstrap_option
@log_options
def describe(names: Sequence[str], bootstrap: Bootstrap) -> None:
    """Describe topics."""
    from dafka.commands.cluster import Cluster

    with connect(bootstrap) as client, Cluster(client) as cluster:
        metadata = cluster.metadata(names)
        report("cannot describe", metadata.topics)
        configs = client.ask(
            api_keys().DESCRIBE_CONFIGS, 4, resources=[(TOPIC_RESOURCE, name, None) for name in names]
        )
        given = {
            result.resource_name: [
                f"{config.name}={config.value}"
                for config in result.configs
                if config.config_source == SET_ON_TOPIC
            ]
            for result in configs.results
        }
        for topic in metadata.topics:
            click.echo(f"{topic.name}  id {topic.topic_id}  {count(len(topic.partitions), 'partition')}")
            for config in given.get(topic.name, []):
                click.echo(f"  {config}")
            earliest, latest = (
                cluster.offsets(topic, cluster.EARLIEST),
                cluster.offsets(topic, cluster.LATEST),
            )
            for partition in sorted(topic.partitions, key=lambda partition: int(partition.partition_index)):
                index = partition.partition_index
                replicas, isr = join_numbers(partition.replica_nodes), join_numbers(partition.isr_nodes)
                click.echo(
                    f"  partition {index}  leader {partition.leader_id}  replicas {replicas}  isr {isr}  "
                    f"offsets {earliest[index]} to {latest[index]}"
                )


@topics.command(help="Delete topics with all their records. There is no way back.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="A topic that is not there is no failure.")
@bootstrap_option
@log_options
def delete(names: Sequence[str], if_exists: bool, bootstrap: Bootstrap) -> None:
    """Delete topics."""
    keys = api_keys()
    with connect(bootstrap) as client:
        by_name: dict[str, Any] = (
            {"topics": [(name, None) for name in names]}
            if client.version(keys.DELETE_TOPICS, 6) >= 6
            else {"topic_names": list(names)}
        )
        answer = client.ask(keys.DELETE_TOPICS, 6, timeout_ms=REQUEST_TIMEOUT_MS, **by_name)
    for topic in answer.responses:
        if topic.error_code == 0:
            click.echo(f"deleted {topic.name}")
        elif if_exists and error_name(topic.error_code) == IF_EXISTS:
            click.echo(f"{topic.name} is not there")
    report("cannot delete", answer.responses, unless=IF_EXISTS if if_exists else "")
