"""UpdateFeatures: what is wrong with a level is said in Kafka's words, and what is right takes effect."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.administration.feature_updates import KAFKA
from gateway.cluster.feature_levels import METADATA
from tests.unit.gateway.api.asking import FakeBroker, ask, request_class
from wireproto.kafka.errors import ErrorCode

UpdateFeatures = request_class(57)
UPGRADE, SAFE, UNSAFE = 1, 2, 3
FAILED = "The update failed for all features since the following feature had an error: "
WITHOUT_FLAG = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
    "downgrade."
)


def update(*changes: tuple[str, int, int], version: int = 2, **fields: Any) -> dict[str, Any]:
    one = UpdateFeatures.FeatureUpdateKey
    if version >= 1:
        made = [
            one(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in changes
        ]
    else:
        made = [
            one(feature=name, max_version_level=level, allow_downgrade=kind != UPGRADE)
            for name, level, kind in changes
        ]
    broker = fields.pop("broker", None) or FakeBroker()
    return ask(broker, UpdateFeatures(version=version, feature_updates=made, **fields))


def refused(*changes: tuple[str, int, int], version: int = 2) -> str:
    """Why."""
    answer = update(*changes, version=version)
    assert answer["error_code"] == ErrorCode.INVALID_UPDATE_VERSION
    assert answer.get("results", []) == []
    message = answer["error_message"]
    assert message.startswith(FAILED)
    return str(message.removeprefix(FAILED))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_level_that_a_feature_has_is_no_error(version: int) -> None:
    wanted = {**dict.fromkeys(KAFKA, 0), METADATA: 30}
    answer = update(*[(name, level, UPGRADE) for name, level in wanted.items()], version=version)
    assert (answer["error_code"], answer["error_message"]) == (0, None)
    if version < 2:
        assert answer["results"] == [
            {"feature": name, "error_code": 0, "error_message": "NONE"} for name in wanted
        ]
    else:
        assert "results" not in answer
    assert update(version=version)["error_code"] == 0, "nothing is asked for"


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    ("name", "level", "why"),
    [
        (METADATA, 31, "Local controller 1 only supports versions 7-30"),
        (METADATA, 6, "Local controller 1 only supports versions 7-30"),
        ("group.version", 2, "Local controller 1 only supports versions 0-1"),
        ("group.version", -1, "A feature version cannot be less than 0."),
        ("nonsense", -1, "A feature version cannot be less than 0."),
        ("nonsense", 1, "Local controller 1 does not support this feature."),
        ("nonsense", 0, "Feature nonsense not found."),
        ("Metadata.version", 30, "Local controller 1 does not support this feature."),
        (METADATA, 29, WITHOUT_FLAG),
        (METADATA, 7, WITHOUT_FLAG),
        ("group.version", 1, "Local controller 1 does not support this feature."),
        ("transaction.version", 3, "Local controller 1 only supports versions 0-2"),
    ],
)
def test_levels_that_are_refused(name: str, level: int, why: str, version: int) -> None:
    expected = f"Invalid update version {level} for feature {name}. {why}"
    assert refused((name, level, UPGRADE), version=version) == expected


def test_downgrades() -> None:
    begin = f"Unsupported {METADATA} downgrade from 30 to 29. "
    assert refused((METADATA, 29, SAFE)).startswith(begin + "Refusing to perform the requested downgrade")
    assert refused((METADATA, 29, UNSAFE)).startswith(begin + "Unsafe metadata downgrade is not supported")
    assert update((METADATA, 30, SAFE))["error_code"] == 0
    for kind in (SAFE, UNSAFE):
        assert refused(("share.version", 1, kind)).endswith("Can't downgrade to a newer version.")
    assert refused((METADATA, 29, SAFE), version=0).endswith(WITHOUT_FLAG), "as Kafka: it is not looked at"


@pytest.mark.parametrize("kind", [0, 4, -1])
def test_a_kind_of_change_that_there_is_not_is_looked_at_first(kind: int) -> None:
    for name, level in ((METADATA, 30), ("nonsense", -1)):
        assert refused((name, level, kind)).endswith(
            f"{level} for feature {name}. The controller does not support the given upgrade type."
        )


def test_the_first_one_that_is_wrong_is_told_and_the_last_of_equal_names_counts() -> None:
    wrong, right = (METADATA, 99, UPGRADE), ("share.version", 0, UPGRADE)
    assert METADATA in refused(right, wrong, ("nonsense", 1, UPGRADE))
    assert refused(wrong, (METADATA, 98, UPGRADE)).startswith("Invalid update version 98")
    assert update(wrong, (METADATA, 30, UPGRADE))["error_code"] == 0


PREFERRED_LEADERS = "dafka.preferred.leaders"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_level_is_raised_and_lowered(version: int) -> None:
    broker = FakeBroker()
    assert update((PREFERRED_LEADERS, 1, UPGRADE), broker=broker, version=version)["error_code"] == 0
    assert (broker.features.level(PREFERRED_LEADERS), broker.waits_for_stores) == (1, 1)
    if version:
        assert update((PREFERRED_LEADERS, 0, SAFE), broker=broker, version=version)["error_code"] == 0
        assert broker.features.level(PREFERRED_LEADERS) == 0


@pytest.mark.parametrize("version", [1, 2])
def test_a_look_changes_nothing(version: int) -> None:
    broker = FakeBroker()
    change = (PREFERRED_LEADERS, 1, UPGRADE)
    assert update(change, broker=broker, version=version, validate_only=True)["error_code"] == 0
    assert (broker.features.level(PREFERRED_LEADERS), broker.waits_for_stores) == (0, 0)


def test_of_changes_of_which_one_is_wrong_none_is_made() -> None:
    broker = FakeBroker()
    answer = update((PREFERRED_LEADERS, 1, UPGRADE), ("share.version", 1, UPGRADE), broker=broker)
    assert answer["error_code"] == ErrorCode.INVALID_UPDATE_VERSION
    assert broker.features.level(PREFERRED_LEADERS) == 0
