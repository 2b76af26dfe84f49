"""What a transform's function gets and what it may give back, by column. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dafka_pipeline.failures import UsageFailure

TEXT: Final = ("binary", "string")
HEADERS: Final = "array<struct<key:string,value:binary>>"
ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {
    "value": TEXT,
    "key": TEXT,
    "headers": (HEADERS,),
    "partition": ("int",),
    "topic": ("string",),
    "timestamp": ("timestamp",),
}
"""The columns of a result that become a record, and the types that each may have, as
`dataType.simpleString()`."""
SOURCE_ONLY: Final = "offset"
"""A result that still has this column passes the source's columns through: its `topic` and `partition` then
say where a record came from, not where it goes."""

_CAST: Final = {
    "partition": "cast it: col('partition').cast('int')",
    "timestamp": "cast it: col('timestamp').cast('timestamp')",
    "topic": "cast it: col('topic').cast('string')",
    "headers": f"its type must be {HEADERS}",
}


def taken_columns(result: Mapping[str, str], function: str, *, several_targets: bool) -> dict[str, str]:
    """Which columns of a function's result are written, with their types.

    result: name -> type, as `dataType.simpleString()` says it.
    function: as the user named it, for messages.
    several_targets: whether each record must say its topic.
    Raises UsageFailure for a result without `value`, or with a column of a type that no record can have.
    """
    if "value" not in result:
        raise UsageFailure(
            f"{function} gives back the columns {', '.join(result) or '(none)'}, and 'value' is not among "
            "them: it is "
            "what becomes a record's value. Rename a column (withColumnRenamed), or make one of all: "
            "select(to_json(struct('*')).alias('value'))."
        )
    passed_through = SOURCE_ONLY in result
    taken = {}
    for name, types in ALLOWED.items():
        if name not in result or (passed_through and name in {"partition", "topic"}):
            continue
        if name == "topic" and not several_targets:
            continue
        if result[name] not in types:
            raise UsageFailure(
                f"{function} gives back a column '{name}' of type {result[name]}, and a record's {name} is "
                f"{' or '.join(types)}: {_CAST.get(name, _how_to_text(name))}."
            )
        taken[name] = result[name]
    if several_targets and "topic" not in taken:
        raise UsageFailure(
            f"--to names several topics, and {function} gives back no column 'topic' (string) that says "
            "into which of "
            "them a record goes. (A result that still has the source's 'offset' passes its 'topic' "
            "through: drop "
            "'offset', or name the target in 'topic' and drop 'offset'.)"
        )
    return taken


def _how_to_text(name: str) -> str:
    return f"cast it, or write it as JSON: to_json(struct('*')).alias('{name}')"
