"""Judges what happened to a mixed group: was every promise kept? Pure, and tested with each promise broken.

What a zombie does is no problem: a member that was stopped may still read and try to commit as an owner of a
generation that is over. That such a commit is kept would be one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mixed_groups import commits, consumption, ownership
from mixed_groups.events import (
    OBSERVER,
    SERVER,
    Assigned,
    Committed,
    Consumed,
    Event,
    Failed,
    LoggedGeneration,
    LoggedOffset,
    Refused,
    Shown,
    StaleCommit,
)
from tests.faults.checker import Problem
from tests.faults.history import Operation


def check(events: Iterable[Event], sent: Iterable[Operation]) -> list[Problem]:
    """Every broken promise, in no particular order; `sent` is what the producers did."""
    all_events, operations = list(events), list(sent)
    failed = [one for one in all_events if isinstance(one, Failed)]
    return [
        *(Problem("the log was not read whole", one.error) for one in failed if one.process == OBSERVER),
        *(Problem("an error in the server's log", one.error) for one in failed if one.process == SERVER),
        *ownership.check(all_events),
        *commits.check(all_events),
        *consumption.check(all_events, operations),
    ]


class Seen(NamedTuple):
    """How much there was to judge."""

    generations: int
    assignments: int
    consumed: int
    committed: int
    refused: int
    stale: int
    offsets_in_log: int
    offsets_shown: int


def seen(events: Iterable[Event]) -> Seen:
    """Of each kind how many."""
    kinds = [type(one) for one in events]
    counted = (
        LoggedGeneration, Assigned, Consumed, Committed, Refused, StaleCommit, LoggedOffset, Shown,
    )  # fmt: skip
    return Seen(*(kinds.count(kind) for kind in counted))
