"""Named points at which a test may have the process killed, as by SIGKILL.

`DAFKA_TEST_CRASH_POINT=after-fsync` kills at the first time that point is reached, `after-fsync:20` at the twentieth.
Without the variable a point costs one comparison. Points: after-write, after-fsync, before-ack, during-seal,
between-copy-and-catalog.
"""

import os
import signal

VARIABLE = "DAFKA_TEST_CRASH_POINT"
POINTS = frozenset({"after-write", "after-fsync", "before-ack", "during-seal", "between-copy-and-catalog"})

_name, _, _count = os.environ.get(VARIABLE, "").partition(":")
_left = int(_count or "1")
armed = bool(_name)
if armed and _name not in POINTS:
    raise SystemExit(f"{VARIABLE}={_name}: no such point; known: {', '.join(sorted(POINTS))}")


def reach(point: str) -> None:
    """Die here if this is the point that was asked for, reached for the asked-for time."""
    global _left
    if point == _name:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
