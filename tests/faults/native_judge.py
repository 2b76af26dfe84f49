"""What is wrong with a topic that native and Kafka producers have written together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.differential.batches import Record
from tests.faults.c_programs import PREFIX
from tests.faults.checker import Problem
from tests.faults.native_sender import content_of
from tests.spark.writer import Place, is_at

ADDRESS, SEQUENCE, REWRITTEN = "dafka.address", "dafka.sequence", "dafka.rewritten"


@dataclass
class Sent:
    """What was acknowledged."""

    native: dict[str, int] = field(default_factory=dict)
    """Address -> how many of its records, from 0 on."""
    kafka: dict[bytes, Place] = field(default_factory=dict)
    """Value -> where it is."""
    lines: list[bytes] = field(default_factory=list)
    """Of programs in C that were not killed."""


def judge(stored: Mapping[int, Iterable[tuple[int, Record]]], sent: Sent) -> list[Problem]:
    """By partition all (offset, record) of the topic: each acknowledged record once, those of an address in
    order, without a gap, in one partition. What was not acknowledged may be there, or not.
    """
    problems: list[Problem] = []
    next_of: dict[str, int] = {}
    partition_of: dict[str, int] = {}
    places: dict[bytes, Place] = {}
    for partition, pairs in stored.items():
        for offset, record in pairs:
            value = record.value or b""
            headers = dict(record.headers)
            if ADDRESS not in headers:
                if value in places:
                    problems.append(Problem("duplicate", f"{value!r} at {places[value]} and {offset}"))
                places[value] = partition, offset
                continue
            address = (headers[ADDRESS] or b"").decode()
            number = int(headers[SEQUENCE] or b"-1")
            problems += _out_of_turn(address, number, next_of.get(address, 0))
            next_of[address] = max(next_of.get(address, 0), number + 1)
            if REWRITTEN in headers:  # these producers never send another content
                problems.append(Problem("wrong content", f"record {number} of {address} is marked"))
            if partition_of.setdefault(address, partition) != partition:
                problems.append(Problem("reordered", f"{address} is in several partitions"))
            if value != content_of(address, number) and not _is_line(value, number):
                problems.append(Problem("wrong content", f"record {number} of {address} is {value!r}"))
    for address, count in sent.native.items():
        if next_of.get(address, 0) < count:
            problems.append(
                Problem("lost", f"{address} has {next_of.get(address, 0)} of {count} acknowledged records")
            )
    problems += _lines(stored, sent.lines)
    for value, place in sent.kafka.items():
        if not is_at(places.get(value), place):
            problems.append(
                Problem("lost", f"{value!r} was acknowledged at {place}, is at {places.get(value)}")
            )
    return problems


def _lines(stored: Mapping[int, Iterable[tuple[int, Record]]], sent: Iterable[bytes]) -> list[Problem]:
    """What is wrong with the lines of programs in C: each once, and these are there."""
    values = (record.value or b"" for pairs in stored.values() for _, record in pairs)
    found = Counter(value for value in values if value.startswith(PREFIX))
    twice = [line for line, count in found.items() if count > 1]
    return [
        *(Problem("duplicate", f"line {line!r} of a program in C") for line in twice),
        *(Problem("lost", f"line {line!r} of a program in C") for line in sorted(set(sent) - set(found))[:5]),
    ]


def _is_line(value: bytes, number: int) -> bool:
    """Whether a program in C has published this as its record of that number (`c_programs`)."""
    return value.startswith(PREFIX) and value.endswith(b" %d" % number)


def _out_of_turn(address: str, number: int, expected: int) -> list[Problem]:
    if number == expected:
        return []
    kind = "duplicate" if number < expected else "lost"
    return [Problem(kind, f"record {number} of {address} comes where {expected} should")]
