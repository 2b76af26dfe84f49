"""Fixtures for all tests; see tests/peers for what they start."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.peers.apache_kafka import ApacheKafka
from tests.peers.standalone import Standalone

# The same examples in every run, and no deadlines. New examples: `pytest --hypothesis-profile explore`.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile("repeatable")


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
