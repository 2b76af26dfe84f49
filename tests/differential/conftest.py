"""The two pairs of servers, each started once per session, when a case first asks it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.differential.runner import Pair
from tests.differential.servers import (
    AS_THE_PEER,
    our_bootstrap,
    our_secured,
    running_kafka,
    secured_kafka,
)


@pytest.fixture(scope="session")
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Apache Kafka (the session's, or the one named by KAFKA_BOOTSTRAP) and a fresh `dafka standalone`."""
    kafka = running_kafka() or request.getfixturevalue("apache_kafka").bootstrap
    with our_bootstrap(*AS_THE_PEER) as ours:
        yield Pair.reach(kafka, ours, _run())


@pytest.fixture(scope="session")
def secured_pair() -> Iterator[Pair]:
    """The two that have ACLs."""
    with secured_kafka() as kafka, our_secured() as ours:
        yield Pair.reach_secured(kafka, ours, _run())


def _run() -> str:
    return f"d{time.time_ns() // 1_000_000:x}"
