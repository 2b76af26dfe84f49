"""UpdateFeatures (key 57), versions 0 to 2: levels of what a cluster has switched on (KIP-584).

Behaviour
  A level is raised when every gateway can do it that is registered, alive or not, and lowered where nothing
  needs it (`gateway.cluster.features`); it is in effect on all gateways a moment later. The checks and their
  words are Kafka's (`gateway.administration.feature_updates`): what is wrong is INVALID_UPDATE_VERSION for
  the whole request, by the first feature that is wrong. The level that a feature has is no error. A feature
  that is named more than once counts as it is named last. It takes ALTER on the cluster.

Version notes
  v0 says whether a downgrade is allowed, which Kafka does not look at; v1 names the kind of change, and may
  ask for a look only. v0 and v1 have a result for each feature if there is no error, v2 has none.

Differs from Kafka
  Kafka's own features stay as they are: metadata.version at 30, and all others at 0. Ours begin with
  `dafka.`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.administration.feature_updates import UPGRADE, FeatureJudge, Update
from gateway.answers.denied import cluster_denied
from gateway.answers.element_limit import MAX_CHANGED, check_elements
from gateway.answers.encoding import answer, answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import Operation
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.cluster.feature_levels import FeatureState

_Answer: Any = RESPONSE_CLASSES[ApiKey.UPDATE_FEATURES]
_Result: Any = _Answer.UpdatableFeatureResult


@api(key=ApiKey.UPDATE_FEATURES, name="UpdateFeatures", min_version=0, max_version=2)
async def update_features(request: Request, broker: Broker) -> Response:
    """Make all changes, or none."""
    updates = request.body.feature_updates
    check_elements(len(updates), "features", MAX_CHANGED)
    if denied := cluster_denied(request.access, Operation.ALTER):
        return answer(request, _answer(denied.code, denied.message, []))
    named_kind = request.header.api_version >= 1
    wanted = {
        one.feature: Update(one.max_version_level, one.upgrade_type if named_kind else UPGRADE)
        for one in updates
    }
    error, message, results = ErrorCode.NONE, None, []
    try:
        changed = await _check(request, broker, wanted)
        if changed and not (named_kind and request.body.validate_only):
            await _change(broker, changed)
        results = [_Result(feature=name, error_code=ErrorCode.NONE, error_message="NONE") for name in wanted]
    except KafkaError as refused:
        error = refused.code
        message = (
            "The update failed for all features since the following feature had an error: " + refused.message
        )
    return await answer_of(len(results), request, _answer(error, message, results))


def _answer(error: ErrorCode, message: str | None, results: list[Any]) -> Any:
    return _Answer(throttle_time_ms=0, error_code=error, error_message=message, results=results)


async def _check(request: Request, broker: Broker, wanted: dict[str, Update]) -> dict[str, Update]:
    """Those that would change something. Raises KafkaError."""
    features = broker.features
    judge = FeatureJudge(features.state(), broker.node_id, features.supported)
    for name, update in wanted.items():
        await request.work.before(ELEMENT)
        judge.check(name, update)
    return {name: update for name, update in wanted.items() if judge.changes(name, update)}


async def _change(broker: Broker, wanted: dict[str, Update]) -> None:
    """Judged once more by what there is in that very moment. Raises KafkaError; then nothing was changed."""

    def decide(state: FeatureState) -> dict[str, int]:
        return FeatureJudge(state, broker.node_id, broker.features.supported).levels(wanted)

    await broker.change_features(decide)
    await broker.remembered()
