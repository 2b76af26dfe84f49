"""Every case for every version: the same bytes to Apache Kafka 4.3.1 and to us, the same answers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsRequest

from gateway.configs.topic_configs import TOPIC_CONFIGS
from tests.differential.allowed import ALLOWED, Allowed
from tests.differential.case import Case, runs
from tests.differential.cases.create_topics import BAD_CONFIGS
from tests.differential.not_yet import NOT_YET, NotYet, not_yet
from tests.differential.runner import Pair, run
from tests.differential.wire import ask


def _is_run(case: Case, version: int) -> bool:
    """What each principal is told is compared here in the last version of an API; and in all of them by
    `python -m tests.differential`.
    """
    is_older = case.principal is not None and version != case.versions[-1]
    return not (not_yet(case) or is_older)


RUNS = [(case, version) for case, version in runs() if _is_run(case, version)]
QUICK = [(case, version) for case, version in RUNS if not case.long]
_done: set[tuple[str, int]] = set()
_used: Counter[Allowed] = Counter()


def _parameters(case: Case, version: int) -> Any:
    marks = [pytest.mark.long] if case.long else []
    return pytest.param(case, version, id=f"{case.name}-v{version}", marks=marks)


PLAIN = [one for one in RUNS if one[0].principal is None]
SECURED = [one for one in RUNS if one[0].principal is not None]


@pytest.mark.parametrize(("case", "version"), [_parameters(*one) for one in PLAIN])
def test_answers_as_kafka_does(pair: Pair, case: Case, version: int) -> None:
    _compare(pair, case, version)


@pytest.mark.parametrize(("case", "version"), [_parameters(*one) for one in SECURED])
def test_answers_as_kafka_does_to_whom(secured_pair: Pair, case: Case, version: int) -> None:
    _compare(secured_pair, case, version)


def _compare(pair: Pair, case: Case, version: int) -> None:
    outcome = run(pair, case, version)
    _done.add((case.name, version))
    _used.update(reason for _, reason in outcome.allowed)
    assert not outcome.found, "\n" + "\n".join(map(str, outcome.found))


def test_cases_wait_for_what_is_not_served(pair: Pair) -> None:
    served = {api.api_key for api in ask(pair.ours.bootstrap, ApiVersionsRequest(version=0)).api_keys}
    waiting = Counter(entry for case, _ in runs() if (entry := not_yet(case)))
    for entry in NOT_YET:
        assert entry.needs is None or entry.needs not in served, (
            f"API {entry.needs} is served: take {entry.where} out of NOT_YET"
        )
        assert waiting[entry], f"no case is called {entry.where}"
    if waiting:
        pytest.xfail("; ".join(f"{n} runs of {e.where} wait: {e.reason}" for e, n in waiting.items()))


@pytest.mark.parametrize("entry", [entry for entry in NOT_YET if entry.needs is None], ids=lambda e: e.where)
def test_what_waits_still_differs(request: pytest.FixtureRequest, entry: NotYet) -> None:
    for case, version in runs():
        if not_yet(case) is entry and not case.long:
            pair = request.getfixturevalue("pair" if case.principal is None else "secured_pair")
            try:
                differs = bool(run(pair, case, version).found)
            except (AssertionError, OSError, RuntimeError):
                differs = True
            if differs:
                return
    pytest.fail(f"nothing waits any more for {entry.reason}: take {entry.where} out of NOT_YET")


def test_every_topic_config_is_given_values_that_are_refused() -> None:
    """So that each check's words are compared with Kafka's."""
    assert {c.name for c in TOPIC_CONFIGS.values() if not c.hidden} <= BAD_CONFIGS.keys()


def test_every_allowed_difference_still_occurs() -> None:
    """The list says what is true now. Needs the whole run before it."""
    missing = {(case.name, version) for case, version in QUICK} - _done
    if missing:
        pytest.skip(f"{len(missing)} of {len(QUICK)} runs were not compared here")
    assert [entry.where for entry in ALLOWED if not _used[entry] and not entry.sometimes] == []
