"""The transform job: what is kept is compared, the query is made, and kept going."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from dafka_pipeline.commands.options import Run
from dafka_pipeline.failures import PipelineError, Refused
from dafka_pipeline.kafka.cluster import Cluster
from dafka_pipeline.producing import Plan, Publisher, Timing
from dafka_pipeline.running.waiting import patiently
from dafka_pipeline.table.location import Files
from dafka_pipeline.table.lock import held
from dafka_pipeline.transform.binding import (
    FILE,
    Binding,
    differences,
    parse_binding,
    refuse_differences,
    refuse_other_query,
)
from dafka_pipeline.transform.checkpoint import SHUFFLE_PARTITIONS, SparkCheckpoint
from dafka_pipeline.transform.frames import SETTINGS, outgoing, source_frame
from dafka_pipeline.transform.function import Function
from dafka_pipeline.transform.outbox import Outbox
from dafka_pipeline.transform.publishing import OutboxSink
from dafka_pipeline.transform.query import Counts, Runner
from dafka_pipeline.transform.settings import LOCK, TransformSettings
from dafka_pipeline.transform.topics import Watch, ids_of, topics_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

PUBLISHER: Final = "publisher"

T = TypeVar("T")


def transform(
    run: Run, settings: TransformSettings, function: Function, timing: Timing | None = None
) -> Counts:
    """Run it until it is stopped, or (`every_seconds` None) until what is there now is done.

    Raises:
        UsageFailure: a topic is missing, or the function gives back what cannot be written.
        Refused: the checkpoint belongs to something else, or another process uses it.
        PipelineError: the query fails again and again.
    """
    with held(settings.checkpoint / LOCK, "A transform"), run.spark() as spark:
        return Transform(run, settings, function, spark, timing or Timing()).run()


class Transform:
    """One run of the job on one checkpoint."""

    def __init__(
        self, run: Run, settings: TransformSettings, function: Function, spark: SparkSession, timing: Timing
    ) -> None:
        self._run = run
        self._settings = settings
        self._function = function
        self._spark = spark
        self._timing = timing
        self._files = Files(spark, settings.checkpoint)
        self._checkpoint = SparkCheckpoint(self._files)
        self._cluster = Cluster(run.kafka)

    def run(self) -> Counts:
        """Until its end; what was read and written."""
        binding = self._agreed(self._patiently(self._asked))
        self._set_up()
        frame = source_frame(self._spark, self._run.kafka, self._settings)
        result, taken = self._function.apply(
            frame,
            self._spark,
            self._settings.parameters,
            several_targets=len(self._settings.targets) > 1,
        )
        outbox = self._outbox(binding)
        self._files.write(FILE, binding.to_json())
        watch = Watch(self._cluster, binding)
        with ExitStack() as stack:
            start, failure = self._sink(result, taken, binding, outbox, watch, stack)
            run = self._run
            runner = Runner(start, failure, watch, run.report, run.stop, run.deadline_seconds)
            runner.run(lambda: self._patiently(watch.look))
        return runner.counts

    def _patiently(self, ask: Callable[[], T]) -> T:
        run = self._run
        patience = run.patience(for_ever=self._settings.every_seconds is not None)
        return patiently(ask, run.stop, run.report, patience)

    # what the checkpoint belongs to -----------------------------------------------------------------------

    def _asked(self) -> Binding:
        """What a checkpoint made now would belong to."""
        settings = self._settings
        topics = topics_of(self._cluster, settings)
        return Binding(
            id=secrets.token_hex(8),
            sources=ids_of(topics, settings.sources),
            targets=ids_of(topics, settings.targets),
            partitions={name: topics[name].partitions for name in settings.targets},
            function=settings.function,
            delivery=settings.delivery,
            output_mode=settings.output_mode,
            outbox=str(settings.outbox or ""),
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
                    f"{FILE}), and nobody can say whether its topics are still the same. Give another "
                    "--checkpoint."
                )
            return asked
        kept = parse_binding(text, place)
        accepted = refuse_differences(differences(kept, asked), place, accepted=self._settings.accept_change)
        refuse_other_query(kept, query, place)
        for one in accepted:
            self._run.report.say(f"Accepted: {one}")
        return replace(asked, id=kept.id, query=query) if accepted else replace(kept, query=query)

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

    def _outbox(self, binding: Binding) -> Outbox | None:
        """The outbox, when there is one to be; it belongs to the checkpoint. Raises Refused."""
        place = self._settings.outbox_place
        if place is None:
            return None
        outbox = Outbox(self._spark, place, binding, self._checkpoint)
        outbox.check()
        return outbox

    # the query --------------------------------------------------------------------------------------------

    def _sink(
        self,
        result: DataFrame,
        taken: Mapping[str, str],
        binding: Binding,
        outbox: Outbox | None,
        watch: Watch,
        stack: ExitStack,
    ) -> tuple[Callable[[], StreamingQuery], Callable[[], PipelineError | None]]:
        """What starts the query, and what its batches failed with last."""
        settings, run = self._settings, self._run
        if outbox is None:
            if "timestamp" in taken:
                run.report.say(
                    "Spark's own sink cannot write a record's timestamp: records get the time at which they "
                    "are sent. --delivery exactly-once keeps it."
                )
            columns = {name: kind for name, kind in taken.items() if name != "timestamp"}
            plain = self._kafka_sink(outgoing(result, columns, settings.targets))
            return lambda: self._started(plain, binding), lambda: None
        plan = Plan(f"transform-{binding.id}", run.kafka, settings.targets, append=True, timing=self._timing)
        publisher = Publisher(self._spark, plan, self._files, PUBLISHER, run.stop, run.report)
        sink = OutboxSink(outbox, stack.enter_context(publisher), watch)
        writer = outgoing(result, taken, settings.targets).writeStream.foreachBatch(sink.batch)

        def start() -> StreamingQuery:
            sink.begin()
            return self._started(writer, binding)

        return start, lambda: sink.failure

    def _kafka_sink(self, frame: DataFrame) -> DataStreamWriter:
        """At least once, by Spark's own sink."""
        writer = frame.writeStream.format("kafka").options(**self._run.kafka.for_spark())
        if len(self._settings.targets) == 1:
            writer = writer.option("topic", self._settings.targets[0])
        return writer

    def _started(self, writer: DataStreamWriter, binding: Binding) -> StreamingQuery:
        settings = self._settings
        writer = writer.outputMode(settings.output_mode).option(
            "checkpointLocation", settings.checkpoint.text
        )
        if settings.every_seconds is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{settings.every_seconds} seconds")
        query = writer.start()
        if binding.query != query.id:
            self._files.write(FILE, replace(binding, query=query.id).to_json())
        return query
