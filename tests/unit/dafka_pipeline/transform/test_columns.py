"""Which columns of a function's result become a record."""

from __future__ import annotations

import pytest

from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.transform.columns import HEADERS, taken_columns

SOURCE = {
    "topic": "string", "partition": "int", "offset": "bigint", "timestamp": "timestamp",
    "timestamp_type": "int", "key": "binary", "value": "binary", "headers": HEADERS,
}  # fmt: skip


def taken(result: dict[str, str], *, several: bool = False) -> set[str]:
    return set(taken_columns(result, "jobs:fn", several_targets=several))


def test_what_passes_through_does_not_say_where_it_goes() -> None:
    assert taken(SOURCE) == {"timestamp", "key", "value", "headers"}


def test_a_result_of_its_own_does() -> None:
    own = {"value": "string", "partition": "int", "topic": "string", "more": "map<string,int>"}
    assert taken(own) == {"value", "partition"}
    assert taken(own, several=True) == {"value", "partition", "topic"}


@pytest.mark.parametrize(
    ("result", "several", "named"),
    [
        ({"key": "string"}, False, "'value' is not among them"),
        ({}, False, "(none)"),
        ({"value": "struct<a:int>"}, False, "to_json"),
        ({"value": "binary", "key": "bigint"}, False, "'key' of type bigint"),
        ({"value": "binary", "partition": "bigint"}, False, "cast('int')"),
        ({"value": "binary", "timestamp": "bigint"}, False, "cast('timestamp')"),
        ({"value": "binary", "headers": "map<string,binary>"}, False, HEADERS),
        ({"value": "binary"}, True, "no column 'topic'"),
        (SOURCE, True, "drop 'offset'"),
    ],
)
def test_what_no_record_can_have(result: dict[str, str], several: bool, named: str) -> None:
    with pytest.raises(UsageFailure) as failure:
        taken(result, several=several)
    assert named in str(failure.value)
    assert "jobs:fn" in str(failure.value)
