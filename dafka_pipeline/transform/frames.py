"""The streaming frame that a transform's function gets, and the form in which its result goes to Kafka."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from dafka_pipeline.kafka.frames import COLUMNS, READER
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.transform.settings import TransformSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS: Final = {
    # State larger than memory, and a checkpoint of a batch that holds what changed, not all of it.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Settings of the session a transform runs in; `--conf` wins over each of them."""


def source_frame(spark: SparkSession, kafka: KafkaOptions, settings: TransformSettings) -> DataFrame:
    """The source's records as they come, in the columns of an archive."""
    reader = spark.readStream.format("kafka").options(**READER).options(**kafka.for_spark())
    reader = (
        reader.option("subscribe", ",".join(settings.sources))
        .option("startingOffsets", settings.starting)
        .option("includeHeaders", "true")
        .option("failOnDataLoss", str(not settings.skip_lost).lower())
    )
    if settings.max_offsets:
        reader = reader.option("maxOffsetsPerTrigger", str(settings.max_offsets))
    return reader.load().selectExpr(*COLUMNS)


def outgoing(result: DataFrame, taken: Mapping[str, str], targets: Collection[str]) -> DataFrame:
    """The columns of a result that go to Kafka, key and value as bytes.

    With several targets a row that names none of them fails its batch.
    """
    columns = [f"CAST({name} AS BINARY) AS {name}" for name in ("key", "value") if name in taken]
    columns += [name for name in ("headers", "partition", "timestamp") if name in taken]
    if "topic" in taken:
        allowed = ", ".join(_literal(name) for name in sorted(targets))
        wrong = _literal(f"a row's topic is not one of --to ({', '.join(sorted(targets))}): ")
        columns.append(
            f"CASE WHEN topic IN ({allowed}) THEN topic "
            f"ELSE raise_error(concat({wrong}, coalesce(topic, 'null'))) END AS topic"
        )
    return result.selectExpr(*columns)


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
