"""`dafka-pipeline transform --once --delivery exactly-once` in small batches, as a program that can be
killed.

Arguments: HOST:PORT, function (of transform_jobs.py), source, target, checkpoint. After an unclean end it
waits for the target's tail for as long as `transforming.QUICK` says, not half a minute.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dafka_pipeline.commands.options import Run
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.running.report import Report
from dafka_pipeline.running.stopping import stop_on_signals
from dafka_pipeline.spark.session import SparkOptions
from dafka_pipeline.table.location import Location
from dafka_pipeline.transform.binding import EXACTLY_ONCE
from dafka_pipeline.transform.function import load_function
from dafka_pipeline.transform.job import transform
from dafka_pipeline.transform.settings import TransformSettings
from tests.peers.maven import pipeline_jars
from tests.pipelines.settings import SMALL
from tests.pipelines.transforming import JOBS, PER_BATCH, QUICK

LOCAL = "local[2]"


def main(bootstrap: str, function: str, source: str, target: str, checkpoint: str) -> None:
    name = f"{JOBS}:{function}"
    settings = TransformSettings(
        sources=(source,),
        targets=(target,),
        checkpoint=Location.of(checkpoint),
        function=name,
        delivery=EXACTLY_ONCE,
        every_seconds=None,
        max_offsets=PER_BATCH,
    )
    local = {"spark.local.dir": str(Path(checkpoint).parent / "local")}
    spark = SparkOptions(LOCAL, pipeline_jars(), {**SMALL, **local})
    with stop_on_signals() as stop:
        run = Run("transform", KafkaOptions(bootstrap), spark, Report("transform"), stop, 30.0)
        counts = transform(run, settings, load_function(name), QUICK)
    print(f"done: {counts.batches} batches", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
