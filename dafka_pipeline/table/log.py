"""A Delta table's log, read as the files it is: `_delta_log/VERSION.json`, one action of JSON a line.

Delta's own way (DESCRIBE HISTORY) is a job of Spark for each question; these are a few small files. See the
Delta transaction log protocol, section "Delta Log Entries".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from dafka_pipeline.failures import Refused
from dafka_pipeline.table.location import Files

FOLDER: Final = "_delta_log"
_NAME: Final = re.compile(r"(\d{20})\.json")


class Commit(NamedTuple):
    """A commit as the table's log has it.

    said: what was said with it (`userMetadata`). rows: how many it added. restored: the version whose rows it
    brought back (RESTORE).
    """

    version: int
    said: str | None
    rows: int
    restored: int | None = None


class DeltaLog:
    """The commits of one table."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._newest: int | None = None

    def newest_version(self) -> int:
        """The version of the newest commit. Raises Refused where there is no log."""
        version = self._newest if self._newest is not None and self._exists(self._newest) else self._listed()
        while self._exists(version + 1):
            version += 1
        self._newest = version
        return version

    def commits(self) -> Iterator[Commit]:
        """Newest first; as far back as the log still goes (Delta keeps 30 days)."""
        version = self.newest_version()
        while version >= 0:
            text = self._files.read(name_of(version))
            if text is None:
                return
            yield parse_commit(version, text.splitlines())
            version -= 1

    def _listed(self) -> int:
        versions = [int(found[1]) for name in self._files.names(FOLDER) if (found := _NAME.fullmatch(name))]
        if not versions:
            raise Refused(f"{self._files.location} has no {FOLDER}: there is no Delta table.")
        return max(versions)

    def _exists(self, version: int) -> bool:
        return self._files.exists(name_of(version))


def name_of(version: int) -> str:
    """The file of a commit."""
    return f"{FOLDER}/{version:020d}.json"


def parse_commit(version: int, lines: Iterable[str]) -> Commit:
    """A commit out of its lines. One without a `commitInfo` was made by something that writes none."""
    info: dict[str, Any] = {}
    for line in lines:
        # The others are long: a file with its statistics each.
        if '"commitInfo"' in line:
            info = json.loads(line).get("commitInfo", info)
    rows = int((info.get("operationMetrics") or {}).get("numOutputRows", 0))
    return Commit(version, info.get("userMetadata"), rows, _restored(info))


def _restored(info: dict[str, Any]) -> int | None:
    if info.get("operation") != "RESTORE":
        return None
    version = (info.get("operationParameters") or {}).get("version")
    if version in {None, "null"}:
        raise Refused(
            "The table was restored to a time, and its log does not say which version that was. Restore it "
            "to a version (RESTORE TABLE ... TO VERSION AS OF N)."
        )
    return int(version)
