"""What becomes of changes to quotas that are asked for together
(`ClientQuotaControlManager.alterClientQuotas`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from gateway.quotas.entities import BadQuota, Entity, check_entity, check_value, described

Values: TypeAlias = Mapping[str, float | None]
"""By key; None: this one is to go. That it is not there is no error."""


class Alteration(NamedTuple):
    """What is to be different for an entity: keys and values, as they were given."""

    entity: Entity
    changes: Sequence[tuple[str, float | None]]


def judged(alterations: Sequence[Alteration]) -> tuple[dict[Entity, Values], dict[Entity, str]]:
    """What is to be done, and what is wrong with the rest, by entity. Of an entity that is named twice what
    was asked for first is done, and the answer is an error, as in Kafka.
    """
    accepted: dict[Entity, Values] = {}
    refused: dict[Entity, str] = {}
    for entity, changes in alterations:
        values = dict(changes)
        if entity in accepted or entity in refused:
            refused[entity] = f"Ignoring duplicate entity {described(entity)}"
        elif len(values) < len(changes):
            refused[entity] = f"Duplicate quota key, not updating quota for this entity {described(entity)}"
        else:
            try:
                _check(entity, values)
            except BadQuota as bad:
                refused[entity] = str(bad)
            else:
                accepted[entity] = values
    return accepted, refused


def _check(entity: Entity, values: Values) -> None:
    """Raises BadQuota."""
    check_entity(entity)
    for key, value in values.items():
        if value is not None:
            check_value(entity, key, value)


def altered(before: Mapping[str, float], changes: Values) -> dict[str, float]:
    """The quotas of an entity that had others before."""
    after = {**before, **changes}
    return {key: value for key, value in after.items() if value is not None}
