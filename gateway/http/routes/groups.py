"""Consumer groups: who is in them, and how far behind they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.groups.consumer_protocol import assigned_partitions
from gateway.groups.group_state import GroupState
from gateway.http.failures import not_found
from gateway.http.lags import PartitionLag, partition_lag
from gateway.http.paging import Key, Page, order, page, parse_cursor
from gateway.http.router import Ask, Parameter, Route
from gateway.http.routes.topics import AFTER, LIMIT, listed
from gateway.http.view import View, now_ms

if TYPE_CHECKING:
    from gateway.groups.member import Member
    from gateway.groups.records import CommittedOffset
    from gateway.groups.served import Group

SORTS: Final = ("group", "state", "members", "offsets")

MAX_LISTED_OFFSETS: Final = 2_000
"""Offsets of a group that a list looks at, for each of its rows: 5 ms. Larger ones have pages."""

MAX_LIST_OFFSETS: Final = 20_000
"""Offsets that a list looks at in all: 60 ms, in turns."""

MAX_LISTED_TOPICS: Final = 5
"""Topics of a group that a list names."""

MAX_MEMBERS: Final = 200
"""Members that a group's page lists."""

MAX_ASSIGNED: Final = 1_000
"""Partitions of one member that its group's page lists."""

MAX_OWNED: Final = 20_000
"""Partitions of a group whose readers are told: as many as gateways are made for. What members are assigned
is whatever their leader says.
"""

OWNED_STEPS: Final = 1_000
"""Of these between two looks at the clock: 0.3 ms."""

STEPS: Final = 64
"""Offsets between two looks at the clock: 0.2 ms."""


async def groups(ask: Ask) -> dict[str, Any]:
    """The route of all groups."""
    view, target = ask.view, ask.target
    target.only("q", "sort", "after", "limit")
    sort = target.choice("sort", (*SORTS, *(f"-{name}" for name in SORTS)))
    limit = target.limit()
    kinds = {"group": (str,), "state": (str, str), "members": (int, str), "offsets": (int, str)}
    descends = sort.startswith("-")
    by = sort.removeprefix("-")
    after = parse_cursor(target.text("after"), kinds[by], descends=descends)
    part = target.text("q").casefold()
    coordinator = view.broker.groups
    async with view.turns.working():
        found = await page(
            list(coordinator.groups.values()),
            lambda group: order(_key(group, by), descends),
            after,
            limit,
            view.turns,
            lambda group: part in group.group_id.casefold(),
        )
        rows, left = [], MAX_LIST_OFFSETS
        for group in found.rows:
            rows.append(await group_row(view, group, most=min(left, MAX_LISTED_OFFSETS)))
            left -= offsets_looked_at(rows[-1])
            await view.turns.breathe()
    return listed(found._replace(rows=rows)) | {"loading": coordinator.partitions_loading}


def _key(group: Group, by: str) -> Key:
    machine = group.machine
    if by == "state":
        return machine.state.value, group.group_id
    if by == "members":
        return len(machine.roster), group.group_id
    if by == "offsets":
        return group.offsets.count, group.group_id
    return (group.group_id,)


async def group_row(view: View, group: Group, *, most: int = MAX_LISTED_OFFSETS) -> dict[str, Any]:
    """A group in a list. The caller works."""
    machine = group.machine
    topics = [name for name, _ in group.offsets.topics()]
    too_many = group.offsets.count > most
    sums = None if too_many else await _sums(view, group)
    return {
        "group": group.group_id,
        "state": machine.state.value,
        "protocol_type": machine.protocol_type,
        "protocol": machine.protocol,
        "generation": machine.generation,
        "members": len(machine.roster),
        "offsets": group.offsets.count,
        "topics": sorted(topics)[:MAX_LISTED_TOPICS],
        "topics_total": len(topics),
        "lag": None if sums is None or sums.lag is None else str(sums.lag),
        "lag_seconds": None if sums is None else sums.seconds,
        "behind_start": None if sums is None else sums.behind_start,
        "lag_unknown": None if sums is None else sums.unknown,
        "lag_not_loaded": too_many,
    }


def offsets_looked_at(row: dict[str, Any]) -> int:
    """How many offsets a row of a list has cost."""
    return 0 if row["lag_not_loaded"] else int(row["offsets"])


class _Sums(NamedTuple):
    lag: int | None
    seconds: float | None
    behind_start: int
    unknown: int
    """Partitions that are there, and whose leader has not said where they end."""


async def _sums(view: View, group: Group) -> _Sums:
    """Of all its offsets whose partitions are there."""
    now = now_ms()
    lag: int | None = None
    seconds: float | None = None
    behind = unknown = 0
    for done, (topic, index, committed) in enumerate(list(_offsets(group)), 1):
        one = partition_lag(view.broker, topic, index, committed, now)
        if one.lag is not None:
            lag = (lag or 0) + one.lag
        if one.seconds is not None:
            seconds = max(seconds or 0.0, one.seconds)
        behind += one.behind_start
        unknown += one.lag is None and one.missing is None
        if not done % STEPS:
            await view.turns.breathe()
    return _Sums(lag, seconds, behind, unknown)


