"""Members of a group whose leader says that they read whatever it likes."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any, cast

import trio

from gateway.http.routes.groups import MAX_ASSIGNED, MAX_OWNED, OWNED_STEPS, members_of


class CountedTurns:
    """Counts how often others might have had their turn."""

    def __init__(self) -> None:
        self.breaths = 0

    async def breathe(self) -> None:
        self.breaths += 1


def assignment(count: int) -> bytes:
    """Partitions 0 to `count` - 1 of a topic."""
    name = struct.pack(">h", 1) + b"t"
    return struct.pack(">hi", 0, 1) + name + struct.pack(f">i{count}i", count, *range(count)) + b"\xff" * 4


def looked_at(*members: tuple[str, bytes]) -> tuple[list[dict[str, Any]], dict[tuple[str, int], str], int]:
    """The rows, who reads what, and the breaths."""
    made = [
        SimpleNamespace(
            member_id=name,
            assignment=assigned,
            group_instance_id=None,
            client_id="c",
            client_host="/127.0.0.1",
            session_timeout_ms=1,
        )
        for name, assigned in members
    ]
    roster = SimpleNamespace(members=lambda: made, leader="a")
    group = SimpleNamespace(machine=SimpleNamespace(roster=roster))
    turns = CountedTurns()
    rows, owners = trio.run(members_of, cast("Any", SimpleNamespace(turns=turns)), cast("Any", group))
    return rows, owners, turns.breaths


def test_who_reads_what_is_known_partition_by_partition() -> None:
    rows, owners, _ = looked_at(("a", assignment(3)), ("b", b""), ("c", b"no consumer's"))
    assert owners == {("t", 0): "a", ("t", 1): "a", ("t", 2): "a"}
    assert [(row["member_id"], row["assigned"], row["leader"]) for row in rows] == [
        ("a", 3, True),
        ("b", 0, False),
        ("c", None, False),
    ]


def test_a_huge_assignment_is_taken_in_turns_and_up_to_a_bound() -> None:
    count = 10 * MAX_OWNED
    rows, owners, breaths = looked_at(("a", assignment(count)), ("b", assignment(5)))
    assert len(owners) == MAX_OWNED
    assert breaths >= MAX_OWNED // OWNED_STEPS
    assert [row["assigned"] for row in rows] == [count, 5]
    assert len(rows[0]["assignment"][0]["partitions"]) == MAX_ASSIGNED
