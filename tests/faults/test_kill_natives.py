"""Native and Kafka producers write one topic over some SIGKILLs, and what the judge finds where there is
something to find.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.differential.batches import Record
from tests.faults.kill_natives import Kills
from tests.faults.native_judge import ADDRESS, REWRITTEN, SEQUENCE, Sent, judge
from tests.faults.native_sender import content_of
from tests.spark.writer import Place, is_at

KINDS = {"gateway", "store", "tower", "native producer", "Kafka producer", "Kafka consumer"}


def native(address: str, number: int, content: bytes | None = None) -> Record:
    headers = ((ADDRESS, address.encode()), (SEQUENCE, b"%d" % number))
    return Record(content_of(address, number) if content is None else content, headers=headers)


def marked(record: Record) -> Record:
    return replace(record, headers=(*record.headers, (REWRITTEN, b"0")))


def kafka(number: int) -> Record:
    return Record(b"kafka %d" % number)


def log(*records: Record) -> list[tuple[int, Record]]:
    return list(enumerate(records))


SENT = Sent({"A": 2, "B": 1}, {b"kafka 0": (0, 1), b"kafka 1": (1, 0)})
RIGHT = {0: log(native("A", 0), kafka(0), native("A", 1)), 1: log(kafka(1), native("B", 0))}


@pytest.mark.parametrize(
    ("stored", "kinds"),
    [
        (RIGHT, []),
        ({**RIGHT, 2: log(native("C", 0), native("C", 1), kafka(9))}, []),  # not acknowledged, and there
        ({**RIGHT, 1: log(kafka(1))}, ["lost"]),
        ({**RIGHT, 0: log(native("A", 0), native("A", 1))}, ["lost"]),
        ({**RIGHT, 1: log(native("B", 0))}, ["lost"]),
        ({**RIGHT, 1: log(native("B", 0), kafka(1))}, ["lost"]),  # not where it was acknowledged
        ({**RIGHT, 1: log(kafka(1), native("B", 0), native("B", 0))}, ["duplicate"]),
        ({**RIGHT, 1: log(kafka(1), native("B", 0), kafka(0))}, ["duplicate", "lost"]),
        ({**RIGHT, 0: log(native("A", 0), kafka(0), native("A", 2))}, ["lost"]),
        ({**RIGHT, 1: log(kafka(1), native("B", 0), native("A", 2))}, ["reordered"]),
        ({**RIGHT, 1: log(kafka(1), native("B", 0, b"another"))}, ["wrong content"]),
        ({**RIGHT, 2: log(native("C", 0, b"c 0 0 0"), native("C", 1, b"c 0 0 1"))}, []),
        ({**RIGHT, 2: log(native("C", 0, b"c 0 0 1"))}, ["wrong content"]),
        ({**RIGHT, 2: log(native("C", 0, b"c 0 0 0"), native("D", 0, b"c 0 0 0"))}, ["duplicate"]),
        ({**RIGHT, 1: log(kafka(1), marked(native("B", 0)))}, ["wrong content"]),
    ],
)
def test_what_is_wrong_is_found(stored: dict[int, list[tuple[int, Record]]], kinds: list[str]) -> None:
    assert [problem.kind for problem in judge(stored, SENT)] == kinds


def test_a_line_of_a_program_in_c_that_is_not_there_is_found() -> None:
    sent = Sent(lines=[b"c 0 0 0", b"c 0 0 1"])
    found = judge({0: log(native("C", 0, b"c 0 0 0"))}, sent)
    assert [(problem.kind, problem.detail) for problem in found] == [
        ("lost", "line b'c 0 0 1' of a program in C")
    ]


@pytest.mark.parametrize(
    ("found", "acked", "is_right"),
    [
        ((0, 5), (0, 5), True),
        ((0, 5), (0, -1001), True),  # it is known to be there, and not where
        ((0, 5), (1, -1001), False),
        ((0, 5), (0, 6), False),
        (None, (0, -1001), False),
    ],
)
def test_where_a_record_was_acknowledged(found: Place | None, acked: Place, is_right: bool) -> None:
    assert is_at(found, acked) == is_right


@pytest.mark.slow
def test_one_of_each_kind_is_killed(tmp_path: Path) -> None:
    kills = Kills(tmp_path, 1)
    assert kills.run(lambda: kills.killed.keys() == KINDS) == []
    assert kills.records["native"] > 0
    assert kills.records["kafka"] > 0
