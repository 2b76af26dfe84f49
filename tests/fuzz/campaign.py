"""Many inputs for one target, as a seed has them: what became of them, what they cost, and what they left.

An input is slow if it takes more than SLOW_SECONDS of processor time each of three times: other work of
the machine, and a collection of garbage, are not its own. Memory has grown if the process has
MAX_GROWN_BYTES more at the end than after a tenth of the inputs.
"""

from __future__ import annotations

import gc
import random
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.fuzz.target import Target

SLOW_SECONDS: Final = 0.25
MAX_GROWN_BYTES: Final = 24 << 20
MOST_PROBLEMS: Final = 5
"""Of a target, after which it is given up."""
_PAGE: Final = 4096


@dataclass
class Problem:
    """An input, and what is wrong with what became of it."""

    data: bytes
    what: str


@dataclass
class Outcome:
    """Of one target. Seconds of processor time, bytes."""

    name: str
    count: int = 0
    became: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)
    slowest: float = 0.0
    slowest_data: bytes = b""
    seconds: float = 0.0
    grown: int = 0


def inputs(target: Target, seed: int) -> Iterator[bytes]:
    """Without end; the same for the same seed, as long as the target's good ones are the same."""
    chooser = random.Random(f"{target.name} {seed}")
    while True:
        yield target.make(chooser)


def run(target: Target, count: int, seed: int) -> Outcome:
    """Give a target so many inputs."""
    outcome = Outcome(target.name)
    made = inputs(target, seed)
    resident = 0
    for number in range(count):
        if number == count // 10:
            resident = resident_bytes()
        took = give(target, next(made), outcome)
        outcome.seconds += took
        if len(outcome.problems) >= MOST_PROBLEMS:
            break
    else:
        outcome.grown = resident_bytes() - resident
        if outcome.grown > MAX_GROWN_BYTES:
            outcome.problems.append(Problem(b"", f"the process is {outcome.grown >> 20} MiB larger"))
    return outcome


def give(target: Target, data: bytes, outcome: Outcome) -> float:
    """One input; the seconds that it took."""
    outcome.count += 1
    began = time.process_time()
    try:
        outcome.became[target.check(data)] += 1
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        outcome.problems.append(Problem(data, "".join(traceback.format_exception(error)[-4:])))
        return time.process_time() - began
    took = time.process_time() - began
    if took > outcome.slowest:
        took = min([took, *(_again(target, data) for _ in range(2))])
        if took > outcome.slowest:
            outcome.slowest, outcome.slowest_data = took, data
        if took > SLOW_SECONDS:
            outcome.problems.append(Problem(data, f"it takes {took:.2f} s of processor time"))
    return took


def _again(target: Target, data: bytes) -> float:
    began = time.process_time()
    target.check(data)
    return time.process_time() - began


def resident_bytes() -> int:
    """Memory of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
