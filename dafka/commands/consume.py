"""`dafka consume`: records of a Kafka topic, or native ones of a mesh."""

from typing import Any

import click

from dafka.commands.client_security import Bootstrap, ClientSecurity
from dafka.commands.configuration import OF_CLIENTS, load
from dafka.commands.decorators import security_options, setting_options
from dafka.commands.kafka_options import bootstrap_option, format_option, only, stacked
from dafka.commands.logs import set_up_logs
from dafka.commands.mesh_options import NATIVE_OPTIONS, ON_THE_MESH
from dafka.commands.produce import check_subject
from dafka.settings import NativeSettings

HELP = """Write records as lines to standard output.

With --bootstrap, those of a topic of a Kafka, this one or any other: from the beginning to the end, or with
--follow until Ctrl-C; also those of transactions that are open or were aborted, unless --isolation-level is
read_committed. Without --bootstrap, the native Dafka records of the subject TOPIC until Ctrl-C: those of one
producer come in its order, each once. (Of Kafka topics that shows what a gateway publishes while it listens,
as whole record batches and before they count; stores tell it nothing of those.)

\b
Of a Kafka topic:
  dafka consume orders --bootstrap 127.0.0.1:9092
  dafka consume orders --bootstrap 127.0.0.1:9092 --from last:10 --follow --show key
  dafka consume orders --bootstrap 127.0.0.1:9092 --from time:2026-11-20T08:00 --format json
  dafka consume orders --bootstrap 127.0.0.1:9092 --isolation-level read_committed

\b
Natively, with 'dafka tower' and 'dafka store' on the same machine:
  echo hello | dafka produce greetings
  dafka consume greetings --from-beginning
"""
EPILOG = (
    "Exit codes: 0 it was stopped, is at the end, or has written --max-records; 2 the command line or the "
    "environment is wrong. --tower is also read from DAFKA_TOWER."
)

SHOWN = ("partition", "offset", "timestamp", "headers", "key")
KAFKA_OPTIONS = ("how", "start", "follow", "partition", "show", "separator", "isolation_level", *OF_CLIENTS)
MESH_OPTIONS = ("from_beginning", "with_address", *ON_THE_MESH)

_kafka = stacked(
    bootstrap_option,
    security_options,
    format_option,
    click.option(
        "--from",
        "start",
        metavar="WHERE",
        default="beginning",
        show_default=True,
        help="Kafka: beginning, end, offset:N, last:N (of each partition), or time:ISO.",
    ),
    click.option("--follow", is_flag=True, help="Kafka: go on at the end, with what comes."),
    click.option(
        "--partition",
        metavar="N",
        type=click.IntRange(0),
        multiple=True,
        help="Kafka: only this partition; repeatable.",
    ),
    click.option(
        "--show",
        type=click.Choice(SHOWN),
        multiple=True,
        help="Kafka: put this before the value, as text or in hexadecimal; repeatable.",
    ),
    click.option(
        "--isolation-level",
        type=click.Choice(("read_uncommitted", "read_committed")),
        default="read_uncommitted",
        show_default=True,
        help="Kafka: read_committed leaves out what was aborted, and ends before what is open.",
    ),
    click.option(
        "--separator", metavar="TEXT", default="\t", help="Kafka: what is between them.  [default: a tab]"
    ),
)

_mesh = stacked(
    click.option(
        "--from-beginning",
        is_flag=True,
        help="Mesh: what stores have kept, too. Without it, what is published from now on.",
    ),
    click.option(
        "--with-address",
        is_flag=True,
        help="Mesh: put the subject and the producer's address before each record, as the C console consumer "
        "does.",
    ),
    setting_options(NativeSettings, NATIVE_OPTIONS),
)


@click.command(
    help=HELP, short_help="Write records of a Kafka topic, or native ones, as lines.", epilog=EPILOG
)
@click.argument("topic")
@click.option(
    "--max-records",
    metavar="N",
    type=click.IntRange(0),
    default=0,
    help="End after so many.  [default: none]",
)
@_kafka
@_mesh
@click.pass_context
def consume(
    context: click.Context,
    /,
    topic: str,
    bootstrap: str | None,
    security: ClientSecurity,
    max_records: int,
    **given: Any,
) -> None:
    """Write until the end, or a signal."""
    settings = load(NativeSettings, NATIVE_OPTIONS, {name: given[name] for name in NATIVE_OPTIONS})
    set_up_logs(settings.log_level, settings.log_format)
    if bootstrap is None:
        flags = {"how": "--format", "start": "--from"}
        only(context, KAFKA_OPTIONS, flags, "for Kafka topics: say with --bootstrap where")
        check_subject(topic)
        from dafka.commands import native_tools  # loads ZeroMQ, which --help has no need of

        native_tools.consume(
            settings,
            topic,
            from_beginning=given["from_beginning"],
            with_address=given["with_address"],
            max_records=max_records,
        )
        return
    only(context, MESH_OPTIONS, {}, "for native records, and --bootstrap is for Kafka topics")
    from dafka.commands.kafka_records import consume_records  # loads Kafka's schemas, likewise

    consume_records(
        Bootstrap(bootstrap, security),
        topic,
        how=given["how"],
        shown=given["show"],
        separator=given["separator"],
        start=given["start"],
        partitions=given["partition"],
        follow=given["follow"],
        isolation_level=given["isolation_level"],
        max_records=max_records,
    )
