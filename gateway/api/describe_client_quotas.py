"""DescribeClientQuotas (key 48), versions 0 and 1: who may use how much (KIP-546).

The filter is judged as Kafka judges it (`ClientQuotasImage.describe`): an empty or repeated entity type, a
match that does not fit its type, or an ip beside a user or client id is INVALID_REQUEST; an entity type that
Kafka does not know is UNSUPPORTED_VERSION. It takes DESCRIBE_CONFIGS on the cluster. v1 is flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.answers.denied import cluster_denied
from gateway.answers.encoding import answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.configs.values import quoted
from gateway.quotas.entities import CLIENT_ID, IP, USER, Entity, sorted_pairs
from gateway.quotas.filters import Filter, Whichever, fits
from gateway.security.acls import Operation
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway.broker import Broker

EXACT, DEFAULT, SPECIFIED = range(3)
"""Kinds of matches: by name, the default entity, any entity with a name."""

_MATCHES: Final = {
    EXACT: ("MATCH_TYPE_EXACT, but set match string to null.", False),
    DEFAULT: ("MATCH_TYPE_DEFAULT, but also specified a match string.", True),
    SPECIFIED: ("MATCH_TYPE_SPECIFIED, but also specified a match string.", True),
}
"""What is wrong with a match, and whether it must be null."""

_Answer: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_CLIENT_QUOTAS]


@api(key=ApiKey.DESCRIBE_CLIENT_QUOTAS, name="DescribeClientQuotas", min_version=0, max_version=1)
async def describe_client_quotas(request: Request, broker: Broker) -> Response:
    """Those that the question is about, by entity."""
    error, message = ErrorCode.NONE, ""
    entries: list[Any] | None = []
    try:
        if denied := cluster_denied(request.access, Operation.DESCRIBE_CONFIGS):
            raise denied
        asked = _filter(request.body.components)
    except KafkaError as refused:
        error, message, entries = refused.code, refused.message, None
    else:
        strict = request.body.strict
        entries = []
        for entity, quotas in broker.quotas.all():
            await request.work.before(ELEMENT)
            if fits(entity, asked, strict=strict):
                entries.append(_entry(entity, quotas))
    whole = _Answer(throttle_time_ms=0, error_code=error, error_message=message, entries=entries)
    return await answer_of(len(entries or ()), request, whole)


def _entry(entity: Entity, quotas: Mapping[str, float]) -> Any:
    made = _Answer.EntryData
    parts = [made.EntityData(entity_type=kind, entity_name=name) for kind, name in sorted_pairs(entity)]
    values = [made.ValueData(key=key, value=value) for key, value in sorted(quotas.items())]
    return made(entity=parts, values=values)


def _filter(components: Sequence[Any]) -> Filter:
    """What is asked for. Raises KafkaError."""
    seen: dict[str, str | Whichever | None] = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in seen:
            raise _invalid(f"Entity type {quoted(kind)} cannot appear more than once in the filter.")
        if kind not in {USER, CLIENT_ID, IP}:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {quoted(kind)}")
        if component.match_type not in _MATCHES:
            raise _invalid(f"Unknown match type {component.match_type}")
        wrong, must_be_null = _MATCHES[component.match_type]
        if (component.match is None) is not must_be_null:
            raise _invalid(f"Request specified {wrong}")
        seen[kind] = Whichever.NAME if component.match_type == SPECIFIED else component.match
    if IP in seen and seen.keys() & {USER, CLIENT_ID}:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component."
        )
    return seen


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
