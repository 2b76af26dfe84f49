"""The jars that fit a PySpark: its Kafka connector and Delta, from Maven or from a folder.

PySpark, Scala, the connector, Kafka's clients and Delta fit each other by version, so they are pinned
together here and in the extra `spark` of this package.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple

from dafka_pipeline.failures import UsageFailure


class Fit(NamedTuple):
    """What one PySpark needs, as Maven coordinates. `connector` brings what it depends on."""

    connector: str
    delta: str
    avro: str
    files: tuple[str, ...]
    """Of the connector and Delta with all they need that PySpark does not bring: names of jars."""


FITS: Final = {
    "4.0.0": Fit(
        connector="org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
        delta="io.delta:delta-spark_2.13:4.0.1",
        avro="org.apache.spark:spark-avro_2.13:4.0.0",
        files=(
            "spark-sql-kafka-0-10_2.13-4.0.0.jar",
            "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
            "kafka-clients-3.9.0.jar",
            "commons-pool2-2.12.0.jar",
            "delta-spark_2.13-4.0.1.jar",
            "delta-storage-4.0.1.jar",
        ),
    )
}
"""PySpark's version -> what was tested with it."""


def fit(pyspark: str) -> Fit:
    """What this PySpark needs. Raises UsageFailure for a PySpark that nothing was tested with."""
    found = FITS.get(pyspark)
    if found is None:
        raise UsageFailure(
            f"PySpark {pyspark} is installed, and this package fits PySpark {', '.join(FITS)}: the connector "
            f"and Delta must have its version. Run: pip install pyspark=={max(FITS)}."
        )
    return found


def jar_settings(pyspark: str, folder: Path | None, *, avro: bool = False) -> dict[str, str]:
    """Spark's settings that bring the jars: from `folder`, or resolved by Spark itself where it is None.

    Raises UsageFailure for a folder that lacks one, with the names of all that are missing.
    """
    wanted = fit(pyspark)
    if folder is None:
        packages = [wanted.connector, wanted.delta, *([wanted.avro] if avro else [])]
        return {"spark.jars.packages": ",".join(packages)}
    if not folder.is_dir():
        raise UsageFailure(f"--jars {folder}: there is no such folder. {how_to_fill(pyspark, folder)}")
    there = {path.name: path for path in folder.glob("*.jar")}
    names = [*wanted.files, *([_avro_file(wanted)] if avro else [])]
    _refuse_missing(names, there, pyspark, folder)
    return {"spark.jars": ",".join(str(there[name].absolute()) for name in names)}


def how_to_fill(pyspark: str, folder: Path) -> str:
    """What brings the jars into a folder, on a machine that has a network."""
    wanted = fit(pyspark)
    return (
        f"On a machine with a network, 'mvn dependency:copy-dependencies' with {wanted.connector} and "
        f"{wanted.delta} brings them; copy {', '.join(wanted.files)} to {folder}."
    )


def _refuse_missing(names: Collection[str], there: Collection[str], pyspark: str, folder: Path) -> None:
    missing = [name for name in names if name not in there]
    if not missing:
        return
    near = sorted(name for name in there if any(name.startswith(_stem(one)) for one in missing))
    other = f" It has {', '.join(near)}, which do not fit PySpark {pyspark}." if near else ""
    raise UsageFailure(f"--jars {folder} lacks {', '.join(missing)}.{other} {how_to_fill(pyspark, folder)}")


def _stem(name: str) -> str:
    return name.rpartition("-")[0]


def _avro_file(wanted: Fit) -> str:
    _, artifact, version = wanted.avro.split(":")
    return f"{artifact}-{version}.jar"
