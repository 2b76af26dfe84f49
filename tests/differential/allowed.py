"""Every difference from Apache Kafka 4.3.1 that is meant, with its reason. Short, and each line reviewed.

An entry that nothing needs any more is itself reported: the list can only say what is true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from tests.differential.compare import Difference


def _always(kafka: Any, ours: Any) -> bool:
    return True


def _both_texts(kafka: Any, ours: Any) -> bool:
    """Both sides say something: only the words differ."""
    return isinstance(kafka, str) and isinstance(ours, str) and bool(kafka) and bool(ours)


@dataclass(frozen=True)
class Allowed:
    """A pattern over `case:path` (as in fnmatch), when it applies, and why the difference is right."""

    where: str
    reason: str
    when: Callable[[Any, Any], bool] = _always


ALLOWED: list[Allowed] = [
    Allowed(
        "*:*.error_message", "English for people: null or not is compared, the words are not", _both_texts
    ),
    Allowed("*:*.batch_index_error_message", "English for people, as error_message", _both_texts),
]


def find(difference: Difference) -> Allowed | None:
    """The entry that allows this difference."""
    # '[' opens a character class in fnmatch: patterns are written with '(0)' for '[0]'.
    subject = f"{difference.case}:{difference.path}".replace("[", "(").replace("]", ")")
    for entry in ALLOWED:
        if fnmatchcase(subject, entry.where) and entry.when(difference.kafka, difference.ours):
            return entry
    return None
