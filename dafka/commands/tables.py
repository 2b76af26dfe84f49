"""Tables for people and JSON for programs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


MAX_CELL = 256
"""Characters of a cell: topics have at most 249, groups and clients may have 32,767."""


def plain(text: str) -> str:
    """Names of strangers as a terminal may have them: what it obeys, or what turns the direction of text,
    by its number; and no longer than `MAX_CELL`.
    """
    if len(text) > MAX_CELL:
        text = text[: MAX_CELL - 1] + "…"
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def print_table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """One line a row, columns as wide as they need to be."""
    texts = [titles, *([plain(str(cell)) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_json(value: Any) -> None:
    """Indented, as it is."""
    click.echo(json.dumps(value, indent=1))


def size(number: int | None) -> str:
    """Bytes with a unit; "?" for None."""
    if number is None:
        return "?"
    amount, unit = float(number), 0
    while amount >= 1024 and unit < len(UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f} {UNITS[unit]}" if not unit else f"{amount:.1f} {UNITS[unit]}"


def there(store: Mapping[str, Any]) -> str:
    """Whether a store that a gateway tells of is there; "refused" if what answers under its name does not
    count.
    """
    return "yes" if store["live"] else "refused" if store["refused"] else "no"
