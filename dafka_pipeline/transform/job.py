"""The transform job: what is kept is compared, the query is made, and kept going."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from dafka_pipeline.commands.options import Run
from dafka_pipeline.failures import PipelineError, Refused
from dafka_pipeline.kafka.cluster import Cluster
from dafka_pipeline.table.location import Files
from dafka_pipeline.table.lock import held
from dafka_pipeline.transform.binding import FILE, Binding, differences, parse_binding, refuse_differences
from dafka_pipeline.transform.checkpoint import RESTORE, SHUFFLE_PARTITIONS, SparkCheckpoint
from dafka_pipeline.transform.frames import SETTINGS, outgoing, source_frame
from dafka_pipeline.transform.function import Function
from dafka_pipeline.transform.query import Counts, Runner
from dafka_pipeline.transform.settings import LOCK, TransformSettings
from dafka_pipeline.transform.topics import Watch, ids_of, patiently, topics_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery


def transform(run: Run, settings: TransformSettings, function: Function) -> Counts:
    """Run it until it is stopped, or (`every_seconds` None) until what is there now is done.

    Raises:
        UsageFailure: a topic is missing, or the function gives back what cannot be written.
        Refused: the checkpoint belongs to something else, or another process uses it.
        PipelineError: the query fails again and again.
    """
    with held(settings.checkpoint / LOCK, "a transform"), run.spark() as spark:
        return Transform(run, settings, function, spark).run()


class Transform:
    """One run of the job on one checkpoint."""

    def __init__(
        self, run: Run, settings: TransformSettings, function: Function, spark: SparkSession
    ) -> None:
        self._run = run
        self._settings = settings
        self._function = function
        self._spark = spark
        self._files = Files(spark, settings.checkpoint)
        self._checkpoint = SparkCheckpoint(self._files)
        self._cluster = Cluster(run.kafka)
        self._failure: PipelineError | None = None

    def run(self) -> Counts:
        """Until its end; what was read and written."""
        settings, run = self._settings, self._run
        binding = patiently(self._asked, run.report, run.stop)
        binding = self._agreed(binding)
        self._set_up()
        frame = source_frame(self._spark, run.kafka, settings)
        result, taken = self._function.apply(
            frame, self._spark, settings.parameters, several_targets=len(settings.targets) > 1
        )
        if not self._files.exists(FILE):
            self._files.write(FILE, binding.to_json())
        if "timestamp" in taken and not settings.exactly_once:
            run.report.say(
                "Spark's own sink cannot write a record's timestamp: records get the time at which they "
                "are sent. --delivery exactly-once keeps it."
            )
        writer = self._kafka_sink(
            outgoing(result, {k: v for k, v in taken.items() if k != "timestamp"}, settings.targets)
        )
        watch = Watch(self._cluster, binding)
        runner = Runner(
            lambda: self._started(writer, binding),
            watch.look_if_due,
            lambda: self._failure,
            run.report,
            run.stop,
            run.deadline_seconds,
        )
        runner.run(lambda: patiently(watch.look, run.report, run.stop))
        return runner.counts

    def _asked(self) -> Binding:
        """What a checkpoint made now would belong to."""
        settings = self._settings
        topics = topics_of(self._cluster, settings)
        return Binding(
            id=uuid.uuid4().hex,
            sources=ids_of(topics, settings.sources),
            targets=ids_of(topics, settings.targets),
            partitions={name: topics[name].partitions for name in settings.targets},
            function=settings.function,
            delivery=settings.delivery,
            output_mode=settings.output_mode,
            outbox=str(settings.outbox_place or ""),
        )

    def _agreed(self, asked: Binding) -> Binding:
        """What the checkpoint belongs to, once it fits what is asked. Raises Refused where it does not."""
        place = str(self._settings.checkpoint)
        text = self._files.read(FILE)
        query = self._checkpoint.query()
        if text is None:
            if query or self._checkpoint.newest_planned() is not None:
                raise Refused(
                    f"{place} is the checkpoint of a Spark query that no transform has started (it has no "
                    f"{FILE}), and "
                    "nobody can say whether its topics are still the same. Give another --checkpoint."
                )
            return asked
        kept = parse_binding(text, place)
        accepted = refuse_differences(differences(kept, asked), place, accepted=self._settings.accept_change)
        if kept.query and kept.query != query:
            raise Refused(
                f"{place}/{FILE} is of Spark's query {kept.query}, and Spark's part of the directory is "
                f"{f'of {query}' if query else 'gone'}. {RESTORE}"
            )
        if not accepted:
            return kept
        for one in accepted:
            self._run.report.say(f"Accepted: {one}")
        return replace(asked, id=kept.id, query=kept.query, partitions=kept.partitions)

    def _set_up(self) -> None:
        """The session's settings: ours, then the checkpoint's, which its state depends on."""
        chosen = self._run.spark_options.conf
        for name, value in SETTINGS.items():
            if name not in chosen:
                self._spark.conf.set(name, value)
        newest = self._checkpoint.newest_planned()
        if newest is None:
            return
        for name, value in self._checkpoint.planned(newest).settings.items():
            if name in chosen and chosen[name] != value:
                self._run.report.say(
                    f"The checkpoint's state was made with {name}={value}; --conf {name}={chosen[name]} is "
                    "left out."
                )
            if name == SHUFFLE_PARTITIONS or name in SETTINGS:
                self._spark.conf.set(name, value)

    def _kafka_sink(self, frame: DataFrame) -> DataStreamWriter:
        """At least once, by Spark's own sink."""
        writer = frame.writeStream.format("kafka").options(**self._run.kafka.for_spark())
        if len(self._settings.targets) == 1:
            writer = writer.option("topic", self._settings.targets[0])
        return writer

    def _started(self, writer: DataStreamWriter, binding: Binding) -> StreamingQuery:
        settings = self._settings
        self._failure = None
        writer = writer.outputMode(settings.output_mode).option(
            "checkpointLocation", settings.checkpoint.text
        )
        if settings.every_seconds is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{settings.every_seconds} seconds")
        query = writer.start()
        if not binding.query and not self._files_know(query.id):
            self._files.write(FILE, replace(binding, query=query.id).to_json())
        return query

    def _files_know(self, query: str) -> bool:
        text = self._files.read(FILE)
        return text is not None and parse_binding(text, str(self._settings.checkpoint)).query == query
