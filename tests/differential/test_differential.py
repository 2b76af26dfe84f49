"""Every case for every version: the same bytes to Apache Kafka 4.3.1 and to us, the same answers."""

from __future__ import annotations

from collections import Counter

import pytest

from gateway.configs.topic_configs import TOPIC_CONFIGS
from tests.differential.allowed import ALLOWED, Allowed
from tests.differential.case import Case, runs
from tests.differential.cases.create_topics import BAD_CONFIGS
from tests.differential.runner import Pair, run

RUNS = list(runs())
_done: set[tuple[str, int]] = set()
_used: Counter[Allowed] = Counter()


@pytest.mark.parametrize(("case", "version"), RUNS, ids=[f"{case.name}-v{version}" for case, version in RUNS])
def test_answers_as_kafka_does(pair: Pair, case: Case, version: int) -> None:
    outcome = run(pair, case, version)
    _done.add((case.name, version))
    _used.update(reason for _, reason in outcome.allowed)
    assert not outcome.found, "\n" + "\n".join(map(str, outcome.found))


def test_every_topic_config_is_given_values_that_are_refused() -> None:
    """So that each check's words are compared with Kafka's."""
    assert {c.name for c in TOPIC_CONFIGS.values() if not c.hidden} <= BAD_CONFIGS.keys()


def test_every_allowed_difference_still_occurs() -> None:
    """The list says what is true now. Needs the whole run before it."""
    if len(_done) < len(RUNS):
        pytest.skip(f"{len(_done)} of {len(RUNS)} runs were compared here")
    assert [entry.where for entry in ALLOWED if not _used[entry] and not entry.sometimes] == []
