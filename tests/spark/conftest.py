"""One Spark session and one server for the whole folder."""

from __future__ import annotations

import gc
import itertools
import re
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.clients.stored import create_topic
from tests.differential.servers import our_bootstrap
from tests.peers.requirements import require
from tests.spark.settings import spark_settings

# PySpark leaves the sockets over which rows come to the garbage collector.
LEAKS = ["ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"]
_numbers = itertools.count(1)
_run = f"{time.time_ns() // 1_000_000:x}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for leak in LEAKS:
                item.add_marker(pytest.mark.filterwarnings(leak))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    require("java")
    builder = SparkSession.builder.appName("tests").config(
        map=spark_settings(tmp_path_factory.mktemp("spark"))
    )
    session = builder.getOrCreate()
    yield session
    session.stop()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    # Where Spark's driver joins a group (`test_groups.py`), it waits for nobody.
    with our_bootstrap("--group-initial-rebalance-delay-ms", "0") as address:
        yield address


@pytest.fixture
def new_topic(bootstrap: str, request: pytest.FixtureRequest) -> Callable[..., str]:
    def make(partitions: int = 1, suffix: str = "", **configs: str) -> str:
        test = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")
        return create_topic(bootstrap, f"{test}-{_run}-{next(_numbers)}{suffix}", partitions, **configs)

    return make


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic()
