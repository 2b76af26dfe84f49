"""Directories that are put back to an older copy: noticed and refused, before the newest one is put back."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.checker import Problem
from tests.peers.copies import copy_data
from tests.peers.mesh import GatewayProcess, StoreProcess
from tests.peers.process import ServerEnded

OLD_SECONDS = 5.0
"""A copy is at least so old when it is put back: a newer one need not be noticed (docs/promises.md)."""

NOTICED_SECONDS = 90.0
DATA_REFUSED = 3


class OlderCopies:
    """Copies of the directories of processes that were killed, one of each."""

    def __init__(self, directory: Path) -> None:
        self.put_back = 0
        self.problems: list[Problem] = []
        self._directory = directory
        self._made: dict[Path, float] = {}

    def is_due(self, process: StoreProcess | GatewayProcess) -> bool:
        """Whether there is a copy of a process's directory that is old enough; one is made now if there is
        none. The process does not run.
        """
        made = self._made.get(process.data)
        if made is None:
            copy_data(process.data, self._copy(process))
            self._made[process.data] = time.monotonic()
            return False
        return time.monotonic() - made > OLD_SECONDS

    def try_store(self, store: StoreProcess, gateway: GatewayProcess) -> None:
        """A store comes up on its older copy: the gateway must say that it does not count."""
        incarnation = json.loads((store.data / "identity.json").read_text())["incarnation"]
        with self._older(store):
            store.start()
            deadline = time.monotonic() + NOTICED_SECONDS
            while f"({incarnation}) does not count" not in gateway.log:
                if time.monotonic() > deadline or gateway.returncode is not None:
                    self.problems.append(
                        Problem("older copy counts", f"store {store.name}: {gateway.tail()}")
                    )
                    break
                time.sleep(0.05)
            store.kill9()

    def try_gateway(self, gateway: GatewayProcess) -> None:
        """A gateway comes up on its older copy: it must refuse it."""
        with self._older(gateway):
            try:
                gateway.start()
            except ServerEnded:
                if gateway.returncode != DATA_REFUSED:
                    self.problems.append(Problem("ended otherwise", gateway.tail()))
            else:
                self.problems.append(Problem("older copy counts", f"the catalog: {gateway.tail()}"))
                gateway.kill9()

    @contextmanager
    def _older(self, process: StoreProcess | GatewayProcess) -> Iterator[None]:
        """The older copy is in the place of a process's directory; afterwards the newest is there again."""
        newest = process.data.with_name("newest")
        process.data.rename(newest)
        shutil.copytree(self._copy(process), process.data)
        try:
            yield
        finally:
            shutil.rmtree(process.data)
            newest.rename(process.data)
            self.put_back += 1

    def _copy(self, process: StoreProcess | GatewayProcess) -> Path:
        return self._directory / f"older-{process.directory.name}"
