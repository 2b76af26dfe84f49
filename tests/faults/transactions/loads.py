"""All that clients do with a cluster in a round, and what they have told in the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tests.clients.stored import create_replicated_topic
from tests.faults.checker import Problem
from tests.faults.transactions.client import Client
from tests.faults.transactions.clients import CLIENTS, GROUPS, INPUTS, PARTITIONS, TOPICS, copies_of
from tests.faults.transactions.history import COMMITTED, UNCOMMITTED, original_of
from tests.faults.transactions.readers import FromAnywhere, Reader
from tests.faults.transactions.stored import read_stored, settled_end
from tests.faults.transactions.told import Histories, Told
from tests.faults.transactions.watch import GroupWatch, StableWatch

WORKERS: Final = 8
"""Of each client, half of them in each group. A transaction waits most of its time, for records and for its
end, so that fewer leave the machine idle."""

SEGMENT_BYTES: Final = "1048576"
"""As small as may be, so that transactions end in other segments than they began in."""

DRAIN_SECONDS: Final = 180.0
"""Within which everything committed is copied and read, once everything serves."""


class Loads:
    """Transactional workers of several clients, readers of both isolations, and watches."""

    def __init__(
        self,
        addresses: Sequence[str],
        directory: Path,
        histories: Histories,
        *,
        seed: int,
        stores: int,
        clients: tuple[str, ...] = CLIENTS,
        workers: int = WORKERS,
    ) -> None:
        self._bootstrap = ",".join(addresses)
        directory.mkdir(parents=True, exist_ok=True)
        self.told = Told(directory / "told.jsonl")
        histories.files.append(self.told.path)
        for topic in TOPICS:
            create_replicated_topic(addresses[0], topic, PARTITIONS, stores, segment_bytes=SEGMENT_BYTES)
        self.clients = [
            Client(each, self._bootstrap, directory, histories, workers, seed) for each in clients
        ]
        for client in self.clients:
            client.start()
        self.committed = Reader("committed", self._bootstrap, COMMITTED, self.told)
        self.uncommitted = Reader("uncommitted", self._bootstrap, UNCOMMITTED, self.told)
        self._anywhere = FromAnywhere(self._bootstrap, self.told, self.committed, seed)
        self._stable = StableWatch(list(addresses), self.told)
        self._groups = GroupWatch(self._bootstrap, self.told)

    def wait_until_all_have_committed(self) -> None:
        for client in self.clients:
            client.wait_until_all_have_committed()

    def finish(self) -> list[Problem]:
        """Everything is copied and read, and all of it is told; what does not end."""
        for client in self.clients:
            client.drain()
        problems = self._wait_until(self._is_copied, "not everything is copied")
        problems += [problem for client in self.clients for problem in client.stop()]
        self._anywhere.stop()
        self._stable.stop()
        self._groups.stop()
        ends = read_stored(self._bootstrap, self.told)
        end = Reader("end", self._bootstrap, COMMITTED, self.told)
        for reader in (self.committed, self.uncommitted, end):
            problems += self._wait_until(partial(reader.has_read, ends), f"{reader.name} does not read all")
            reader.stop()
        self.told.close()
        return problems

    def _wait_until(self, done: Callable[[], bool], otherwise: str) -> list[Problem]:
        deadline = time.monotonic() + DRAIN_SECONDS
        while not done():
            if time.monotonic() > deadline:
                return [Problem("did not go on", otherwise)]
            time.sleep(0.5)
        return []

    def _is_copied(self) -> bool:
        """All that is committed in the inputs is in the copies of each group."""
        if not all(client.has_drained() for client in self.clients) or not self._copies_are_seen():
            return False
        ends = {(INPUTS, part): settled_end(self._bootstrap, INPUTS, part) for part in range(PARTITIONS)}
        settled = {place: end for place, end in ends.items() if end is not None}
        if len(settled) < len(ends) or not self.committed.has_read(settled):
            return False
        return self._copies_are_seen()

    def _copies_are_seen(self) -> bool:
        """Of all inputs that are seen so far."""
        seen = self.committed.values
        copied = [{original_of(value) for value in set(seen[copies_of(group)])} for group in GROUPS]
        return all(each >= seen[INPUTS] for each in copied)

    def kill9(self) -> None:
        for client in self.clients:
            client.kill9()
