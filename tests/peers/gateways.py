"""`dafka standalone --gateways N` whose gateways are killed, each in its turn."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import AbstractContextManager
from itertools import cycle
from pathlib import Path
from typing import Self

from tests.peers.meanwhile import meanwhile
from tests.peers.supervised import Supervised


class Gateways(Supervised):
    """A cluster of one machine, as many stores as gateways. A context manager, on a temporary directory."""

    def __init__(self, gateways: int, *arguments: str) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="dafka-gateways-")), gateways, gateways, *arguments)
        self.names = [f"gateway-{number}" for number in range(1, gateways + 1)]
        self.kills = 0
        self._next = cycle(self.names)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_exc: object) -> None:
        self.kill9()
        self.wait_until_all_are_gone()
        shutil.rmtree(self.directory, ignore_errors=True)

    def restart(self) -> None:
        """Each gateway, one after the other: who leads or coordinates what a client uses is among them."""
        for _ in self.names:
            self.kill_next()

    def kill_next(self) -> None:
        """SIGKILL to the gateway whose turn it is; it serves again once this returns."""
        self.kill_together(next(self._next))

    def kill_together(self, *names: str) -> None:
        """SIGKILL to each of them; they serve again once this returns."""
        before = {name: self.log.count(f"{name} serves again") for name in names}
        for name in names:
            self.kill(name)
            self.kills += 1
        for name, times in before.items():
            self.wait_until_it_serves_again(name, times + 1)

    def killed_in_turn(self, pause_seconds: float) -> AbstractContextManager[None]:
        """Again and again, so long after the one before serves again, until the end of the block."""
        return meanwhile(self.kill_next, pause_seconds)