def _offsets(group: Group) -> Iterator[tuple[str, int, CommittedOffset]]:
    for topic, partitions in group.offsets.topics():
        for index, offset in partitions.items():
            yield topic, index, offset


async def group(ask: Ask) -> dict[str, Any]:
    """The route of one group."""
    view, target = ask.view, ask.target
    target.only("after", "limit")
    limit, after = target.limit(), parse_cursor(target.text("after"), (str, int))
    found = find_group(view, ask.places["group"])
    async with view.turns.working():
        members, owners = await members_of(view, found)
        partitions = await _partitions_page(view, found, owners, after, limit)
        row = await group_row(view, found, most=found.offsets.count)
    machine = found.machine
    trend = [[str(at), str(lag)] for at, lag in view.trends.of(found.group_id)]
    return {
        "as_of": now_ms(),
        **row,
        "state_since_ms": machine.state_changed_ms if machine.state_changed_ms >= 0 else None,
        "rebalancing": machine.state in {GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE},
        "member_items": members,
        "partitions_page": {
            "items": partitions.rows,
            "next": partitions.next,
            "total": partitions.total,
        },
        "trend": {"seconds": 1, "points": trend},
    }


def find_group(view: View, group_id: str) -> Group:
    """The group of this id. Raises Failure."""
    found = view.broker.groups.groups.get(group_id)
    if found is None:
        loading = view.broker.groups.partitions_loading
        hint = f" ({loading} partitions of __consumer_offsets are not read yet)" if loading else ""
        raise not_found(
            "unknown-group",
            f"there is no group {group_id[:249]!r}{hint}",
            "Look at the list of groups; a group is there once a consumer joins it or commits an offset.",
        )
    return found


async def members_of(view: View, group: Group) -> tuple[list[dict[str, Any]], dict[tuple[str, int], str]]:
    """Members as they are shown, and who reads which partition, of so many as there is room for."""
    roster = group.machine.roster
    owners: dict[tuple[str, int], str] = {}
    rows: list[dict[str, Any]] = []
    for member in list(roster.members()):
        assigned = assigned_partitions(member.assignment) if member.assignment else {}
        for topic, indexes in (assigned or {}).items():
            shown = min(len(indexes), MAX_OWNED - len(owners))
            for start in range(0, shown, OWNED_STEPS):
                some = indexes[start : min(start + OWNED_STEPS, shown)]
                owners.update(dict.fromkeys(((topic, index) for index in some), member.member_id))
                await view.turns.breathe()
            await view.turns.breathe()
        if len(rows) < MAX_MEMBERS:
            rows.append(_member_row(member, assigned, leader=roster.leader == member.member_id))
        await view.turns.breathe()
    return rows, owners


def _member_row(member: Member, assigned: dict[str, list[int]] | None, *, leader: bool) -> dict[str, Any]:
    shown = None
    if assigned is not None:
        shown, left = [], MAX_ASSIGNED
        for topic, partitions in sorted(assigned.items()):
            if left <= 0:
                break
            shown.append({"topic": topic, "partitions": sorted(partitions)[:left]})
            left -= len(partitions)
    return {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.client_host,
        "leader": leader,
        "session_timeout_ms": member.session_timeout_ms,
        "assigned": None if assigned is None else sum(map(len, assigned.values())),
        "assignment": shown,
    }


async def _partitions_page(
    view: View, group: Group, owners: dict[tuple[str, int], str], after: Key | None, limit: int
) -> Page:
    """Its partitions, in the order of topics and numbers: with a commit, or assigned."""
    committed = {(topic, index) for topic, index, _ in _offsets(group)}
    every = committed | owners.keys()
    await view.turns.breathe()
    found = await page(every, lambda key: key, after, limit, view.turns)
    rows = []
    for topic, index in found.rows:
        rows.append(group_partition_row(view, group, topic, index, owners.get((topic, index))))
        await view.turns.breathe()
    return Page(rows, found.next, found.total)


def group_partition_row(
    view: View, group: Group, topic: str, index: int, owner: str | None
) -> dict[str, Any]:
    """A partition of a group."""
    committed = group.offsets.fetch(topic, index)
    one: PartitionLag = partition_lag(view.broker, topic, index, committed, now_ms())
    return {
        "topic": topic,
        "partition": index,
        "committed": None if committed is None else str(committed.offset),
        "leader_epoch": None if committed is None or committed.leader_epoch < 0 else committed.leader_epoch,
        "metadata": None if committed is None else committed.metadata,
        "commit_ms": None if committed is None else committed.commit_timestamp_ms,
        "start": None if one.start is None else str(one.start),
        "end": None if one.end is None else str(one.end),
        "lag": None if one.lag is None else str(one.lag),
        "lag_seconds": one.seconds,
        "behind_start": one.behind_start,
        "member": owner,
        "missing": one.missing,
    }


ROUTES: Final = (
    Route(
        "groups",
        "Consumer groups, in pages.",
        groups,
        (
            Parameter("q", {"type": "string"}, "A part of the id."),
            Parameter(
                "sort",
                {"type": "string", "enum": [*SORTS, *(f"-{name}" for name in SORTS)], "default": "group"},
            ),
            AFTER,
            LIMIT,
        ),
    ),
    Route("groups/{group}", "One group: members, offsets, lag.", group, (AFTER, LIMIT)),
)
