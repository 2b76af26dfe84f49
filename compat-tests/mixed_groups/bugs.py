"""Bugs that are planted into the server from outside, to see whether the checker notices; the product has no
switch for them. `python -m mixed_groups.bugs NAME ...` is `dafka ...` with one of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import trio

from gateway.groups.group_state import GroupData
from gateway.groups.journal import Journal
from gateway.groups.metadata import GroupMetadata
from gateway.groups.offsets import OffsetTable
from gateway.groups.roster import Roster
from gateway.groups.served import Group
from gateway.journal.group_commit import NoEffect, Pending
from gateway.journal.lane import Lane
from wireproto.kafka.errors import ErrorCode

LATE_SECONDS = 0.5


def stale_commits_taken() -> None:
    """Commits of any member and generation are taken."""
    GroupData.validate_commit = lambda *_arguments: None  # type: ignore[method-assign]


def commits_answered_before_durable() -> None:
    """They are shown and answered at once, and written later."""
    begin = Journal.begin_commit

    def commit(
        self: Journal,
        group_id: str,
        table: OffsetTable,
        offsets: Mapping[Any, Any],
        partition: int | None = None,
        **of_a_transaction: Any,
    ) -> Pending:
        if of_a_transaction:
            return begin(self, group_id, table, offsets, partition, **of_a_transaction)
        table.start(offsets)
        table.commit(offsets)

        async def later() -> None:
            await trio.sleep(LATE_SECONDS)
            begin(self, group_id, OffsetTable(), offsets, partition)

        trio.lowlevel.spawn_system_task(later)
        pending = Pending(Lane(), (), NoEffect())
        pending.done = True
        return pending

    Journal.begin_commit = commit  # type: ignore[method-assign]


def assignments_before_durable() -> None:
    """The members get their assignments at once, and the record is written later."""

    async def write(self: Group, write: Any) -> None:
        self.carry_out(self.machine.written(write.number, ErrorCode.NONE, self._home.now()))
        await trio.sleep(LATE_SECONDS)
        await self._home.write(self.group_id, write.metadata)

    Group._write = write  # type: ignore[method-assign]


def generation_forgotten() -> None:
    """A group begins anew with generation 0 when it is loaded."""
    load = GroupData.load

    def forgetful(self: GroupData, metadata: GroupMetadata, now: Any) -> None:
        load(self, metadata, now)
        self.generation = 0

    GroupData.load = forgetful  # type: ignore[method-assign]


def assignments_mixed_up() -> None:
    """Everybody gets what the first member was given."""
    assign = Roster.assign

    def mixed(self: Roster, assignments: Mapping[str, bytes]) -> None:
        first = next(iter(assignments.values()), b"")
        assign(self, dict.fromkeys(assignments, first))

    Roster.assign = mixed  # type: ignore[method-assign]


def offsets_of_before() -> None:
    """A group shows what was committed before the last commit."""
    put = OffsetTable.put

    def late(self: OffsetTable, topic: str, partition: int, offset: Any) -> None:
        kept = _LATEST.get((id(self), topic, partition), offset)
        _LATEST[id(self), topic, partition] = offset
        put(self, topic, partition, kept)

    OffsetTable.put = late  # type: ignore[method-assign]


_LATEST: dict[tuple[int, str, int], Any] = {}

BUGS: dict[str, Callable[[], None]] = {
    plant.__name__.replace("_", "-"): plant
    for plant in (
        stale_commits_taken,
        commits_answered_before_durable,
        assignments_before_durable,
        generation_forgotten,
        assignments_mixed_up,
        offsets_of_before,
    )
}


def main() -> None:
    BUGS[sys.argv.pop(1)]()
    from dafka.cli import main as dafka

    dafka()


if __name__ == "__main__":
    main()
