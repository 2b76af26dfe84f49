"""The alerting rules as a test needs them: their names, and the same rules at another pace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
RULES: Final = ROOT / "deploy" / "prometheus" / "rules.yaml"

UNITS: Final = {"s": 1, "m": 60, "h": 3600}

PACE: Final = 60
"""How many times faster a test's rules are: minutes become seconds."""

SHORTEST_RANGE_SECONDS: Final = 6
"""A rate needs a few scrapes, one a second."""

OF_SECONDS: Final = ("lag_seconds:max) > 300", "lag_seconds:max > 600")
"""Thresholds that are times, and go with the pace."""


def alerts() -> list[str]:
    """The names of all alerts."""
    return re.findall(r"- alert: (\w+)", RULES.read_text())


def runbooks() -> dict[str, str]:
    """Where each alert leads."""
    return dict(re.findall(r"- alert: (\w+)\n.*?runbook_url: (\S+)", RULES.read_text(), re.DOTALL))


def quick_rules() -> str:
    """The rules with all times `PACE` times shorter."""
    text = RULES.read_text()
    for threshold in OF_SECONDS:
        assert threshold in text
        text = text.replace(threshold, _shorter_number(threshold))
    text = re.sub(r"(for: )(\d+)([smh])", lambda m: f"{m[1]}{max(1, _seconds(m) // PACE)}s", text)
    return re.sub(
        r"(\[)(\d+)([smh])\]", lambda m: f"[{max(SHORTEST_RANGE_SECONDS, _seconds(m) // PACE)}s]", text
    )


def _seconds(match: re.Match[str]) -> int:
    return int(match[2]) * UNITS[match[3]]


def _shorter_number(threshold: str) -> str:
    before, _, number = threshold.rpartition(" ")
    return f"{before} {int(number) // PACE}"
