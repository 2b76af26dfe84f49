"""`dafka-pipeline compact`: few large files, and what must be forgotten is."""

from __future__ import annotations

import click

from dafka_pipeline.commands.options import Run, spark_options
from dafka_pipeline.table.location import Location
from dafka_pipeline.units import seconds


@click.command()
@click.argument("archive")
@click.option("--retain", default="7d", show_default=True, metavar="TIME",
              help="Versions of this time stay readable; files of older ones are removed.")  # fmt: skip
@click.option("--erase", "erasing", default="", metavar="WHERE",
              help="Erase records for which this SQL is true, from all tables and the disk.")  # fmt: skip
@click.option("--alone", is_flag=True,
              help="No archive job runs: asked for where there are no locks (hdfs, s3a).")  # fmt: skip
@spark_options
def compact(run: Run, *, archive: str, retain: str, erasing: str, alone: bool) -> None:
    """Make few large files out of many small ones in ARCHIVE, and erase what must be forgotten.

    \b
    dafka-pipeline compact ./archive --retain 7d
    dafka-pipeline compact ./archive --erase "CAST(key AS STRING) = 'customer-17'"

    It may run while an archive job does. An erasure also removes the files of older versions at once.
    """  # noqa: D301  # click's own mark for lines that stay as they are
    from dafka_pipeline.compact.job import compact as compact_archive
    from dafka_pipeline.table.archive import open_archive

    retain_seconds = seconds(retain, "--retain")
    with run.spark() as spark:
        opened = open_archive(spark, Location.of(archive))
        done = compact_archive(opened, retain_seconds, erasing, run.report, run.stop, alone=alone)
    run.report.result(
        f"{len(done.days)} days of topics have fewer files now; {done.erased:,} records were erased.",
        days=[[day.topic, str(day.archived_on), day.files] for day in done.days],
        erased=done.erased,
    )
