"""What there is of features and their levels: what a release can do, and what a catalog demands. Pure.

As Kafka's features (KIP-584): a **feature** is something that gateways of older releases cannot do, or would
take for damage; its **level** says what of it is in effect in a whole cluster. A release can do some levels
of each (`supported`), the catalog says which ones are in effect (the **finalized** ones). So gateways of two
releases work side by side, as if all were of the older one, until an administrator raises a level; from then
on the older release takes no part.

Of Kafka's own features `metadata.version` is at one level here, and stays there; `transaction.version` is
above 0 where there are transactions. Ours begin with `dafka.`. Level 0 is: as before there was the feature.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from gateway.leadership.records import MAX_LEVEL, FinalizedFeatures, GatewayRecord

METADATA: Final = "metadata.version"

PREFERRED_LEADERS: Final = "dafka.preferred.leaders"
"""Gateways that administrators want to lead certain partitions (`gateway.cluster.preferred_leaders`): who
does not know of them gives a slot away again."""

TRANSACTION_VERSION: Final = "transaction.version"
"""Kafka's. 0: there are no transactions here, since gateways of older releases know nothing of markers, nor
of what is open or aborted; 1: producers keep their epochs from one transaction to the next; 2: those whose
clients look at the level have another epoch in each (KIP-890)."""

Supported: TypeAlias = Mapping[str, tuple[int, int]]
"""Feature -> the lowest and the highest level that a gateway can do. One that is not there: only 0."""

OF_THIS_RELEASE: Final[Supported] = {
    METADATA: (30, 30),
    PREFERRED_LEADERS: (0, 1),
    TRANSACTION_VERSION: (0, 2),
}

OF_RELEASES_BEFORE: Final[Supported] = {METADATA: (30, 30)}
"""Of those that do not say what they can."""

LEVELS_BEFORE: Final = FinalizedFeatures(0, {METADATA: 30})
"""Of a catalog from before it had levels."""

ONLY_ZERO: Final = (0, 0)

_RANGE: Final = re.compile(r"([a-z][a-z0-9._-]{0,99}):([0-9]{1,5})-([0-9]{1,5})")


class FeatureState(NamedTuple):
    """What a change of levels is decided by.

    supported: what each gateway can that is registered, by id. starting: those of them that are alive and
    have not said it in this life. gone: those that are not alive. in_use: what needs a feature, for people.
    """

    finalized: FinalizedFeatures
    supported: Mapping[int, Supported]
    starting: frozenset[int] = frozenset()
    gone: frozenset[int] = frozenset()
    in_use: Mapping[str, str] = {}


def supported_by(record: GatewayRecord) -> Supported:
    """What a gateway can, as it says itself."""
    return record.features or OF_RELEASES_BEFORE


def highest_levels(supported: Supported, release: str) -> FinalizedFeatures:
    """Those that a new cluster begins with: all that its first gateway can."""
    return FinalizedFeatures(1, {name: highest for name, (_, highest) in supported.items()}, release)


def can_do(supported: Supported, feature: str, level: int) -> bool:
    lowest, highest = supported.get(feature, ONLY_ZERO)
    return lowest <= level <= highest


def are_as_before(levels: Mapping[str, int]) -> bool:
    """Whether a release from before there were levels can do all of these."""
    return all(can_do(OF_RELEASES_BEFORE, name, level) for name, level in levels.items())


def lacking(supported: Supported, finalized: FinalizedFeatures) -> str:
    """Why a gateway cannot take part: the first feature that it cannot do, "" if it can do all."""
    for name, level in sorted(finalized.levels.items()):
        if not can_do(supported, name, level):
            can = "does not know it"
            if name in supported:
                can = "can do it at levels {} to {}".format(*supported[name])
            return f"feature {name} is at level {level}, and this release {can}"
    return ""


def levels_of_text(text: str) -> dict[str, tuple[int, int]]:
    """What another release can: `name:lowest-highest`, separated by commas. Raises ValueError."""
    found: dict[str, tuple[int, int]] = {}
    for one in filter(None, text.split(",")):
        match = _RANGE.fullmatch(one)
        if match is None or not int(match[2]) <= int(match[3]) <= MAX_LEVEL:
            raise ValueError(f"{one!r} is no feature with its lowest and highest level (name:0-1)")
        found[match[1]] = int(match[2]), int(match[3])
    return found
