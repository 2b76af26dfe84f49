"""`dafka bench`: how fast a Kafka is, this one or any other, with one plain client."""

from __future__ import annotations

from typing import Any

import click

from dafka.commands.client_security import Bootstrap
from dafka.commands.decorators import Function, bootstrap_option, json_option, log_options
from dafka.commands.kafka_formats import CODECS
from dafka.commands.kafka_options import stacked

HELP = """Measure a Kafka by its address: this server, or any other for comparison.

One client writes batches that were made before, or reads without looking at records: what is measured is the
server and the way to it, not a client library. Topics that are made for it are deleted at the end.

\b
dafka bench produce --bootstrap 127.0.0.1:9092 --records 1000000 --size 100
dafka bench consume --bootstrap 127.0.0.1:9092 --topic orders
dafka bench latency --bootstrap 127.0.0.1:9092 --rate 200 --seconds 10
"""


@click.group(help=HELP, short_help="Measure a Kafka: produce, consume, end to end.")
def bench() -> None:
    """The group."""


_size = click.option(
    "--size", metavar="BYTES", type=click.IntRange(8, 900_000), default=100, show_default=True,
    help="Bytes of each value; they do not compress.",
)  # fmt: skip
_partitions = click.option(
    "--partitions", metavar="N", type=click.IntRange(1, 1000), default=1, show_default=True,
    help="Partitions of the topic that is made.",
)  # fmt: skip
_acks = click.option(
    "--acks", type=click.Choice(("all", "1")), default="all", show_default=True,
    help="Who must have a batch before it counts.",
)  # fmt: skip
_batch = click.option(
    "--batch", metavar="RECORDS", type=click.IntRange(1, 100_000), default=100, show_default=True,
    help="Records in a batch.",
)  # fmt: skip
_in_flight = click.option(
    "--in-flight", metavar="N", type=click.IntRange(1, 100), default=5, show_default=True,
    help="Requests that are sent before the first is answered.",
)  # fmt: skip
_codec = click.option(
    "--codec", type=click.Choice(CODECS), default="none", show_default=True, help="How they are compressed."
)


def _common(function: Function) -> Function:
    return stacked(bootstrap_option, json_option, log_options)(function)


@bench.command(short_help="Records a second that are written.")
@click.option(
    "--records", metavar="N", type=click.IntRange(1), default=500_000, show_default=True, help="How many."
)
@stacked(_size, _batch, _in_flight, _codec, _acks, _partitions)
@_common
def produce(bootstrap: Bootstrap, as_json: bool, **given: Any) -> None:
    """Write as fast as it goes; latencies are those of requests, from sent to acknowledged."""
    from dafka.commands import bench_runs

    bench_runs.show(bench_runs.produce(bootstrap, **given), as_json)


@bench.command(short_help="Records a second that are read.")
@click.option("--topic", metavar="NAME", required=True, help="What is read.")
@click.option("--records", metavar="N", type=click.IntRange(1), help="How many.  [default: all]")
@_common
def consume(bootstrap: Bootstrap, as_json: bool, **given: Any) -> None:
    """Read a topic from its beginning to its end."""
    from dafka.commands import bench_runs

    bench_runs.show(bench_runs.consume(bootstrap, **given), as_json)


@bench.command(short_help="Milliseconds from a producer to a consumer.")
@click.option(
    "--rate", metavar="N", type=click.FloatRange(0.1, 10_000), default=100.0, show_default=True,
    help="Records a second, each in a batch of its own.",
)  # fmt: skip
@click.option(
    "--seconds", metavar="S", type=click.FloatRange(0.1), default=10.0, show_default=True, help="How long."
)
@stacked(_size, _acks)
@_common
def latency(bootstrap: Bootstrap, as_json: bool, **given: Any) -> None:
    """Write at a steady rate and read the same records: the time from before the one to after the other."""
    from dafka.commands import bench_runs

    bench_runs.show(bench_runs.latency(bootstrap, **given), as_json)
