"""Field-by-field differences of two normalised transcripts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    """Where two answers differ. `path` starts with the exchange's label, as `first.topics[0].error_code`."""

    api_key: int
    case: str
    version: int
    path: str
    kafka: Any
    ours: Any

    def __str__(self) -> str:
        return (
            f"{self.case}-v{self.version} {self.path}: kafka {_short(self.kafka)}, ours {_short(self.ours)}"
        )


def _short(value: Any, limit: int = 400) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "..."


def differences(kafka: Any, ours: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(path, Kafka's value, our value) of every leaf that differs; lists of unlike length item by item."""
    if isinstance(kafka, dict) and isinstance(ours, dict):
        for name in [*kafka, *(n for n in ours if n not in kafka)]:
            inner = f"{path}.{name}" if path else name
            yield from differences(kafka.get(name, ABSENT), ours.get(name, ABSENT), inner)
    elif isinstance(kafka, list) and isinstance(ours, list):
        yield from _list_differences(kafka, ours, path)
    elif kafka != ours or type(kafka) is not type(ours):
        yield path, kafka, ours


def _list_differences(kafka: list[Any], ours: list[Any], path: str) -> Iterator[tuple[str, Any, Any]]:
    """Items that have a name or a number are matched by it, so that one missing item is one difference."""
    ours_by_name = {_identity(item): item for item in ours}
    kafka_names = [_identity(item) for item in kafka]
    named = None not in ours_by_name and None not in kafka_names
    if named and len(ours_by_name) == len(ours) and len(set(kafka_names)) == len(kafka):
        for name, item in zip(kafka_names, kafka, strict=True):
            yield from differences(item, ours_by_name.pop(name, ABSENT), f"{path}[{name}]")
        for name, item in ours_by_name.items():
            yield f"{path}[{name}]", ABSENT, item
        return
    for n in range(max(len(kafka), len(ours))):
        left = kafka[n] if n < len(kafka) else ABSENT
        right = ours[n] if n < len(ours) else ABSENT
        yield from differences(left, right, f"{path}[{n}]")


def _identity(item: Any) -> Any:
    if isinstance(item, dict):
        for key in ("name", "api_key"):
            if item.get(key) is not None:
                return item[key]
    return None
