"""Named points at which a test may have the process killed, as by SIGKILL.

`DAFKA_TEST_CRASH_POINT=after-fsync` kills at the first time that point is reached, `after-fsync:20` at the
twentieth. Without the variable a point costs one comparison. Points: after-write, after-fsync, before-ack,
during-seal, between-copy-and-catalog, during-compaction, before-compaction-swap, after-compaction-swap,
after-log-start, during-restore, after-restored-segment.
"""

import itertools
import os
import signal

VARIABLE = "DAFKA_TEST_CRASH_POINT"
POINTS = frozenset(
    {
        "after-write",
        "after-fsync",
        "before-ack",
        "during-seal",
        "between-copy-and-catalog",
        "during-compaction",
        "before-compaction-swap",
        "after-compaction-swap",
        "after-log-start",
        "during-restore",
        "after-restored-segment",
    }
)

_name, _, _count = os.environ.get(VARIABLE, "").partition(":")
_times = itertools.count(1)
if _name and _name not in POINTS:
    raise SystemExit(f"{VARIABLE}={_name}: no such point; known: {', '.join(sorted(POINTS))}")


def reach(point: str) -> None:
    """Die here if this is the point that was asked for, reached for the asked-for time."""
    if point == _name and next(_times) == int(_count or "1"):
        os.kill(os.getpid(), signal.SIGKILL)
