"""What clients choose, as it may stand in a line of the log."""

from __future__ import annotations

from typing import Final

MAX_NOTE_CHARS: Final = 300
"""Characters of a line about a group or a transactional id, and of the id in it: clients choose their ids."""


def printable(text: str) -> str:
    """What a client chose, as it may stand in a line of the log."""
    shown = "".join(c if c.isprintable() else "?" for c in text[:MAX_NOTE_CHARS])
    return shown if len(text) <= MAX_NOTE_CHARS else shown + "..."
