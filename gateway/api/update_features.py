"""UpdateFeatures (key 57), versions 0 to 2: levels of what a cluster of Kafka has switched on (KIP-584).

Behaviour
  The features, their levels and the checks are Kafka's (`FeatureControlManager.updateFeatures`). What is
  wrong is INVALID_UPDATE_VERSION for the whole request, in Kafka's words, by the first feature that is wrong.
  The level that a feature has is no error. Any other one is refused even if it is right: what it would switch
  on is not here. A feature that is named more than once counts as it is named last.

Version notes
  v0 says whether a downgrade is allowed, which Kafka does not look at; v1 names the kind of change, and may
  ask for a look only. v0 and v1 have a result for each feature if there is no error, v2 has none.

Differs from Kafka
  All features but metadata.version are at level 0. ApiVersions tells of no feature at all: one that is told
  is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""Kinds of changes (`FeatureUpdate.UpgradeType`)."""

METADATA: Final = "metadata.version"


class Feature(NamedTuple):
    """The lowest and the highest level that Kafka 4.3 has, and the one that is in force here."""

    lowest: int
    highest: int
    level: int


FEATURES: Final = {
    METADATA: Feature(7, 30, 30),
    "kraft.version": Feature(0, 1, 0),
    "transaction.version": Feature(0, 2, 0),
    "group.version": Feature(0, 1, 0),
    "eligible.leader.replicas.version": Feature(0, 1, 0),
    "share.version": Feature(0, 1, 0),
    "streams.version": Feature(0, 1, 0),
}

_Answer: Any = RESPONSE_CLASSES[ApiKey.UPDATE_FEATURES]
_Result: Any = _Answer.UpdatableFeatureResult


@api(key=ApiKey.UPDATE_FEATURES, name="UpdateFeatures", min_version=0, max_version=2)
async def update_features(request: Request, broker: Broker) -> Response:
    """Judge each change; none of them changes anything."""
    updates = request.body.feature_updates
    check_elements(len(updates), "features")
    named_kind = request.header.api_version >= 1
    wanted = {
        one.feature: (one.max_version_level, one.upgrade_type if named_kind else UPGRADE) for one in updates
    }
    error, message, results = ErrorCode.NONE, None, []
    try:
        for name, (level, kind) in wanted.items():
            await request.work.before(ELEMENT)
            _check(broker.node_id, name, level, kind)
            results.append(_Result(feature=name, error_code=ErrorCode.NONE, error_message="NONE"))
    except KafkaError as refused:
        error, results = refused.code, []
        message = (
            "The update failed for all features since the following feature had an error: " + refused.message
        )
    answer = _Answer(throttle_time_ms=0, error_code=error, error_message=message, results=results)
    return await answer_of(len(results), request, answer)


def _check(node_id: int, name: str, level: int, kind: int) -> None:
    """As `FeatureControlManager.updateFeature`. Raises KafkaError."""
    if kind not in {UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE}:
        raise _invalid(name, level, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid(name, level, "A feature version cannot be less than 0.")
    feature = FEATURES.get(name)
    if feature is None:
        missing = f"Feature {name} not found." if level == 0 else _unsupported(node_id)
        raise _invalid(name, level, missing)
    if not feature.lowest <= level <= feature.highest:
        supported = f"only supports versions {feature.lowest}-{feature.highest}"
        raise _invalid(name, level, f"Local controller {node_id} {supported}")
    if level < feature.level:
        _refuse_downgrade(name, level, feature.level, kind)
    if level > feature.level:
        if kind != UPGRADE:
            raise _invalid(name, level, "Can't downgrade to a newer version.")
        raise _invalid(name, level, _unsupported(node_id))


def _refuse_downgrade(name: str, level: int, present: int, kind: int) -> None:
    if kind == UPGRADE:
        raise _invalid(
            name,
            level,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade.",
        )
    raise KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Unsupported {name} downgrade from {present} to {level}. "
        + (
            "Unsafe metadata downgrade is not supported in this version."
            if kind == UNSAFE_DOWNGRADE
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        ),
    )


def _unsupported(node_id: int) -> str:
    return f"Local controller {node_id} does not support this feature."


def _invalid(name: str, level: int, why: str) -> KafkaError:
    message = f"Invalid update version {level} for feature {name}. {why}"
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)
