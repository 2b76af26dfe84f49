"""`dafka-pipeline audit`: are two sides the same, record by record?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from dafka_pipeline.audit.opening import Asked
from dafka_pipeline.audit.settings import RANGE_OFFSETS, ROWS
from dafka_pipeline.commands.options import Run, job_options, pairs
from dafka_pipeline.failures import EXIT_DIFFERS, EXIT_OK, PipelineError, Stopped, UsageFailure

SMALLEST_RANGE = 16
"""Offsets: smaller ones are more sums than records."""


class AuditStopped(PipelineError):
    """The audit was stopped before it knew. Not a success: nothing has been found equal."""


@click.command(short_help="Compare archives and topics, record by record.")
@click.argument("left")
@click.argument("right")
@click.option(
    "--topics", metavar="NAME[,...]", help="Only these.  [default: all of the archive, or of both Kafkas]"
)
@click.option(
    "--map",
    "mapped",
    multiple=True,
    metavar="OLD=NEW",
    help="The topic OLD of the left is called NEW on the right. Repeatable.",
)
@click.option(
    "--topic-id",
    multiple=True,
    metavar="NAME=ID",
    help="Of a topic that was deleted and made again: which one of the archive (the left one of two).",
)
@click.option(
    "--right-topic-id", multiple=True, metavar="NAME=ID", help="The same for an archive on the right."
)
@click.option(
    "--right-kafka",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property of the right Kafka, where it is another cluster's than --kafka. Repeatable.",
)
@click.option(
    "--range",
    "range_offsets",
    type=click.IntRange(min=SMALLEST_RANGE),
    default=RANGE_OFFSETS,
    show_default=True,
    metavar="OFFSETS",
    help="Of one sum. Smaller ones read less again, and are more.",
)
@click.option(
    "--from", "start", metavar="OFFSET|TIME", help="Compare from there on: 1200, or 2026-11-22T10:00Z."
)
@click.option("--to", "end", metavar="OFFSET|TIME", help="Compare up to there, without it.")
@click.option(
    "--compacted", is_flag=True, help="A log was compacted since: what that explains is no difference."
)
@click.option(
    "--lagging",
    type=click.Choice(["left", "right", "both"]),
    help="That Kafka may be behind, e.g. a mirror: what it lacks at its end is not compared.",
)
@click.option(
    "--ignore-type", is_flag=True, help="Do not compare whether timestamps are CreateTime or LogAppendTime."
)
@click.option(
    "--strong", is_flag=True, help="SHA-256: holds against somebody who makes records collide. Slower."
)
@click.option(
    "--rows",
    type=click.IntRange(min=0),
    default=ROWS,
    show_default=True,
    metavar="N",
    help="Differences named of each kind.",
)
@click.option("--no-contents", is_flag=True, help="Show no bytes of records.")
@click.option("--report", "file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.json",
              help="Write the whole verdict there, as JSON.")  # fmt: skip
@job_options
def audit(
    run: Run,
    left: str,
    right: str,
    topics: str | None,
    mapped: Sequence[str],
    topic_id: Sequence[str],
    right_topic_id: Sequence[str],
    right_kafka: Sequence[str],
    range_offsets: int,
    start: str | None,
    end: str | None,
    compacted: bool,
    lagging: str | None,
    ignore_type: bool,
    strong: bool,
    rows: int,
    no_contents: bool,
    file: Path | None,
) -> int:
    """Compare LEFT with RIGHT, record by record.

    A side is an archive (DIR, DIR@VERSION, s3a://...) or a Kafka (HOST:PORT[,...]); kafka: or archive:
    before it decides where it could be both. Both are pinned at the start, and the pins are in the report.

    Exit code 0: equal in all that both must have; 1: different.
    """
    asked = Asked(
        left=left,
        right=right,
        topics=tuple(name.strip() for name in topics.split(",") if name.strip()) if topics else (),
        mapped=pairs(mapped, "--map"),
        topic_ids=pairs(topic_id, "--topic-id"),
        right_topic_ids=pairs(right_topic_id, "--right-topic-id"),
        right_kafka=pairs(right_kafka, "--right-kafka"),
        start=start,
        end=end,
        lagging=lagging or "",
        range_offsets=range_offsets,
        compacted=compacted,
        ignore_type=ignore_type,
        strong=strong,
        rows=rows,
        contents=not no_contents,
    )
    if file is not None and not file.absolute().parent.is_dir():
        raise UsageFailure(
            f"--report {file}: there is no folder {file.absolute().parent}. Make it, or give another file."
        )
    return _run(run, asked, file)


def _run(run: Run, asked: Asked, file: Path | None) -> int:
    from dafka_pipeline.audit.opening import audited
    from dafka_pipeline.audit.report import as_json, as_text

    try:
        with run.spark() as spark:
            verdict = audited(spark, asked, run)
    except Stopped as stopped:
        raise AuditStopped(
            "The audit was stopped before it was done: nothing is said about the sides."
        ) from stopped
    facts = as_json(verdict)
    run.report.result(as_text(verdict), **facts)
    if file is not None:
        try:
            file.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise UsageFailure(
                f"--report {file} cannot be written: {error.strerror}. The verdict is above."
            ) from error
    return EXIT_OK if verdict.equal else EXIT_DIFFERS
