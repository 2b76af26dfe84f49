"""Says in the log that somebody tried to link with this process who has no keys where this one has, or the
reverse.

ZeroMQ does not tell who it was, so it is said once in `mesh.log_bounds.AGAIN_SECONDS`: the process that tried
says more (`mesh.attempts`). Who means another key than this process's is not told of here, since nodes try
the keys of all towers at each (`mesh.tower_link`).
"""

import logging
import threading

from mesh.log_bounds import LogBounds

logger = logging.getLogger(__name__)


class Knocks:
    """Those at one process. May be told of by several threads."""

    def __init__(self, *, has_keys: bool) -> None:
        self._has_keys = has_keys
        self._lock = threading.Lock()
        self._bounds = LogBounds()

    def heard(self, endpoint: str) -> None:
        """Somebody tried, where this process listens."""
        with self._lock:
            if not self._bounds.may("mechanism", "mechanism"):
                return
        logger.warning(
            "somebody tried to link with this process on port %s, and %s. Give %s one --mesh-keys DIR "
            "(docs/mesh-security.md)",
            endpoint.rpartition(":")[2],
            "has no keys; this process has" if self._has_keys else "has keys; this process has none",
            "that" if self._has_keys else "this",
        )
