"""How often which error was answered."""

from __future__ import annotations


class ErrorCounts:
    """By API and by the name of the error. Only errors cost anything."""

    def __init__(self) -> None:
        self.by_name: dict[tuple[str, str], float] = {}

    def count(self, api: str, error: str) -> None:
        key = api, error
        self.by_name[key] = self.by_name.get(key, 0) + 1
