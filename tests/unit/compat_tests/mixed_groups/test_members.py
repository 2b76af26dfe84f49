"""What the lines of mixed groups' members say."""

from __future__ import annotations

import pytest
from mixed_groups.events import Assigned, Committed, Committing, Consumed, Event, Failed, Refused, Revoked
from mixed_groups.members import said

LINES: dict[str, Event | None] = {
    '{"event": "assigned", "generation": 3, "member": "m", "partitions": [2, 0]}': Assigned(
        "x", 3, "m", (0, 2)
    ),
    '{"event": "revoked", "partitions": [1]}': Revoked("x", (1,)),
    '{"event": "lost", "partitions": []}': Revoked("x", (), lost=True),
    '{"event": "consumed", "generation": 3, "partition": 1, "offset": 7, "value": "v"}': Consumed(
        "x", 3, 1, 7, "v"
    ),
    '{"event": "committing", "number": 1, "generation": 3, "member": "m", "offsets": [[1, 8]]}': Committing(
        "x", 1, 3, "m", ((1, 8),)
    ),
    '{"event": "committed", "number": 1}': Committed("x", 1),
    '{"event": "refused", "number": 1, "error": "no"}': Refused("x", 1, "no"),
    '{"event": "failed", "error": "no"}': Failed("x", "no"),
    '{"event": "left", "generation": 3}': None,
    "Exception in thread": Failed("x", "says 'Exception in thread\\n'"),
}


@pytest.mark.parametrize("line", LINES)
def test_what_members_say(line: str) -> None:
    assert said("x", line + "\n") == LINES[line]


def test_a_line_cut_short_by_a_kill_says_nothing() -> None:
    assert said("x", '{"event": "comm') is None
