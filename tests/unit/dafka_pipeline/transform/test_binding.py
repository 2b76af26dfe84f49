"""Whether a checkpoint fits what is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dafka_pipeline.failures import Refused
from dafka_pipeline.transform.binding import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    Binding,
    differences,
    parse_binding,
    refuse_differences,
    refuse_other_query,
)

KEPT = Binding(
    id="1",
    sources={"a": "id-a", "b": "id-b"},
    targets={"t": "id-t"},
    partitions={"t": 2},
    function="jobs:fn",
    delivery=AT_LEAST_ONCE,
    output_mode="append",
    query="q",
)


def test_it_is_read_as_it_was_written() -> None:
    assert parse_binding(KEPT.to_json(), "DIR") == KEPT


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"dafka_archive": 1}', '{"dafka_transform": 1, "x": 2}'])
def test_another_kind_of_job(text: str) -> None:
    with pytest.raises(Refused, match="belongs to something else"):
        parse_binding(text, "DIR")


def test_a_later_format() -> None:
    with pytest.raises(Refused, match="format 99"):
        parse_binding('{"dafka_transform": 99}', "DIR")


def test_the_same_fits_although_its_id_is_new_and_its_query_not_known() -> None:
    assert differences(KEPT, replace(KEPT, id="2", query="")) == []


def test_a_server_without_ids_of_topics_shows_no_difference() -> None:
    assert differences(KEPT, replace(KEPT, sources={"a": None, "b": None}, targets={"t": None})) == []


CHANGES: list[tuple[str, dict[str, Any], bool, bool, str]] = [
    # what is changed, accepted at least once, accepted exactly once, what is said
    ("function", {"function": "jobs:other"}, True, True, "jobs:other"),
    ("output mode", {"output_mode": "update"}, False, False, "update"),
    ("sources", {"sources": {"a": "id-a"}}, False, False, "a was asked"),
    ("source again", {"sources": {"a": "new", "b": "id-b"}}, False, False, "made again"),
    ("target", {"targets": {"u": "id-u"}, "partitions": {"u": 2}}, True, False, "u was asked"),
    ("target again", {"targets": {"t": "new"}}, True, False, "made again"),
    ("moved outbox", {"outbox": "/elsewhere"}, True, True, "/elsewhere"),
]


@pytest.mark.parametrize("exactly", [False, True])
@pytest.mark.parametrize("change", CHANGES, ids=[change[0] for change in CHANGES])
def test_a_change(change: tuple[str, dict[str, Any], bool, bool, str], exactly: bool) -> None:
    _, fields, at_least, exact, said = change
    kept = replace(KEPT, delivery=EXACTLY_ONCE if exactly else AT_LEAST_ONCE)
    found = differences(kept, replace(kept, **fields))
    acceptable = exact if exactly else at_least
    assert len(found) == 1
    assert said in found[0].text
    with pytest.raises(Refused) as refused:
        refuse_differences(found, "DIR", accepted=False)
    assert ("--accept-change" in str(refused.value)) == acceptable
    if acceptable:
        assert refuse_differences(found, "DIR", accepted=True) == [found[0].text]
    else:
        with pytest.raises(Refused, match="new --checkpoint"):
            refuse_differences(found, "DIR", accepted=True)


def test_more_partitions_matter_only_where_rows_are_placed_by_us() -> None:
    grown: dict[str, Any] = {"partitions": {"t": 3}}
    assert differences(KEPT, replace(KEPT, **grown)) == []
    exact = replace(KEPT, delivery=EXACTLY_ONCE)
    assert [one.acceptable for one in differences(exact, replace(exact, **grown))] == [False]


@pytest.mark.parametrize("query", ["", "another"])
def test_another_query(query: str) -> None:
    with pytest.raises(Refused, match="gone" if not query else "another"):
        refuse_other_query(KEPT, query, "DIR")
    refuse_other_query(replace(KEPT, query=""), query, "DIR")
