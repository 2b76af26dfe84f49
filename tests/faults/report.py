"""What became of the operations of each fault, written down: one JSON line for each."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

REPORT = "FAULTS_REPORT"
"""Environment variable: the file that gets the lines. Without it nothing is written."""


@dataclass(frozen=True)
class Phase:
    """A stretch of a test, and which operations of a load began in it."""

    what: str
    healed: bool
    """There was no fault."""
    load: str
    first: int
    end: int
    """Numbers of the operations: from `first` to before `end`."""
    acked_meanwhile: int
    """Operations, older ones as well, that were acknowledged before it was over."""
    seconds: float

    @property
    def begun(self) -> int:
        return self.end - self.first

    def counts(self, outcomes: Mapping[int, str]) -> dict[str, int | float | bool]:
        """For the report, once every operation has its outcome."""
        became = Counter(outcomes.get(number, "unknown") for number in range(self.first, self.end))
        return {
            "healed": self.healed,
            "seconds": self.seconds,
            "begun": self.begun,
            "acked meanwhile": self.acked_meanwhile,
            "ok": became["ok"],
            "failed": became["fail"],
            "unknown": became["unknown"],
        }


def report(what: str, **facts: object) -> None:
    """One line of the report, if one is wanted."""
    path = os.environ.get(REPORT)
    if path:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
        with Path(path).open("a") as file:
            file.write(json.dumps({"test": test, "what": what, **facts}) + "\n")
