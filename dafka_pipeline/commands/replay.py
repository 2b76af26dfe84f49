"""`dafka-pipeline replay`: a table becomes topics again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import click

from dafka_pipeline.commands.options import Run, job_options, names, pairs
from dafka_pipeline.failures import EXIT_DIFFERS, EXIT_OK, PipelineError, Stopped, UsageFailure
from dafka_pipeline.producing.plan import AUTO, SPARK_SETTINGS, TRANSACTIONS, Timing
from dafka_pipeline.producing.positions import check_stream
from dafka_pipeline.replay.selection import (
    KEEP,
    PARTITIONING,
    Selection,
    parse_offsets,
    parse_times,
    targets_of,
)
from dafka_pipeline.table.location import Location
from dafka_pipeline.units import milliseconds

COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
SHORTEST_TIMEOUT: Final = 3.0
"""Seconds; below it an ordinary pause of a server would end each round."""


class ReplayStopped(PipelineError):
    """The replay was stopped before everything was in its targets. Not a success."""


@click.command(short_help="Put an archive's records back into topics.")
@click.argument("archive", metavar="DIR[@VERSION]")
@click.option("--topics", required=True, metavar="A,B", help="Archived topics.")
@click.option("--to", metavar="TOPIC", help="Where one topic goes.  [default: its own name]")
@click.option("--to-prefix", metavar="PREFIX", help="Each topic goes to this and its own name.")
@click.option(
    "--partitions",
    type=click.Choice(PARTITIONING),
    default=KEEP,
    show_default=True,
    help="keep: where each record was. by-key: where Java's producers put its key.",
)
@click.option(
    "--offsets",
    multiple=True,
    metavar="[TOPIC/]P:FROM-TO",
    help="Only these of partition P, without TO. Repeatable.",
)
@click.option("--times", metavar="FROM..TO", help="Only records of these times, without TO.")
@click.option(
    "--topic-id",
    multiple=True,
    metavar="NAME=ID",
    help="Of a topic that was deleted and made again: which one.  [default: the newest]",
)
@click.option(
    "--rate", type=click.FloatRange(min=0), default=0.0, metavar="N", help="Records a second at most."
)
@click.option(
    "--id",
    "stream",
    default="",
    metavar="NAME",
    help="Names this replay; the same one goes on.  [default: made of what is asked for]",
)
@click.option("--create", is_flag=True, help="Make the targets, with partitions and configs as archived.")
@click.option("--groups", is_flag=True, help="Commit for the archived groups where they were.")
@click.option("--overwrite-groups", is_flag=True, help="Also where a group has committed something already.")
@click.option("--append", is_flag=True, help="Targets may have records of others, before and between.")
@click.option(
    "--transactions",
    type=click.Choice(TRANSACTIONS),
    default=AUTO,
    show_default=True,
    help="auto: where the server has them.",
)
@click.option(
    "--compression",
    type=click.Choice(COMPRESSIONS),
    default="lz4",
    show_default=True,
    help="What the batches that it sends are compressed with.",
)
@click.option(
    "--delivery-timeout",
    type=click.FloatRange(min=SHORTEST_TIMEOUT),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a batch may take; after a crash a replay waits so long.",
)
@click.option("--accept-log-append-time", is_flag=True, help="Targets may give records their own times.")
@click.option(
    "--time-zero-as", metavar="TIME", help="Send records of 1970-01-01T00:00:00.000 with this time."
)
@click.option("--no-audit", is_flag=True, help="Do not compare at the end.")
@job_options
def replay(
    run: Run,
    *,
    archive: str,
    topics: str,
    to: str | None,
    to_prefix: str | None,
    partitions: str,
    offsets: Sequence[str],
    times: str | None,
    topic_id: Sequence[str],
    rate: float,
    stream: str,
    create: bool,
    groups: bool,
    overwrite_groups: bool,
    append: bool,
    transactions: str,
    compression: str,
    delivery_timeout: float,
    accept_log_append_time: bool,
    time_zero_as: str | None,
    no_audit: bool,
) -> int:
    """Put the records of an archive back into topics: keys, values, headers, times, order.

    \b
    dafka-pipeline replay ./archive --topics orders --create --groups
    dafka-pipeline replay ./archive@12 --topics orders --to restored --offsets 0:1000-2000

    Each record gets one header, dafka.position, by which a replay that was killed goes on without a double:
    start the same command again. At the end both sides are compared; exit code 1 says that they differ.
    """  # noqa: D301  # click's own mark for lines that stay as they are
    from dafka_pipeline.replay.job import Replay, ReplaySettings

    if stream:
        check_stream(stream)
    location, version = _archive(archive)
    start, end = parse_times(times) if times else (None, None)
    selection = Selection(
        targets_of(list(names(topics, "--topics")), to, to_prefix),
        partitions,
        tuple(parse_offsets(one) for one in offsets),
        start,
        end,
        pairs(topic_id, "--topic-id"),
        milliseconds(time_zero_as, "--time-zero-as") if time_zero_as else None,
    )
    settings = ReplaySettings(
        location=location,
        version=version,
        selection=selection,
        stream=stream,
        append=append,
        create=create,
        groups=groups,
        overwrite_groups=overwrite_groups,
        accept_log_append_time=accept_log_append_time,
        audit=not no_audit,
        transactions=transactions,
        records_per_second=rate,
        compression=compression,
        timing=timing_of(delivery_timeout),
    )
    run.spark_options = replace(run.spark_options, conf={**SPARK_SETTINGS, **run.spark_options.conf})
    with run.spark() as spark:
        job = Replay(spark, run.kafka, settings, run.report, run.stop, run.patience_seconds)
        try:
            outcome = job.run()
        except Stopped as stopped:
            raise ReplayStopped(
                "The replay was stopped before it was done: start the same command again, it goes on."
            ) from stopped
    differs = outcome.verdict is not None and not outcome.verdict.equal
    said = (
        "Not audited."
        if outcome.verdict is None
        else "The audit found differences."
        if differs
        else "Archive and targets are equal."
    )
    run.report.result(
        "\n".join([*outcome.notes, f"{outcome.records:,} records were sent by {outcome.stream}. {said}"]),
        id=outcome.stream,
        records=outcome.records,
        equal=None if outcome.verdict is None else outcome.verdict.equal,
        notes=outcome.notes,
    )
    return EXIT_DIFFERS if differs else EXIT_OK


def timing_of(delivery_timeout: float) -> Timing:
    """All times of sending out of one."""
    return Timing(
        lease=max(60.0, 2 * delivery_timeout),
        message=delivery_timeout,
        stall=delivery_timeout * 2 / 3,
        spread=delivery_timeout / 6,
    )


def _archive(text: str) -> tuple[Location, int | None]:
    found = re.fullmatch(r"(.+)@(\d+)", text)
    if found is not None:
        return Location.of(found[1]), int(found[2])
    if not text:
        raise UsageFailure("Give the archive's directory.")
    return Location.of(text), None
