"""Named places where a process may be killed on purpose, so that a test can see what is left then.

`DAFKA_PIPELINE_FAIL_AT=NAME` (or `NAME:N` for the Nth time it is passed) in the environment ends the process
and its whole process group, the JVM among them, by SIGKILL at that place. Without it a fail point costs one
comparison.
"""

import os
import signal
from collections import Counter
from typing import Final

VARIABLE: Final = "DAFKA_PIPELINE_FAIL_AT"
_name, _, _time = os.environ.get(VARIABLE, "").partition(":")
_passed: Counter[str] = Counter()


def fail_point(name: str) -> None:
    """Die here, if this is the place and the time that the environment names."""
    if name != _name:
        return
    _passed[name] += 1
    if _passed[name] == int(_time or 1):
        os.killpg(os.getpgrp(), signal.SIGKILL)
