"""Whether a feature may be given another level, in Kafka's words (`FeatureControlManager.updateFeature`).
Pure.

The order of the checks is Kafka's: the kind of change, what any Kafka of this version could do, what each
gateway that is registered can do, up or down. Ours alone are the last two: a level is not raised while a
gateway starts that has not said yet what it can, nor lowered while something needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from gateway.cluster.feature_levels import (
    LEVELS_BEFORE,
    METADATA,
    ONLY_ZERO,
    FeatureState,
    Supported,
    can_do,
)
from wireproto.kafka.errors import ErrorCode, KafkaError

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""Kinds of changes (`FeatureUpdate.UpgradeType`)."""

KAFKA: Final[Supported] = {
    METADATA: (7, 30),
    "kraft.version": (0, 1),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
}
"""The lowest and the highest level that Kafka 4.3 has of its features. What they switch on is not here: one
that is not among what a gateway can stays at level 0."""


class Update(NamedTuple):
    """A level that a feature shall have."""

    level: int
    kind: int


class Prospect(NamedTuple):
    """How far a feature is, and may go: its level, the one that it can be raised to by what all gateways can
    (that it has, if none), and those that keep it from the highest that this release can.
    """

    level: int
    possible: int
    held_up_by: tuple[int, ...]


def prospects(state: FeatureState, own: Supported) -> dict[str, Prospect]:
    """Of each feature that this release, which can do `own`, knows or the cluster has."""
    found = {}
    for name in sorted({*own, *state.finalized.levels}):
        level = state.finalized.levels.get(name, LEVELS_BEFORE.levels.get(name, 0))
        highest = own.get(name, ONLY_ZERO)[1]
        others = {number: supported.get(name, ONLY_ZERO) for number, supported in state.supported.items()}
        others |= dict.fromkeys(state.starting, ONLY_ZERO)
        held_up_by = tuple(sorted(number for number, (_, most) in others.items() if most < highest))
        possible = min([highest, *(most for _, most in others.values())])
        found[name] = Prospect(level, max(possible, level), held_up_by if highest > level else ())
    return found


def upgrades(state: FeatureState, own: Supported) -> dict[str, Update]:
    """What raises each feature as far as all gateways can."""
    possible = prospects(state, own).items()
    return {name: Update(one.possible, UPGRADE) for name, one in possible if one.possible > one.level}


class FeatureJudge:
    """Judges changes by what there is at one moment."""

    def __init__(self, state: FeatureState, node_id: int, own: Supported) -> None:
        """`own`: what this gateway can, whose id is `node_id`."""
        self._state = state
        self._node_id = node_id
        self._own = own

    def levels(self, updates: Mapping[str, Update]) -> dict[str, int]:
        """The levels that these ask for. Raises KafkaError."""
        for name, update in updates.items():
            self.check(name, update)
        return {name: update.level for name, update in updates.items()}

    def check(self, name: str, update: Update) -> None:
        """Raises KafkaError: INVALID_UPDATE_VERSION."""
        level, kind = update
        if kind not in {UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE}:
            raise invalid(name, level, "The controller does not support the given upgrade type.")
        if level < 0:
            raise invalid(name, level, "A feature version cannot be less than 0.")
        self._check_here(name, level)
        present = self._present(name)
        if level < present:
            self._check_downgrade(name, level, present, kind)
        elif level > present and kind != UPGRADE:
            raise invalid(name, level, "Can't downgrade to a newer version.")
        if level != present:
            self._check_gateways(name, level)

    def changes(self, name: str, update: Update) -> bool:
        """Whether that is another level than the one in effect."""
        return update.level != self._present(name)

    def _present(self, name: str) -> int:
        return self._state.finalized.levels.get(name, LEVELS_BEFORE.levels.get(name, 0))

    def _check_here(self, name: str, level: int) -> None:
        """Whether this gateway can do it, or Kafka could."""
        known = KAFKA.get(name) or self._own.get(name)
        if known is None:
            missing = f"Feature {name} not found." if level == 0 else _unsupported(self._node_id)
            raise invalid(name, level, missing)
        lowest, highest = known
        if not lowest <= level <= highest:
            supported = f"only supports versions {lowest}-{highest}"
            raise invalid(name, level, f"Local controller {self._node_id} {supported}")

    def _check_downgrade(self, name: str, level: int, present: int, kind: int) -> None:
        if kind == UPGRADE:
            raise invalid(
                name,
                level,
                "Can't downgrade the version of this feature without setting the upgrade type to either safe "
                "or unsafe downgrade.",
            )
        if name == METADATA:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Unsupported {name} downgrade from {present} to {level}. "
                + (
                    "Unsafe metadata downgrade is not supported in this version."
                    if kind == UNSAFE_DOWNGRADE
                    else "Refusing to perform the requested downgrade because it might delete metadata "
                    "information."
                ),
            )
        if name in self._state.in_use:
            raise invalid(name, level, f"The feature is in use: {self._state.in_use[name]}.")

    def _check_gateways(self, name: str, level: int) -> None:
        if not can_do(self._own, name, level):
            raise invalid(name, level, _unsupported(self._node_id))
        for number in sorted(self._state.supported.keys() | self._state.starting):
            supported = self._state.supported.get(number, {})
            if number in self._state.starting:
                raise invalid(
                    name,
                    level,
                    f"Broker {number} is starting, or its release does not say which features it can: try it "
                    "again when it serves.",
                )
            if not can_do(supported, name, level):
                raise invalid(name, level, f"Broker {number} {self._cannot(number, name, supported)}")

    def _cannot(self, number: int, name: str, supported: Supported) -> str:
        """As `QuorumFeatures.reasonNotSupported`, and what to do where the gateway is gone."""
        lowest, highest = supported.get(name, ONLY_ZERO)
        why = f"only supports versions {lowest}-{highest}" if highest else "does not support this feature."
        if number in self._state.gone:
            why += f" It is not running: 'dafka gateways remove {number}' has it forgotten."
        return why


def _unsupported(node_id: int) -> str:
    return f"Local controller {node_id} does not support this feature."


def invalid(name: str, level: int, why: str) -> KafkaError:
    message = f"Invalid update version {level} for feature {name}. {why}"
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)
