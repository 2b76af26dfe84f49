"""The tables of docs/compatibility.md that are made from the code.

`python -m tests.docs.compatibility_page` writes them between their marks; a test compares them with what is
there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.docs import api_versions_table, configs_table
from tests.docs.constants_page import ROOT

PAGE: Final = ROOT / "docs" / "compatibility.md"

TABLES: Final[dict[str, Callable[[], str]]] = {
    "ApiVersions": api_versions_table.table,
    "topic configs": configs_table.topic_table,
    "broker configs": configs_table.broker_table,
}
"""By the name in its marks: `<!-- NAME: made from the code -->` and `<!-- NAME ends -->`."""


def page(text: str) -> str:
    """The page's text with its tables made anew. Raises ValueError where a table has no place in it."""
    for name, table in TABLES.items():
        begin, end = f"<!-- {name}: made from the code", f"\n<!-- {name} ends -->"
        head, found, rest = text.partition(begin)
        mark, _, _ = rest.partition("\n")
        _, ends, tail = rest.partition(end)
        if not found or not ends:
            raise ValueError(f"{PAGE.name} has no marks for the table {name}")
        text = f"{head}{begin}{mark}\n{table()}{end}{tail}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
