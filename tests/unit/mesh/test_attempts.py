"""Why a link is not up, by what becomes of the attempts to make it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.attempts import CLOSED_TIMES, WAIT_SECONDS, Attempts, Cause, Event, next_step

KEYS = Path("/keys")
BROKEN_OFF = [(0.0, Event.CONNECTED), (0.01, Event.CLOSED)]


def cause(happened: list[tuple[float, Event]], now: float) -> Cause | None:
    attempts = Attempts()
    for when, event in happened:
        attempts.happened(event, when)
    return attempts.cause(now)


@pytest.mark.parametrize(
    ("happened", "now", "expected"),
    [
        ([], 60.0, None),
        (BROKEN_OFF * (CLOSED_TIMES - 1), 60.0, None),
        (BROKEN_OFF * CLOSED_TIMES, 60.0, Cause.CLOSED),
        ([(0.0, Event.CONNECTED)], WAIT_SECONDS / 2, None),
        ([(0.0, Event.CONNECTED)], WAIT_SECONDS, Cause.UNKNOWN),
        ([(0.0, Event.CONNECTED), (WAIT_SECONDS, Event.CLOSED)], WAIT_SECONDS, Cause.UNKNOWN),
        ([(0.0, Event.CONNECTED), (WAIT_SECONDS, Event.CONNECTED)], WAIT_SECONDS, Cause.UNKNOWN),
        ([(0.0, Event.CONNECTED), (2.0, Event.CLOSED), *BROKEN_OFF * CLOSED_TIMES], 3.0, Cause.UNKNOWN),
        ([(0.0, Event.CONNECTED), (0.0, Event.OTHER_MECHANISM)], 60.0, Cause.OTHER_MECHANISM),
        ([*BROKEN_OFF * CLOSED_TIMES, (1.0, Event.OTHER_MECHANISM)], 60.0, Cause.OTHER_MECHANISM),
        ([(0.0, Event.CLOSED)] * CLOSED_TIMES, 60.0, None),
    ],
)
def test_what_attempts_show(happened: list[tuple[float, Event]], now: float, expected: Cause | None) -> None:
    assert cause(happened, now) == expected


def test_a_link_that_came_up_leaves_nothing_of_what_was_before() -> None:
    attempts = Attempts()
    attempts.happened(Event.CONNECTED, 0.0)
    attempts.happened(Event.OTHER_MECHANISM, 0.0)
    attempts.happened(Event.CONNECTED, 1.0)
    attempts.clear()
    assert attempts.cause(60.0) is None


@pytest.mark.parametrize("keys", [None, KEYS])
@pytest.mark.parametrize("cause", list(Cause))
def test_each_cause_has_a_next_step(cause: Cause, keys: Path | None) -> None:
    text = next_step(cause, keys)
    assert ("--mesh-keys DIR" in text) == (
        cause is Cause.OTHER_MECHANISM or (keys is None and cause is Cause.CLOSED)
    )
    assert ("dafka keys add" in text) == (keys is not None and cause in {Cause.CLOSED, Cause.UNKNOWN})
