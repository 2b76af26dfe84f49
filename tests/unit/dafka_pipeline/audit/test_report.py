from __future__ import annotations

import json

from dafka_pipeline.audit.coverage import BEHIND, GONE, LEFT, RIGHT, Absent, NotCompared
from dafka_pipeline.audit.report import FORMAT, as_json, as_text
from dafka_pipeline.audit.verdict import (
    ALTERED,
    DOUBLED_RIGHT,
    MISSING_RIGHT,
    MOVED,
    SWAPPED,
    Compared,
    Difference,
    Place,
    Verdict,
)
from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.ranges import Span

BEYOND = "behind the end that the archive's own commits say, so no archive job put them there"


def verdict() -> Verdict:
    return Verdict(
        left="/archive@7",
        right="host:9092",
        pins={LEFT: {"archive": "/archive", "version": 7}, RIGHT: {"bootstrap": "host:9092"}},
        range_offsets=65_536,
        compared={TopicPartition("orders", 0): Compared(5, 1_000, 995, 995)},
    )


def test_equal() -> None:
    made = verdict()
    assert as_text(made).splitlines() == [
        "EQUAL: 995 records in 1 partition.",
        "  left   /archive@7: 995 records compared",
        "  right  host:9092: 995 records compared",
    ]
    told = as_json(made)
    assert (told["audit"], told["equal"]) == (FORMAT, True)
    assert told["left"] == {"name": "/archive@7", "archive": "/archive", "version": 7}
    assert json.loads(json.dumps(told)) == told


def test_nothing_in_common_is_not_told_as_a_success_of_many() -> None:
    made = verdict()
    made.compared = {}
    assert as_text(made).startswith("EQUAL, and nothing to compare")


def test_what_differs_is_told_first_and_by_kind() -> None:
    made = verdict()
    made.counts = {MISSING_RIGHT: 3, DOUBLED_RIGHT: 1, ALTERED: 1, SWAPPED: 1, MOVED: 1}
    made.named = [
        Difference(MISSING_RIGHT, Place("orders", 0, 7), times=(1, 0), details={"record": "key null"}),
        Difference(DOUBLED_RIGHT, Place("orders", 0, 8), times=(1, 3), details={"record": "key null"}),
        Difference(
            ALTERED, Place("orders", 0, 9), ("key", "value"), details={"key": "1 | 2", "value": "3 | 4"}
        ),
        Difference(SWAPPED, Place("orders", 0, 10), ("value",), other=Place("orders", 0, 12)),
        Difference(
            MOVED, Place("orders", 0, 11), other=Place("orders", 1, 3), details={"record": "key null"}
        ),
    ]
    made.absent = [Absent("clicks", None, RIGHT), Absent("orders", 3, LEFT)]
    made.strays = [(LEFT, TopicPartition("orders", 0), 2)]
    lines = as_text(made).splitlines()
    assert lines[0].startswith(
        "DIFFERENT: 3 missing on the right, 1 there more often on the right, 1 altered"
    )
    assert lines[3:6] == [
        "  clicks is not on the right",
        "  partition orders/3 is not on the left",
        f"  2 records of orders/0 on the left: {BEYOND}",
    ]
    assert lines[6:] == [
        "3 missing on the right:",
        "  orders/0@7: key null",
        "  ... and 2 more (--rows)",
        "1 there more often on the right:",
        "  orders/0@8: 1 times on the left, 3 on the right: key null",
        "1 altered:",
        "  orders/0@9: key 1 | 2; value 3 | 4",
        "1 pairs swapped (each has the other's contents):",
        "  orders/0@10 <-> orders/0@12: value",
        "1 moved (at another place on the right):",
        "  orders/0@11 -> orders/1@3: key null",
    ]
    told = as_json(made)
    assert told["differences"] == {
        "missing_left": 0, "missing_right": 3, "doubled_left": 0, "doubled_right": 1, "altered": 1,
        "swapped": 1, "moved": 1,
    }  # fmt: skip
    assert told["named"][3]["other"] == {"topic": "orders", "partition": 0, "offset": 12}
    assert json.loads(json.dumps(told)) == told


def test_what_is_not_compared_is_told_and_no_difference() -> None:
    made = verdict()
    made.not_compared = [
        NotCompared(Span("orders", 0, 0, 5), LEFT, GONE),
        NotCompared(Span("orders", 0, 1_000, 1_010), RIGHT, BEHIND),
        NotCompared(Span("orders", 1, 0, 10), RIGHT, BEHIND),
    ]
    made.known_gaps = {"erased": 4}
    made.notes = ["something"]
    assert made.equal
    assert as_text(made).splitlines()[3:] == [
        "  not compared: 5 offsets of /archive@7 before host:9092 begins (retention, or never put there)",
        "  not compared: 20 offsets of host:9092 behind the end of /archive@7",
        "  known gaps: 4 records that one side is known not to have (erased)",
        "  note: something",
    ]


def test_compaction_is_named_in_the_verdict() -> None:
    made = verdict()
    made.compacted = {"a later record has the key": 5}
    assert as_text(made).startswith("EQUAL but for compaction: 995 records on the left, 995 on the right.")
