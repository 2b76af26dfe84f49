"""For tests whose clock jumps ahead whenever nothing runs: it would jump while a thread works, by hours where
threads are slow to start.
"""

from collections.abc import Callable
from typing import Any

import trio


async def at_once(work: Callable[..., Any], *arguments: Any, **_: Any) -> Any:
    """In the place of `trio.to_thread.run_sync`."""
    await trio.lowlevel.checkpoint()
    return work(*arguments)
