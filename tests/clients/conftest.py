"""One server for the folder: a fresh `dafka standalone`, or the server that DAFKA_BOOTSTRAP names."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator

import pytest

from tests.clients.stored import create_topic
from tests.differential.servers import our_bootstrap

_numbers = itertools.count(1)
_run = f"{time.time_ns() // 1_000_000:x}"


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    # Groups need not wait three seconds for more members.
    with our_bootstrap("--group-initial-rebalance-delay-ms", "0") as address:
        yield address


@pytest.fixture
def new_topic(bootstrap: str, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Makes topics with names of their own: `new_topic(partitions=3, message_timestamp_type="...")`."""

    def make(partitions: int = 1, **configs: str) -> str:
        test = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")
        return create_topic(bootstrap, f"{test}-{_run}-{next(_numbers)}", partitions, **configs)

    return make


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic()
