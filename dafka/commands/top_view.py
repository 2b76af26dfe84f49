"""What `dafka top` sees at a moment, and how two moments look in a terminal."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from dafka.commands.cluster import Cluster
from dafka.commands.exits import CommandFailed
from dafka.commands.groups_session import Session
from dafka.commands.tables import plain

Position = tuple[str, int]


@dataclass
class Group:
    """One group: its state, its members, and the offsets that it committed."""

    name: str
    state: str
    members: int
    committed: dict[Position, int]


@dataclass
class Look:
    """One moment. `firsts` and `ends` are by topic and partition; `at` is a monotonic time in seconds."""

    at: float
    brokers: int
    firsts: dict[Position, int] = field(default_factory=dict)
    ends: dict[Position, int] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Topics without a leader for some partition."""

    def topics(self) -> dict[str, tuple[int, int, int]]:
        """Of each topic its partitions, the sum of their ends, and the offsets that lie in them."""
        made: dict[str, tuple[int, int, int]] = {}
        for where, end in self.ends.items():
            partitions, ends, there = made.get(where[0], (0, 0, 0))
            made[where[0]] = partitions + 1, ends + end, there + end - self.firsts[where]
        return made


def look(session: Session, *, internal: bool) -> Look:
    """Ask. Raises CommandFailed, KafkaTrouble."""
    metadata = session.cluster.metadata(None)
    seen = Look(time.monotonic(), len(metadata.brokers))
    for topic in metadata.topics:
        if topic.is_internal and not internal:
            continue
        try:
            firsts = session.cluster.offsets(topic, Cluster.EARLIEST)
            ends = session.cluster.offsets(topic, Cluster.LATEST)
        except CommandFailed:
            seen.unknown.append(topic.name)
            continue
        seen.firsts |= {(topic.name, index): offset for index, offset in firsts.items()}
        seen.ends |= {(topic.name, index): offset for index, offset in ends.items()}
    for name, _, state in session.groups.list():
        try:
            members = len(session.groups.describe(name).members)
            seen.groups.append(Group(name, state, members, session.groups.committed(name)))
        except CommandFailed:
            continue  # it went meanwhile
    return seen


def lines(before: Look, now: Look, bootstrap: str) -> list[str]:
    """A view: a head, topics with the busiest first, groups with those that lag most first."""
    seconds = max(now.at - before.at, 1e-9)
    topics = []
    earlier = before.topics()
    for topic, (partitions, end, there) in now.topics().items():
        rate = (end - earlier[topic][1]) / seconds if topic in earlier else 0.0
        topics.append((topic, partitions, there, end, max(0.0, rate)))
    total = sum(rate for *_, rate in topics)
    topics.sort(key=lambda row: (-row[-1], row[0]))
    head = f"{bootstrap}  brokers {now.brokers}  topics {len(topics)}  groups {len(now.groups)}"
    made = [f"{head}  {total:,.1f} records/s", ""]
    made += _table(
        ("TOPIC", "PARTITIONS", "OFFSETS", "END", "RATE/S"),
        [
            (name, str(count), f"{there:,}", f"{end:,}", f"{rate:,.1f}")
            for name, count, there, end, rate in topics
        ],
    )
    made += [f"{name}: no leader for all of its partitions" for name in now.unknown]
    if not topics:
        made.append("(no topics: 'dafka topics create NAME' makes one)")
    made.append("")
    made += _table(
        ("GROUP", "STATE", "MEMBERS", "LAG", "LAG CHANGE/S", "READS"), _groups(before, now, seconds)
    )
    if not now.groups:
        made.append("(no groups)")
    return made


def _groups(before: Look, now: Look, seconds: float) -> list[tuple[str, ...]]:
    earlier = {group.name: _lag(group, before) for group in before.groups}
    rows = []
    for group in now.groups:
        lag, old = _lag(group, now), earlier.get(group.name)
        change = "-" if lag is None or old is None else f"{(lag - old) / seconds:+,.1f}"
        reads = ",".join(sorted({topic for topic, _ in group.committed})) or "-"
        shown = "no commit" if lag is None else f"{lag:,}"
        rows.append((lag or 0, (group.name, group.state, str(group.members), shown, change, reads)))
    rows.sort(key=lambda row: (-row[0], row[1]))
    return [row for _, row in rows]


def _lag(group: Group, seen: Look) -> int | None:
    """Offsets that a group has not committed, where it has committed any; None if it has nowhere."""
    behind = [max(0, seen.ends[at] - offset) for at, offset in group.committed.items() if at in seen.ends]
    return sum(behind) if behind else None


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Columns as wide as they need to be; numbers to the right."""
    texts = [titles, *(tuple(map(plain, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    right = [
        bool(rows) and all(row[n][:1].isdigit() or row[n][:1] in "+-" for row in rows)
        for n in range(len(titles))
    ]
    return [
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in texts
    ]
