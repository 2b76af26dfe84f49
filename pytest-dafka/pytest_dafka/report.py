"""What a failed test shows of its servers: topics, the last records, lags, the end of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_dafka.process import last_lines
from pytest_dafka.server import shown

if TYPE_CHECKING:
    from pytest_dafka.plugin import Used
    from pytest_dafka.server import Server

LAST_RECORDS = 20
LAST_LINES = 50


def sections(used: Used) -> list[tuple[str, str]]:
    """(title, text) of each; what cannot be found out is said, and is no failure."""
    made = []
    for server in dict.fromkeys(used.servers):
        for title, find in (("topics", _topics), ("groups", _groups), ("log", _log)):
            try:
                text = find(server, used)
            except Exception as error:  # noqa: BLE001 - a report about one failure must not become another
                text = f"cannot be told: {error}"
            if text:
                made.append((f"dafka {title} ({server.bootstrap})", text))
    return made


def _topics(server: Server, used: Used) -> str:
    touched = used.topics or server.admin.topics()
    lines = []
    records = []
    for topic in touched:
        last = server.admin.records(topic, LAST_RECORDS)
        ends = {one.partition: one.offset + 1 for one in last}
        lines.append(f"{topic}: ends {ends}" if ends else f"{topic}: no records")
        records += last
    records.sort(key=lambda one: (one.timestamp, one.partition, one.offset))
    if records:
        lines.append(f"the last {min(LAST_RECORDS, len(records))} records:")
    return "\n".join([*lines, shown(records[-LAST_RECORDS:])]).rstrip()


def _groups(server: Server, used: Used) -> str:
    lines = []
    for group in server.admin.groups():
        lag = server.admin.lag(group)
        if group in used.groups or any(topic in used.topics for topic, _ in lag):
            told = ", ".join(
                f"{topic}-{index} lags {behind}" for (topic, index), behind in sorted(lag.items())
            )
            lines.append(f"{group}: {told or 'nothing is committed'}")
    return "\n".join(lines)


def _log(server: Server, _: Used) -> str:
    return "\n".join(last_lines(server.directory, LAST_LINES)) if server.directory is not None else ""
