"""The jars that fit a PySpark: its Kafka connector and Delta, from Maven or from a folder.

PySpark, Scala, the connector, Kafka's clients and Delta fit each other by version, so they are pinned
together here and in the extra `spark` of this package.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from dafka_pipeline.failures import UsageFailure


class Jar(NamedTuple):
    """A jar as Maven names it, and a class by which it is known to be there."""

    group: str
    artifact: str
    version: str
    known_by: str

    @property
    def coordinate(self) -> str:
        """As Maven and `spark.jars.packages` write it."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file(self) -> str:
        """Its name as Maven has it."""
        return f"{self.artifact}-{self.version}.jar"


class Fit(NamedTuple):
    """What one PySpark needs and does not bring."""

    connector: Jar
    """With what it depends on."""
    delta: Jar
    """With what it depends on."""
    avro: Jar
    brought: tuple[Jar, ...]
    """What those depend on."""


SPARK: Final = "org.apache.spark"
FITS: Final = {
    "4.0.0": Fit(
        connector=Jar(
            SPARK, "spark-sql-kafka-0-10_2.13", "4.0.0", "org.apache.spark.sql.kafka010.KafkaSourceProvider"
        ),
        delta=Jar("io.delta", "delta-spark_2.13", "4.0.1", "io.delta.sql.DeltaSparkSessionExtension"),
        avro=Jar(SPARK, "spark-avro_2.13", "4.0.0", "org.apache.spark.sql.avro.AvroFileFormat"),
        brought=(
            Jar(
                SPARK,
                "spark-token-provider-kafka-0-10_2.13",
                "4.0.0",
                "org.apache.spark.kafka010.KafkaTokenUtil",
            ),
            Jar("org.apache.kafka", "kafka-clients", "3.9.0", "org.apache.kafka.clients.admin.Admin"),
            Jar(
                "org.apache.commons",
                "commons-pool2",
                "2.12.0",
                "org.apache.commons.pool2.impl.GenericObjectPool",
            ),
            Jar("io.delta", "delta-storage", "4.0.1", "io.delta.storage.LogStore"),
        ),
    )
}  # fmt: skip
"""PySpark's version -> what was tested with it."""

EXCLUDED: Final = (
    "com.google.code.findbugs:jsr305",
    "org.antlr:antlr4-runtime",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.lz4:lz4-java",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)
"""What the jars depend on, too, and PySpark has in the same version: 55 of 72 MB that need not be fetched."""


def fit(pyspark: str) -> Fit:
    """What this PySpark needs. Raises UsageFailure for a PySpark that nothing was tested with."""
    found = FITS.get(pyspark)
    if found is None:
        raise UsageFailure(
            f"PySpark {pyspark} is installed, and this package fits PySpark {', '.join(FITS)}: the connector "
            f"and Delta must have its version. Run: pip install pyspark=={max(FITS)}."
        )
    return found


def jar_settings(
    pyspark: str, folder: Path | None, *, avro: bool = False, conf: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Spark's settings that bring the jars: from `folder`, or resolved by Spark itself where it is None.

    conf: the user's own settings. Their `spark.jars` and `spark.jars.packages` come on top (a driver for S3),
        or instead, where they have the connector or Delta themselves.

    Raises UsageFailure for a folder that lacks one, with the names of all that are missing.
    """
    wanted = fit(pyspark)
    conf = conf or {}
    theirs = f"{conf.get('spark.jars', '')},{conf.get('spark.jars.packages', '')}"
    _refuse_others(needed(pyspark, avro=avro), theirs, pyspark)
    tops = [wanted.connector, wanted.delta, *([wanted.avro] if avro else [])]
    tops = [jar for jar in tops if jar.artifact not in theirs]
    if not tops:
        return {}
    if folder is None:
        return {
            "spark.jars.packages": _joined([jar.coordinate for jar in tops], conf.get("spark.jars.packages")),
            "spark.jars.excludes": _joined(EXCLUDED, conf.get("spark.jars.excludes")),
        }
    if not folder.is_dir():
        raise UsageFailure(f"--jars {folder}: there is no such folder. {how_to_fill(pyspark)}")
    there = {path.name: path for path in folder.glob("*.jar")}
    names = [jar.file for jar in (*tops, *wanted.brought) if jar.artifact not in theirs]
    found = {name: _found(name, there) for name in names}
    _refuse_missing([name for name, path in found.items() if path is None], there, pyspark, folder)
    paths = [str(path.absolute()) for path in found.values() if path is not None]
    return {"spark.jars": _joined(paths, conf.get("spark.jars"))}


def needed(pyspark: str, *, avro: bool) -> list[Jar]:
    """All jars that a session must have."""
    wanted = fit(pyspark)
    return [wanted.connector, wanted.delta, *wanted.brought, *([wanted.avro] if avro else [])]


def how_to_fill(pyspark: str) -> str:
    """What brings the jars to a machine without a network."""
    files = [jar.file for jar in needed(pyspark, avro=False)]
    return (
        "Where a network is, any dafka-pipeline command leaves them in ~/.ivy2.5.2/jars: copy that folder "
        f"here and give it with --jars. It takes {', '.join(files)}, with or without Ivy's prefix."
    )


def _found(name: str, there: Mapping[str, Path]) -> Path | None:
    """The file, under Maven's name or Ivy's, which has the group before it."""
    return there.get(name) or next(
        (path for other, path in there.items() if other.endswith(f"_{name}")), None
    )


def _refuse_others(jars: Collection[Jar], theirs: str, pyspark: str) -> None:
    """Raises UsageFailure for one of `jars` that --conf names in another version."""
    for jar in jars:
        for version in re.findall(rf"{re.escape(jar.artifact)}[-:](\d[\w.]*?)(?:\.jar)?(?:,|$)", theirs):
            if version != jar.version:
                raise UsageFailure(
                    f"--conf spark.jars or spark.jars.packages names {jar.artifact} {version}, and PySpark "
                    f"{pyspark} needs {jar.coordinate}. Leave it out: this package brings it."
                )


def _refuse_missing(missing: Collection[str], there: Collection[str], pyspark: str, folder: Path) -> None:
    if not missing:
        return
    near = sorted(name for name in there if any(_stem(one) in name for one in missing))
    other = f" It has {', '.join(near)}, which do not fit PySpark {pyspark}." if near else ""
    raise UsageFailure(f"--jars {folder} lacks {', '.join(missing)}.{other} {how_to_fill(pyspark)}")


def _stem(name: str) -> str:
    return name.rpartition("-")[0]


def _joined(ours: Collection[str], theirs: str | None) -> str:
    return ",".join([*ours, *filter(None, [theirs])])
