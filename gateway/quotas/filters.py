"""Which entities a question is about (DescribeClientQuotas; `ClientQuotasImage.matches`)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeAlias

from gateway.quotas.entities import Entity


class Whichever(Enum):
    """Whatever name an entity has, or the default."""

    NAME = "any name"


Filter: TypeAlias = Mapping[str, str | Whichever | None]
"""By type: a name, None for the default, or any."""


def fits(entity: Entity, asked: Filter, *, strict: bool) -> bool:
    """Whether an entity has all that is asked for; with `strict` nothing else, too."""
    parts = dict(entity)
    if strict and len(parts) != len(asked):
        return False
    return all(
        kind in parts and (name is Whichever.NAME or parts[kind] == name) for kind, name in asked.items()
    )
