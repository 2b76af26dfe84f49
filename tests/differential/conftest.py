"""The two servers, started once per session."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.differential.runner import Pair
from tests.differential.servers import AS_THE_PEER, our_bootstrap, running_kafka


@pytest.fixture(scope="session")
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Apache Kafka (the session's, or the one named by KAFKA_BOOTSTRAP) and a fresh `dafka standalone`."""
    kafka = running_kafka() or request.getfixturevalue("apache_kafka").bootstrap
    with our_bootstrap(*AS_THE_PEER) as ours:
        yield Pair.reach(kafka, ours, f"d{time.time_ns() // 1_000_000:x}")
