"""UpdateFeatures 0-2: levels that there are and are not, and downgrades. Nothing is changed."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import UpdateFeaturesRequest

from tests.differential.case import case
from tests.differential.side import Side

METADATA = "metadata.version"
FEATURES = (
    METADATA,
    "kraft.version",
    "transaction.version",
    "group.version",
    "eligible.leader.replicas.version",
    "share.version",
    "streams.version",
)
UPGRADE, SAFE, UNSAFE = 1, 2, 3


def request(version: int, *updates: tuple[str, int, int], **fields: Any) -> Any:
    """Only validated, from version 1 on."""
    one = UpdateFeaturesRequest.FeatureUpdateKey
    if version >= 1:
        fields.setdefault("validate_only", True)
        made = [one(feature=name, max_version_level=to, upgrade_type=kind) for name, to, kind in updates]
    else:
        made = [
            one(feature=name, max_version_level=to, allow_downgrade=kind != UPGRADE)
            for name, to, kind in updates
        ]
    return UpdateFeaturesRequest(version=version, timeout_ms=10_000, feature_updates=made, **fields)


@case(UpdateFeaturesRequest)
def levels_that_are_not_there(side: Side, version: int) -> None:
    for name in (*FEATURES, "nonsense", "", "Metadata.version"):
        for level in (-1, 99, 32_767, -32_768):
            for kind in (UPGRADE, SAFE):
                side.ask(request(version, (name, level, kind)), f"{name} {level} type {kind}")
    side.ask(request(version, ("nonsense", 1, UPGRADE)), "unknown")


@case(UpdateFeaturesRequest)
def downgrades_without_a_flag(side: Side, version: int) -> None:
    for level in range(1, 30):
        side.ask(request(version, (METADATA, level, UPGRADE)), f"to {level}")


@case(UpdateFeaturesRequest)
def downgrades(side: Side, version: int) -> None:
    """And to the level that it has, which is no change in version 0 either."""
    for level in range(1, 31):
        for kind in (SAFE, UNSAFE):
            side.ask(request(version, (METADATA, level, kind)), f"to {level} type {kind}")


@case(UpdateFeaturesRequest, [1, 2])
def levels(side: Side, version: int) -> None:
    for name in (*FEATURES[1:], "nonsense"):
        for level in (0, 1, 2, 3):
            for kind in (UPGRADE, SAFE, UNSAFE):
                side.ask(request(version, (name, level, kind)), f"{name} {level} type {kind}")


@case(UpdateFeaturesRequest, [1, 2])
def kinds(side: Side, version: int) -> None:
    for kind in (0, 4, -1, 127):
        side.ask(request(version, (METADATA, 20, kind)), f"type {kind}")
        side.ask(request(version, ("nonsense", 99, kind)), f"unknown, type {kind}")


@case(UpdateFeaturesRequest)
def several(side: Side, version: int) -> None:
    side.ask(request(version), "nothing")
    side.ask(request(version, (METADATA, 99, UPGRADE), ("nonsense", 9, UPGRADE)), "two wrong")
    side.ask(request(version, (METADATA, 99, UPGRADE), (METADATA, 98, UPGRADE)), "twice")
    side.ask(request(version, ("share.version", 0, SAFE), ("group.version", 99, UPGRADE)), "the second wrong")


@case(UpdateFeaturesRequest, [1, 2])
def no_time(side: Side, version: int) -> None:
    wanted = request(version, (METADATA, 99, UPGRADE))
    wanted.timeout_ms = -1
    side.ask(wanted)
