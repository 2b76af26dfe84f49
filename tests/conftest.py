"""Fixtures for all tests; see tests/peers for what they start."""

import gc
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.peers.apache_kafka import ApacheKafka
from tests.peers.standalone import Standalone
from tests.schedule import ByFile, sort_long_first

# Where a machine forbids it, each of the many processes that are started compiles all modules anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The same examples in every run, and no deadlines. New examples: `pytest --hypothesis-profile explore`.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile("repeatable")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays: garbage collection would go through all of it again and again for nothing."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    sort_long_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile | None:
    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def apache_kafka() -> Iterator[ApacheKafka]:
    """One Apache Kafka for all tests of this worker: use topic names of your own."""
    with ApacheKafka() as kafka:
        yield kafka


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Standalone]:
    """A running `dafka standalone` with fsync always, on fresh data."""
    with Standalone(tmp_path / "data", directory=tmp_path / "standalone") as server:
        yield server
