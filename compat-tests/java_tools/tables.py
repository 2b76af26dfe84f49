"""What tools print for people, as values."""

from __future__ import annotations

import re
from collections.abc import Sequence


def table(lines: Sequence[str], begins: str) -> list[dict[str, str]]:
    """Rows by column of a table whose head begins with that word; columns are parted by white space.

    A tool may print several such tables; then the rows are those of all.
    """
    rows: list[dict[str, str]] = []
    head: list[str] = []
    for line in lines:
        if line.startswith(begins):
            head = _cells(line)
        elif head:
            cells = _cells(line)
            assert len(cells) <= len(head), f"{line!r} does not fit the columns {head}"
            rows.append(dict(zip(head, [*cells, *[""] * (len(head) - len(cells))], strict=True)))
    return rows


def _cells(line: str) -> list[str]:
    """`HOST:PORT (ID)` is one cell, and so is its heading; empty cells are at the end only."""
    return [cell.replace("\0", " ") for cell in re.sub(r"\s+\(", "\0(", line).split()]


def config_lines(lines: Sequence[str]) -> dict[str, tuple[str, list[str]]]:
    """By name of a config as kafka-configs shows it: value, and where values come from, nearest first."""
    found = {}
    for line in lines:
        match = re.fullmatch(r"  (\S+?)=(.*) sensitive=\w+ synonyms=\{(.*)\}", line)
        if match:
            sources = re.findall(r"([A-Z_]+):([^=]+=[^ ]*?)(?:, |$)", match[3])
            found[match[1]] = (match[2], [f"{kind}:{value}" for kind, value in sources])
    return found
