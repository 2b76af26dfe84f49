"""The same inputs, looked for by what code they reach: atheris, which is libFuzzer for Python.

It is no dependency of the tests: `pip install atheris`. What it imports it instruments, so the packages that
are tested must not be there before.
"""

from __future__ import annotations

import importlib
import random
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

FIRST_INPUTS: Final = 200
"""Malformed ones that it begins with, beside the good ones."""

INSTRUMENTED: Final = ["gateway", "wireproto", "jwt"]
MOST_BYTES: Final = 8 * 1024


def run(name: str, seconds: int, seed: int) -> None:
    """Look for a violation for so long. Does not return: libFuzzer ends the process, with 77 if it found one:
    the input is in a file then.
    """
    try:
        atheris: Any = importlib.import_module("atheris")
    except ImportError:
        sys.exit("atheris is not there: pip install atheris")
    with atheris.instrument_imports(include=INSTRUMENTED):
        targets = importlib.import_module("tests.fuzz.targets")
    chooser = random.Random(seed)
    where = Path(tempfile.mkdtemp(prefix=f"dafka-fuzz-{name}-"))
    target = targets.TARGETS[name]().__enter__()
    for number, data in enumerate([*target.good, *(target.make(chooser) for _ in range(FIRST_INPUTS))]):
        (where / f"{number:04}").write_bytes(data)
    arguments = [
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        f"-max_len={MOST_BYTES}",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *arguments, str(where)], target.check)
    atheris.Fuzz()
