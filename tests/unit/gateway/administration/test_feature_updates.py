"""Which levels a feature may be given, by what each gateway can and by what is in use."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.administration.feature_updates import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureJudge,
    Prospect,
    Update,
    prospects,
    upgrades,
)
from gateway.cluster.feature_levels import METADATA, OF_RELEASES_BEFORE, FeatureState
from gateway.leadership.records import FinalizedFeatures
from wireproto.kafka.errors import ErrorCode, KafkaError

NAME = "dafka.first"
OWN = {METADATA: (30, 30), NAME: (0, 2)}


def refused(level: int, kind: int = UPGRADE, *, present: int = 0, name: str = NAME, **state: Any) -> str:
    """Why, "" if it is not."""
    finalized = FinalizedFeatures(1, {METADATA: 30, NAME: present})
    judge = FeatureJudge(FeatureState(finalized, **{"supported": {1: OWN}, **state}), 1, OWN)
    try:
        judge.check(name, Update(level, kind))
    except KafkaError as error:
        code, message = error.code, error.message
    else:
        return ""
    begin = f"Invalid update version {level} for feature {name}. "
    assert code is ErrorCode.INVALID_UPDATE_VERSION
    assert message.startswith(begin)
    return message.removeprefix(begin)


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({}, ""),
        ({2: OWN, 3: {NAME: (1, 9)}}, ""),
        ({2: OF_RELEASES_BEFORE}, "Broker 2 does not support this feature."),
        ({3: {NAME: (0, 0)}, 2: OWN}, "Broker 3 does not support this feature."),
        ({2: {NAME: (0, 1)}}, "Broker 2 only supports versions 0-1"),
        ({2: {NAME: (3, 4)}}, "Broker 2 only supports versions 3-4"),
    ],
)
def test_a_level_is_raised_when_every_gateway_can_do_it(others: dict[int, Any], why: str) -> None:
    assert refused(2, supported={1: OWN, **others}) == why


def test_who_is_away_counts_and_it_is_said_how_that_ends() -> None:
    why = refused(1, supported={1: OWN, 2: OF_RELEASES_BEFORE}, gone=frozenset({2}))
    assert why == (
        "Broker 2 does not support this feature. It is not running: 'dafka gateways remove 2' has it "
        "forgotten."
    )
    assert refused(1, supported={1: OWN, 2: OWN}, gone=frozenset({2})) == ""


@pytest.mark.parametrize("known", [{}, {2: OWN}])
def test_who_has_not_said_what_it_can_is_waited_for(known: dict[int, Any]) -> None:
    """What it said in an earlier life may be another release's."""
    why = refused(1, supported={1: OWN, **known}, starting=frozenset({2}))
    assert why.startswith("Broker 2 is starting, or its release does not say which features it can")


@pytest.mark.parametrize("kind", [SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
def test_a_level_is_lowered_where_nothing_needs_it(kind: int) -> None:
    assert refused(0, kind, present=2) == ""
    assert refused(1, kind, present=2) == ""
    assert refused(0, kind, present=1, in_use={NAME: "a b"}) == "The feature is in use: a b."
    assert refused(0, kind, present=1, in_use={"dafka.other": "a b"}) == ""
    assert refused(0, present=1).startswith("Can't downgrade the version of this feature without setting")
    assert refused(1, kind) == "Can't downgrade to a newer version."


def test_a_level_that_is_in_effect_is_no_change() -> None:
    for kind in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        everything: dict[str, Any] = {
            "supported": {1: OWN, 2: {}},
            "in_use": {NAME: "x"},
            "starting": frozenset({3}),
        }
        assert refused(1, kind, present=1, **everything) == ""


@pytest.mark.parametrize(
    ("others", "present", "expected"),
    [
        ({}, 0, Prospect(0, 2, ())),
        ({2: OWN}, 2, Prospect(2, 2, ())),
        ({2: {NAME: (0, 9)}}, 1, Prospect(1, 2, ())),
        ({3: OF_RELEASES_BEFORE, 2: {NAME: (0, 1)}}, 0, Prospect(0, 0, (2, 3))),
        ({2: {NAME: (0, 1)}}, 0, Prospect(0, 1, (2,))),
        ({2: {NAME: (0, 1)}}, 1, Prospect(1, 1, (2,))),
    ],
)
def test_how_far_a_feature_may_go(others: dict[int, Any], present: int, expected: Prospect) -> None:
    finalized = FinalizedFeatures(1, {METADATA: 30, NAME: present})
    state = FeatureState(finalized, {1: OWN, **others})
    assert prospects(state, OWN)[NAME] == expected
    raised = {NAME: Update(expected.possible, UPGRADE)} if expected.possible > present else {}
    assert upgrades(state, OWN) == raised
    assert FeatureJudge(state, 1, OWN).levels(raised) == {name: one.level for name, one in raised.items()}


def test_nothing_goes_further_while_somebody_starts() -> None:
    state = FeatureState(FinalizedFeatures(1, {NAME: 1}), {1: OWN, 2: OWN}, frozenset({2}))
    assert prospects(state, OWN) == {METADATA: Prospect(30, 30, ()), NAME: Prospect(1, 1, (2,))}


def test_levels_that_nobody_can_do() -> None:
    assert refused(3) == "Local controller 1 only supports versions 0-2"
    assert refused(1, name="group.version") == "Local controller 1 does not support this feature."
