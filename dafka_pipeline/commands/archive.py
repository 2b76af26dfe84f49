"""`dafka-pipeline archive`: topics become a table, and stay one."""

from __future__ import annotations

import re
from typing import Final

import click

from dafka_pipeline.archive.settings import MAX_BATCH_BYTES, RECORD, STOP, ArchiveSettings
from dafka_pipeline.commands.options import Run, job_options, names
from dafka_pipeline.decode.formats import parse_format
from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.table.archive import DELTA, PARQUET
from dafka_pipeline.table.location import Location
from dafka_pipeline.units import byte_count, milliseconds, seconds

EVERY: Final = "30s"
DAY: Final = 86400.0
"""Seconds."""
SHORTEST_EVERY_SECONDS: Final = 0.1
"""A look costs Kafka two or three requests: more often than this helps nobody."""


@click.command()
@click.option("--topics", metavar="A,B", help="Topics by name.")
@click.option("--pattern", metavar="RE", help="Topics whose whole name matches, those that come later, too.")
@click.option(
    "--to", "to", required=True, metavar="DIR", help="The archive: a directory, or a URI (s3a://...)."
)
@click.option("--from", "start", default="earliest", show_default=True, metavar="earliest|latest|TIME",
              help="Where a new archive begins. TIME: 2026-01-31T12:00:00Z, or milliseconds.")  # fmt: skip
@click.option("--once", is_flag=True, help="End when what is there now is archived.")
@click.option(
    "--every", default=EVERY, show_default=True, metavar="TIME", help="Look for new records so often."
)
@click.option("--max-batch-bytes", default=str(MAX_BATCH_BYTES), metavar="BYTES",
              help="Keys and values in one commit, about. [default: 512MiB]")  # fmt: skip
@click.option("--on-loss", type=click.Choice([STOP, RECORD]), default=STOP, show_default=True,
              help="Records went before they were read: stop, or note it in _gaps and go on.")  # fmt: skip
@click.option("--decode", metavar="json:FILE|avro:FILE|confluent-avro:FILE",
              help="Make tables of the values' fields, too, by a schema in FILE.")  # fmt: skip
@click.option("--format", "kept_as", type=click.Choice([DELTA, PARQUET]),
              help="How a new archive is kept: a Delta table (default), or plain Parquet files.")  # fmt: skip
@click.option("--compact-after", metavar="TIME",
              help="Compact closed days that are so old, between batches, e.g. 1d.")  # fmt: skip
@job_options
def archive(
    run: Run,
    *,
    topics: str | None,
    pattern: str | None,
    to: str,
    start: str,
    once: bool,
    every: str,
    max_batch_bytes: str,
    on_loss: str,
    decode: str | None,
    kept_as: str | None,
    compact_after: str | None,
) -> None:
    """Archive topics into a table that every tool reads, each record exactly once.

    \b
    dafka-pipeline archive --topics orders,payments --to ./archive --once
    dafka-pipeline archive --pattern 'orders-.*' --to ./archive --every 30s

    Kill it whenever you like: the table itself says how far it is, and the next start goes on there.
    """  # noqa: D301  # click's own mark for lines that stay as they are
    from dafka_pipeline.archive.job import Archiver

    if kept_as == PARQUET and compact_after is not None:
        raise UsageFailure(
            "--compact-after needs an archive in Delta: plain Parquet files are never rewritten."
        )
    settings = ArchiveSettings(
        to=Location.of(to),
        topics=_names(topics, pattern),
        pattern=_pattern(pattern),
        start=start if start in {"earliest", "latest"} else milliseconds(start, "--from"),
        every_seconds=None if once else max(SHORTEST_EVERY_SECONDS, seconds(every, "--every")),
        max_batch_bytes=byte_count(max_batch_bytes, "--max-batch-bytes"),
        on_loss=on_loss,
        decode=None if decode is None else parse_format(decode),
        kept_as=kept_as,
        compact_after_days=None if compact_after is None else seconds(compact_after, "--compact-after") / DAY,
    )
    patience = run.patience(for_ever=not once)
    with run.spark(avro=settings.decode is not None and settings.decode.needs_avro) as spark:
        totals = Archiver(spark, run.kafka, settings, run.report, run.stop, patience_seconds=patience).run()
    run.report.result(
        f"{totals.rows:,} records in {totals.batches:,} batches are new in {settings.to}.",
        rows=totals.rows,
        batches=totals.batches,
        lost=totals.lost,
        dead_letters=totals.dead_letters,
        archive=str(settings.to),
    )


def _names(topics: str | None, pattern: str | None) -> tuple[str, ...]:
    if (topics is None) == (pattern is None):
        raise UsageFailure("Say which topics: --topics A,B or --pattern RE, one of them.")
    return () if topics is None else names(topics, "--topics")


def _pattern(pattern: str | None) -> str:
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise UsageFailure(
            f"--pattern {pattern}: {error}. Give a regular expression, e.g. 'orders-.*'."
        ) from error
    return pattern or ""
