"""AlterClientQuotas (key 49), versions 0 and 1: who may use how much (KIP-546).

Behaviour
  Each entity has one result, in the order of the request; what is wrong with one keeps no other from being
  changed. An entity without a name is the default one. A value that is removed need not be there. With
  `validate_only` nothing changes. INVALID_REQUEST: `gateway.quotas.alteration` says when, and an ip that is
  no address and no host that can be found. Without AlterConfigs of the cluster each entity is
  CLUSTER_AUTHORIZATION_FAILED.

Version notes
  v1 is flexible.

Differs from Kafka
  POLICY_VIOLATION for all: more entities than `gateway.cluster.quotas.MAX_ENTITIES`. Names have an end
  (`gateway.quotas.entities.MAX_NAME_BYTES`), and what is no finite number is no quota. An entity that
  names a type twice is INVALID_REQUEST: Kafka takes the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.administration.addresses import addresses_of
from gateway.answers.denied import cluster_denied
from gateway.answers.element_limit import MAX_CHANGED, check_elements
from gateway.answers.encoding import answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.configs.values import quoted
from gateway.quotas.alteration import Alteration, judged
from gateway.quotas.entities import IP, Entity, sorted_pairs
from gateway.security.acls import Operation
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.broker import Broker

_Answer: Any = RESPONSE_CLASSES[ApiKey.ALTER_CLIENT_QUOTAS]
_Error = tuple[ErrorCode, str]


@api(key=ApiKey.ALTER_CLIENT_QUOTAS, name="AlterClientQuotas", min_version=0, max_version=1)
async def alter_client_quotas(request: Request, broker: Broker) -> Response:
    """Change quotas; one result for each entity."""
    entries = request.body.entries
    changes = sum(1 + len(entry.entity) + len(entry.ops) for entry in entries)
    check_elements(changes, "entities and changes of quotas", MAX_CHANGED)
    wanted = await request.work.each(_alteration, entries, ELEMENT)
    entities = [one.entity for one in wanted]
    if denied := cluster_denied(request.access, Operation.ALTER_CONFIGS):
        errors = dict.fromkeys(entities, (denied.code, denied.message))
    else:
        errors = await _alter(broker, wanted, validate_only=request.body.validate_only)
        entities = list(dict.fromkeys(entities))
    results = []
    for entity in entities:
        await request.work.before(ELEMENT)
        results.append(_result(entity, errors.get(entity)))
    return await answer_of(len(results), request, _Answer(throttle_time_ms=0, entries=results))


def _alteration(entry: Any) -> Alteration:
    entity = frozenset((part.entity_type, part.entity_name) for part in entry.entity)
    return Alteration(entity, [(op.key, None if op.remove else op.value) for op in entry.ops])


async def _alter(
    broker: Broker, wanted: Sequence[Alteration], *, validate_only: bool
) -> dict[Entity, _Error]:
    """What is wrong, by entity; everything else is done."""
    accepted, refused = judged(wanted)
    errors = {entity: (ErrorCode.INVALID_REQUEST, why) for entity, why in refused.items()}
    ips = {entity: name for entity in accepted for kind, name in entity if kind == IP and name is not None}
    found = await addresses_of(ips.values())
    for entity, name in ips.items():
        if name not in found:
            del accepted[entity]
            why = f"{quoted(name)} is not a valid IP or resolvable host."
            errors[entity] = ErrorCode.INVALID_REQUEST, why
    if accepted and not validate_only:
        addresses = {entity: found[name] for entity, name in ips.items() if entity in accepted}
        try:
            await broker.alter_quotas(accepted, addresses)
        except KafkaError as error:
            errors.update(dict.fromkeys(accepted, (error.code, error.message)))
        else:
            await broker.remembered()
    return errors


def _result(entity: Entity, error: _Error | None) -> Any:
    made = _Answer.EntryData
    code, message = (ErrorCode.NONE, None) if error is None else error
    parts = [made.EntityData(entity_type=kind, entity_name=name) for kind, name in sorted_pairs(entity)]
    return made(error_code=code, error_message=message, entity=parts)
