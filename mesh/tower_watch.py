"""Says in the log when a tower is not reached, why, and what to do; and when it is again."""

import logging
from collections.abc import Callable

import trio

from mesh.attempts import Attempts, Cause, next_step
from mesh.keys.keys import Keys
from mesh.log_bounds import AGAIN_SECONDS
from mesh.protocol.endpoints import TowerAddress

UNREACHED_SECONDS = 8.0
"""A tower that is not reached for so long is said to be: keys of several towers are tried in turn
meanwhile."""

LOOK_SECONDS = 1.0
"""How often a tower's links are looked at."""

logger = logging.getLogger(__name__)


class TowerWatch:
    """Follows the links to one tower; `is_reached` says whether all are up."""

    def __init__(self, address: TowerAddress, keys: Keys | None, is_reached: Callable[[], bool]) -> None:
        self._address = address
        self._keys = keys
        self._is_reached = is_reached
        self._sides: list[Attempts] = []
        self._since: float | None = None
        """When it was first not reached."""
        self._said: float | None = None
        """When that was said last."""

    def side(self) -> Attempts:
        """To be told of the attempts to make one of the links."""
        self._sides.append(Attempts())
        return self._sides[-1]

    async def run(self) -> None:
        """Look, for ever."""
        while True:
            self._look(trio.current_time())
            await trio.sleep(LOOK_SECONDS)

    def _look(self, now: float) -> None:
        if self._is_reached():
            if self._said is not None:
                logger.warning("the tower at %s is reached", self._address)
            self._since = self._said = None
            return
        if self._since is None:
            self._since = now
        elif now >= (self._since + UNREACHED_SECONDS if self._said is None else self._said + AGAIN_SECONDS):
            seconds = now - self._since
            self._said = now
            logger.warning(
                "the tower at %s is not reached for %.0f s: %s", self._address, seconds, self._why(now)
            )

    def _why(self, now: float) -> str:
        keys = self._keys
        if keys is not None and not keys.towers():
            return (
                f"no certificate of a tower is known here: 'dafka keys add {keys.path} CERTIFICATE' with the "
                "own.key of each tower"
            )
        found = [side.cause(now) for side in self._sides]
        for side in self._sides:
            side.clear()
        causes = [cause for cause in found if cause is not None] or [Cause.SILENT]
        return next_step(max(causes, key=lambda cause: cause.value), None if keys is None else keys.path)
