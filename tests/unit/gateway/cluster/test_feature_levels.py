"""What releases can do of features, and what a catalog demands of them."""

from __future__ import annotations

import pytest

from gateway.cluster.feature_levels import (
    LEVELS_BEFORE,
    METADATA,
    OF_RELEASES_BEFORE,
    OF_THIS_RELEASE,
    are_as_before,
    can_do,
    highest_levels,
    lacking,
    levels_of_text,
    supported_by,
)
from gateway.leadership.records import FinalizedFeatures, GatewayRecord

NAME = "dafka.first"


@pytest.mark.parametrize(
    ("level", "can"), [(0, False), (1, True), (2, True), (3, False)]
)  # fmt: skip
def test_a_gateway_can_do_the_levels_of_its_range(level: int, can: bool) -> None:
    assert can_do({NAME: (1, 2)}, NAME, level) is can


def test_of_what_it_does_not_know_a_gateway_can_do_level_0() -> None:
    assert can_do({}, NAME, 0)
    assert not can_do({}, NAME, 1)


def test_one_that_does_not_say_what_it_can_is_of_a_release_from_before() -> None:
    record = GatewayRecord("g", "", {}, {}, "0.1")
    assert supported_by(record) == OF_RELEASES_BEFORE
    assert supported_by(record._replace(features={NAME: (0, 1)})) == {NAME: (0, 1)}


@pytest.mark.parametrize(
    ("levels", "why"),
    [
        ({}, ""),
        ({NAME: 1, METADATA: 30}, ""),
        ({"dafka.later": 0}, ""),
        ({"dafka.later": 1, NAME: 1}, "feature dafka.later is at level 1, and this release does not know it"),
        ({NAME: 3}, "feature dafka.first is at level 3, and this release can do it at levels 1 to 2"),
        ({NAME: 0}, "feature dafka.first is at level 0, and this release can do it at levels 1 to 2"),
    ],
)
def test_a_gateway_takes_part_where_it_can_do_every_level(levels: dict[str, int], why: str) -> None:
    assert lacking({NAME: (1, 2), METADATA: (30, 30)}, FinalizedFeatures(1, levels)) == why


def test_this_release_takes_part_in_clusters_from_before_and_in_new_ones() -> None:
    assert not lacking(OF_THIS_RELEASE, LEVELS_BEFORE)
    assert not lacking(OF_RELEASES_BEFORE, LEVELS_BEFORE)
    new = highest_levels(OF_THIS_RELEASE, "2")
    assert not lacking(OF_THIS_RELEASE, new)
    assert new.levels == {name: highest for name, (_, highest) in OF_THIS_RELEASE.items()}
    assert (new.release, new.epoch) == ("2", 1)


@pytest.mark.parametrize(
    ("levels", "old"),
    [({}, True), ({METADATA: 30, NAME: 0}, True), ({NAME: 1}, False), ({METADATA: 31}, False)],
)
def test_levels_that_releases_from_before_can_do(levels: dict[str, int], old: bool) -> None:
    assert are_as_before(levels) is old


def test_another_release_for_a_test() -> None:
    assert levels_of_text("") == {}
    assert levels_of_text("metadata.version:30-30,dafka.first:0-2") == {METADATA: (30, 30), NAME: (0, 2)}


@pytest.mark.parametrize(
    "text", ["x", "x:1", "x:2-1", "x:0-32768", "x:-1-2", "X:0-1", "x:0-1;y:0-1", "x: 0-1"]
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no feature with its lowest and highest level"):
        levels_of_text(text)
