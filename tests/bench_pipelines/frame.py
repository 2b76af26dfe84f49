"""What every bench stands in: its arguments, a server, and Spark on two threads with a heap of 2 GB."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from dafka_pipeline.spark.session import SparkOptions, spark_session
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.maven import pipeline_jars
from tests.peers.standalone import Standalone

Server = ApacheKafka | Standalone


def sizes(description: str | None) -> argparse.ArgumentParser:
    """A parser of how much a bench does."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    return parser


def sizes_and_server(description: str | None) -> argparse.ArgumentParser:
    """The same, and beside which server."""
    parser = sizes(description)
    parser.add_argument("--server", choices=["dafka", "kafka"], default="dafka")
    return parser


@contextmanager
def server_and_folder(kind: str) -> Iterator[tuple[Server, Path]]:
    """A running server of that kind, and a folder for what Spark spills."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = ApacheKafka(jvm_options=()) if kind == "kafka" else Standalone(directory=folder / "server")
        with server:
            yield server, folder


@contextmanager
def spark_in(folder: Path) -> Iterator[SparkSession]:
    conf = {"spark.driver.memory": "2g", "spark.local.dir": f"{folder}/local"}
    with spark_session(SparkOptions("local[2]", pipeline_jars(), conf), "bench") as spark:
        yield spark
