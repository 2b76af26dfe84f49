"""`dafka produce`: records into a Kafka topic, or native ones onto a mesh."""

from typing import Any

import click

from dafka.commands.client_security import Bootstrap, ClientSecurity
from dafka.commands.configuration import OF_CLIENTS, load
from dafka.commands.decorators import security_options, setting_options
from dafka.commands.exits import CommandFailed
from dafka.commands.kafka_options import bootstrap_option, codec_option, format_option, only, stacked
from dafka.commands.logs import set_up_logs
from dafka.commands.mesh_options import NATIVE_OPTIONS, ON_THE_MESH
from dafka.commands.parsing import parse_subject
from dafka.settings import NativeSettings

HELP = """Write each line of standard input as a record.

With --bootstrap, into a topic of a Kafka, this one or any other; without it, as a native Dafka record of the
subject TOPIC. Stores keep native records, native consumers (dafka consume, and C ones) hear them at once, and
Kafka clients read them from topics that have this subject ('dafka topics create --native'). At the end of the
input, or of native ones with Ctrl-C, it waits until all is acknowledged.

\b
Into a Kafka topic:
  echo hello | dafka produce greetings --bootstrap 127.0.0.1:9092
  echo 'k1=hello' | dafka produce greetings --bootstrap 127.0.0.1:9092 --key-separator =
  dafka produce orders --bootstrap 127.0.0.1:9092 --format json < orders.jsonl

\b
Natively, with 'dafka tower' and 'dafka store' on the same machine:
  echo hello | dafka produce greetings
  dafka consume greetings --from-beginning
"""
EPILOG = (
    "Exit codes: 0 everything was acknowledged, 2 something was not (the message says what) or the command "
    "line is wrong. --tower is also read from DAFKA_TOWER."
)

KAFKA_OPTIONS = ("how", "key_separator", "key", "header", "codec", "acks", "partition", *OF_CLIENTS)
MESH_OPTIONS = ("stores", "wait_seconds", *ON_THE_MESH)

_kafka = stacked(
    bootstrap_option,
    security_options,
    format_option,
    click.option("--key-separator", metavar="TEXT", help="Kafka: what ends the key at a line's beginning."),
    click.option("--key", metavar="TEXT", help="Kafka: the key of records that have none of their own."),
    click.option(
        "--header", metavar="NAME=VALUE", multiple=True, help="Kafka: a header of each record; repeatable."
    ),
    codec_option,
    click.option(
        "--acks",
        type=click.Choice(("all", "1")),
        default="all",
        show_default=True,
        help="Kafka: who must have a batch before it counts, enough of its stores or one.",
    ),
    click.option(
        "--partition",
        metavar="N",
        type=click.IntRange(0),
        help="Kafka: where all records go.  [default: by their keys, as Java's clients]",
    ),
)

_mesh = stacked(
    click.option(
        "--stores",
        metavar="N",
        type=click.IntRange(1, 100),
        default=1,
        show_default=True,
        help="Mesh: keep each record until so many different stores have acknowledged it. C stores do not "
        "say which one they are: all of them together count as one.",
    ),
    click.option(
        "--wait-seconds",
        metavar="S",
        type=click.FloatRange(0),
        default=30.0,
        show_default=True,
        help="Mesh: how long to wait at the end for what was not acknowledged.",
    ),
    setting_options(NativeSettings, NATIVE_OPTIONS),
)


@click.command(help=HELP, short_help="Write lines as records of a Kafka topic, or natively.", epilog=EPILOG)
@click.argument("topic")
@_kafka
@_mesh
@click.pass_context
def produce(
    context: click.Context, /, topic: str, bootstrap: str | None, security: ClientSecurity, **given: Any
) -> None:
    """Write until the end of the input."""
    settings = load(NativeSettings, NATIVE_OPTIONS, {name: given[name] for name in NATIVE_OPTIONS})
    set_up_logs(settings.log_level, settings.log_format)
    if bootstrap is None:
        only(context, KAFKA_OPTIONS, {"how": "--format"}, "for Kafka topics: say with --bootstrap where")
        check_subject(topic)
        from dafka.commands import native_tools  # loads ZeroMQ, which --help has no need of

        native_tools.produce(settings, topic, given["stores"], given["wait_seconds"])
        return
    only(context, MESH_OPTIONS, {}, "for native records, and --bootstrap is for Kafka topics")
    from dafka.commands.kafka_records import produce_records  # loads Kafka's schemas, likewise

    produce_records(
        Bootstrap(bootstrap, security),
        topic,
        how=given["how"],
        separator=given["key_separator"],
        key=given["key"],
        headers=given["header"],
        codec=given["codec"],
        acks=given["acks"],
        partition=given["partition"],
    )


def check_subject(subject: str) -> None:
    """Raises CommandFailed for what cannot be a subject on the mesh."""
    try:
        parse_subject(subject)
    except ValueError as error:
        raise CommandFailed(str(error)) from None
