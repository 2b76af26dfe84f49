"""Jars from the Maven registry, by coordinate, into the cache.

Maven gets a repository folder of its own: Ivy (Spark's `--packages`) reads ~/.m2 first and fails on what is
half there.
"""

import hashlib
import subprocess
from functools import partial
from pathlib import Path

from tests.peers.cache import cache_root, cached_folder, locked
from tests.peers.requirements import require, unavailable

KAFKA_VERSION = "4.3.1"
# The clients that Spark 4.0.0 brings.
OLD_CLIENTS_VERSION = "3.9.0"
SPARK_VERSION = "4.0.0"
SLF4J = "org.slf4j:slf4j-simple:1.7.36"
DOWNLOAD_TIMEOUT_SECONDS = 600

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests.peers</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
DEPENDENCY = (
    "    <dependency><groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version>{3}</dependency>"
)
ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


def kafka_jars(version: str = KAFKA_VERSION) -> Path:
    """A folder with Apache Kafka's broker, tools and Java clients."""
    broker = [f"org.apache.kafka:kafka_2.13:{version}", f"org.apache.kafka:kafka-tools:{version}", SLF4J]
    return jars(f"kafka-{version}", broker)


def client_jars(version: str = KAFKA_VERSION) -> Path:
    """A folder with Kafka's Java clients of one version alone (no broker)."""
    return jars(f"kafka-clients-{version}", [f"org.apache.kafka:kafka-clients:{version}", SLF4J])


def connector_jars(version: str = SPARK_VERSION) -> list[Path]:
    """The four jars that make `format("kafka")` work, for `spark.jars`; the rest is in PySpark itself."""
    coordinates = [
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}",
        f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{version}",
        f"org.apache.kafka:kafka-clients:{OLD_CLIENTS_VERSION}",
        "org.apache.commons:commons-pool2:2.12.0",
    ]
    return sorted(jars(f"spark-kafka-{version}", coordinates, transitive=False).glob("*.jar"))


def pipeline_jars(version: str = SPARK_VERSION) -> Path:
    """A folder for `dafka-pipeline --jars`: the connector, Delta and Avro as they fit that Spark."""
    coordinates = [
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}",
        f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{version}",
        f"org.apache.kafka:kafka-clients:{OLD_CLIENTS_VERSION}",
        "org.apache.commons:commons-pool2:2.12.0",
        "io.delta:delta-spark_2.13:4.0.1",
        "io.delta:delta-storage:4.0.1",
        f"org.apache.spark:spark-avro_2.13:{version}",
    ]
    return jars(f"spark-pipeline-{version}", coordinates, transitive=False)


def jars(name: str, coordinates: list[str], *, transitive: bool = True) -> Path:
    """A cached folder with the jars of `group:artifact:version` coordinates and what they depend on."""
    pom = POM.format(
        dependencies="\n".join(
            DEPENDENCY.format(*coordinate.split(":"), "" if transitive else ALONE)
            for coordinate in coordinates
        )
    )
    digest = hashlib.sha256(pom.encode()).hexdigest()[:8]
    return cached_folder(f"{name}-{digest}", partial(_copy_dependencies, pom))


def _copy_dependencies(pom: str, folder: Path) -> None:
    mvn = require("mvn")
    pom_file = folder / "pom.xml"
    pom_file.write_text(pom)
    repository = cache_root() / "m2"
    command = [
        *(mvn, "-q", "-B", "-f", str(pom_file), f"-Dmaven.repo.local={repository}"),
        *("dependency:copy-dependencies", f"-DoutputDirectory={folder}"),
    ]
    # Two Mavens that write one repository at a time spoil it.
    with locked(cache_root() / "m2.lock"):
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_SECONDS, check=False
        )
    if result.returncode != 0 or not any(folder.glob("*.jar")):
        tail = (result.stdout + result.stderr)[-2000:]
        unavailable(f"Maven could not bring the jars: {tail}")
