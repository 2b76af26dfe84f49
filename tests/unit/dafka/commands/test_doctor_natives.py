"""What `dafka doctor --data` says of native records."""

from pathlib import Path
from typing import Any

import pytest

from dafka.commands.doctor_checks import Verdict
from dafka.commands.doctor_natives import findings_of, look_at_natives

NOTHING = {"native": [], "published": [], "left_out": [], "known": 0, "most": 100}
READINGS = {
    "topic": "readings",
    "subject": "heat",
    "addresses": 2,
    "unknown": 0,
    "lag": 0,
    "lost": 0,
    "refused": 0,
    "rewritten": 0,
}


def said(**seen: Any) -> list[tuple[Verdict, str, str, bool]]:
    found = list(findings_of(NOTHING | seen))
    return [(one.verdict, one.question, one.text, bool(one.next_step)) for one in found]


def test_where_there_are_no_native_records_nothing_is_said() -> None:
    assert said() == []


def test_what_comes_and_goes_is_good() -> None:
    published = {"topic": "prices", "subject": "prices.values", "partitions": 1, "offsets": 5}
    assert said(native=[READINGS], published=[published]) == [
        (
            Verdict.OK,
            "native subject heat",
            "topic readings has it from 2 addresses, with 0 records to come where this gateway leads",
            False,
        ),
        (
            Verdict.OK,
            "native subject prices.values",
            "the values of topic prices, 1 partition that this gateway leads",
            False,
        ),
    ]


@pytest.mark.parametrize(
    ("trouble", "text"),
    [
        ({"addresses": 0}, "topic readings has nothing of it: no store has told of a producer"),
        ({"addresses": 0, "unknown": 3}, "3 addresses still to come into topic readings"),
        ({"lost": 1}, "1 record did not come into topic readings: no store had them any more"),
        (
            {"refused": 2},
            "2 records did not come into topic readings: they are larger than its batches may be",
        ),
        (
            {"rewritten": 1},
            "1 address had two contents of one record; topic readings has the first that came",
        ),
    ],
)
def test_what_does_not_come_has_a_next_step(trouble: dict[str, int], text: str) -> None:
    assert said(native=[READINGS | trouble]) == [(Verdict.NOTE, "native subject heat", text, True)]


def test_a_topic_that_is_left_out_is_named_with_the_reason() -> None:
    left_out = {"topic": "more", "subject": "cold", "why": "16 topics take up a subject, and no more may"}
    assert said(left_out=[left_out]) == [
        (
            Verdict.NOTE,
            "native subject cold",
            "topic more is left out: 16 topics take up a subject, and no more may",
            False,
        )
    ]


@pytest.mark.parametrize(("known", "findings"), [(89, 0), (90, 1), (100, 1)])
def test_addresses_that_run_out_are_told_before(known: int, findings: int) -> None:
    assert len(said(known=known)) == findings


def test_where_no_gateway_runs_it_is_said(tmp_path: Path) -> None:
    (found,) = look_at_natives(tmp_path)
    assert found.verdict is Verdict.NOTE
    assert str(tmp_path) in found.text
