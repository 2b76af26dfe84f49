"""`dafka-pipeline transform`: your function between topics, with state."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import click

from dafka_pipeline.commands.options import Run, job_options, pairs
from dafka_pipeline.failures import EXIT_OK, Stopped, UsageFailure
from dafka_pipeline.table.location import Location
from dafka_pipeline.transform.binding import AT_LEAST_ONCE, DELIVERIES, EXACTLY_ONCE
from dafka_pipeline.transform.function import load_function
from dafka_pipeline.transform.settings import EVERY_SECONDS, TransformSettings

_DURATION: Final = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)\s*$")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_MODES: Final = ("append", "update", "complete")

HELP: Final = """Run your function between topics, with state.

FUNCTION is MODULE:FN or FILE.py:FN. It gets a streaming DataFrame with the columns topic, partition, offset,
timestamp, timestamp_type, key, value and headers, and gives back one with at least `value`, and if you like
key, headers, partition, timestamp (and topic, where --to names several).

\b
  def shout(records):
      return records.selectExpr("key", "upper(CAST(value AS STRING)) AS value")

\b
  dafka-pipeline transform jobs.py:shout --from words --to shouts --checkpoint ./shout
"""


@click.command(help=HELP)
@click.argument("function")
@click.option("--from", "sources", required=True, metavar="TOPIC[,...]", help="Topics to read.")
@click.option("--to", "targets", required=True, metavar="TOPIC[,...]",
              help="Topic to write to; of several, a record names its own (topic).")  # fmt: skip
@click.option("--checkpoint", required=True, metavar="DIR",
              help="Directory or URI of this transform's own: progress and state.")  # fmt: skip
@click.option("--delivery", type=click.Choice(DELIVERIES), default=AT_LEAST_ONCE, show_default=True,
              help="exactly-once writes what is to be sent into a table first.")  # fmt: skip
@click.option("--outbox", metavar="DIR", help="That table, for exactly-once.  [default: CHECKPOINT/outbox]")
@click.option("--output-mode", type=click.Choice(_MODES), default="append", show_default=True,
              help="As Spark's: append writes what is final, update each change.")  # fmt: skip
@click.option("--every", metavar="DURATION",
              help=f"Between two batches, e.g. 500ms, 10s, 1m.  [default: {EVERY_SECONDS:.0f}s]")  # fmt: skip
@click.option("--once", is_flag=True, help="Do what is there now, then end.")
@click.option("--starting", type=click.Choice(("earliest", "latest")), default="earliest", show_default=True,
              help="Where the very first start begins.")  # fmt: skip
@click.option("--max-offsets-per-batch", type=click.IntRange(1), metavar="N", help="No batch reads more.")
@click.option("--param", multiple=True, metavar="NAME=VALUE",
              help="A keyword argument of the function. Repeatable.")  # fmt: skip
@click.option("--create-to", type=click.IntRange(1), metavar="PARTITIONS",
              help="Make the target where it is missing.")  # fmt: skip
@click.option("--on-loss", type=click.Choice(("stop", "skip")), default="stop", show_default=True,
              help="What to do about records that the log lost before they were read.")  # fmt: skip
@click.option("--accept-change", is_flag=True,
              help="Go on although the function or the target was changed.")  # fmt: skip
@job_options
def transform(
    run: Run,
    *,
    function: str,
    sources: str,
    targets: str,
    checkpoint: str,
    delivery: str,
    outbox: str | None,
    output_mode: str,
    every: str | None,
    once: bool,
    starting: str,
    max_offsets_per_batch: int | None,
    param: Sequence[str],
    create_to: int | None,
    on_loss: str,
    accept_change: bool,
) -> int:
    """See HELP."""
    if once and every:
        raise UsageFailure("--once and --every: give one of them.")
    if outbox and delivery != EXACTLY_ONCE:
        raise UsageFailure(f"--outbox belongs to --delivery {EXACTLY_ONCE}.")
    settings = TransformSettings(
        sources=_names(sources, "--from"),
        targets=_names(targets, "--to"),
        checkpoint=Location.of(checkpoint),
        function=function,
        parameters=pairs(param, "--param"),
        delivery=delivery,
        output_mode=output_mode,
        outbox=Location.of(outbox) if outbox else None,
        every_seconds=None if once else duration(every) if every else EVERY_SECONDS,
        max_offsets=max_offsets_per_batch or 0,
        starting=starting,
        skip_lost=on_loss == "skip",
        accept_change=accept_change,
        create_partitions=create_to or 0,
    )
    _refuse_circle(settings)
    return _run(run, settings)


def _run(run: Run, settings: TransformSettings) -> int:
    from dafka_pipeline.transform.job import transform as run_transform

    function = load_function(settings.function)
    function.arguments(settings.parameters)
    try:
        counts = run_transform(run, settings, function)
    except Stopped as stopped:
        run.report.say(str(stopped))
        return EXIT_OK
    ended = "Stopped" if run.stop.asked else "Done"
    run.report.result(
        f"{ended}: {counts.rows:,} records read in {counts.batches:,} batches. The same command goes on.",
        rows=counts.rows,
        batches=counts.batches,
        stopped=run.stop.asked,
    )
    return EXIT_OK


def duration(text: str) -> float:
    """Seconds. Raises UsageFailure for what is no duration."""
    found = _DURATION.match(text)
    if found is None:
        raise UsageFailure(f"--every {text}: give a number and ms, s, m or h, e.g. 10s.")
    return float(found[1]) * _SECONDS[found[2]]


def _names(text: str, flag: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise UsageFailure(f"{flag} names no topic.")
    return names


def _refuse_circle(settings: TransformSettings) -> None:
    both = sorted(set(settings.sources) & set(settings.targets))
    if both:
        raise UsageFailure(
            f"{both[0]} is in --from and in --to: the function would read what it has written, for ever."
        )
