"""Lines about groups in the log of the gateway: few and short, since clients choose what they say."""

from __future__ import annotations

import logging
from typing import Final

from gateway.common.log_limit import LogLimit
from gateway.common.printable import printable

NOTE_LINES: Final = 200
"""Lines about groups in the log within ten seconds; the others are counted. Members that come and go without
end would otherwise fill the disk."""


class GroupNotes:
    """Writes to `logger`, `NOTE_LINES` at most within ten seconds."""

    def __init__(self, logger: logging.Logger) -> None:
        self._limit = LogLimit(logger, NOTE_LINES)

    def info(self, group_id: str, text: str) -> None:
        """What happened in a group; clients may have chosen some of it."""
        self._limit.info("group %s: %s", printable(group_id), printable(text))

    def no_room(self, group_id: str, held: str) -> None:
        """A group is refused more; `held` is what all groups hold, and may."""
        self._limit.warning(
            "group %s gets nothing more: %s; delete groups that nobody needs, or lower "
            "--offsets-retention-minutes",
            printable(group_id),
            held,
        )
