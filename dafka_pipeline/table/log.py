"""A Delta table's log, read and written as the files it is: `_delta_log/VERSION.json`, one action of JSON a
line.

Delta's own ways are jobs of Spark: five to look back (DESCRIBE HISTORY), four to commit. These are a few
small files. A commit is one file that must not be there yet, so two that write at once cannot both have the
version. See the Delta transaction log protocol, sections "Delta Log Entries" and "Actions".
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from dafka_pipeline.failures import Refused
from dafka_pipeline.table.data_files import DataFile
from dafka_pipeline.table.location import Files

FOLDER: Final = "_delta_log"
ENGINE: Final = "dafka-pipeline"
READER_VERSION, WRITER_VERSION = 1, 2
"""The protocol of our tables: everything that knows Delta reads it. Commits of ours know no other."""
_NAME: Final = re.compile(r"(\d{20})\.json")
_FEW: Final = ('{"commitInfo"', '{"txn"', '{"protocol"', '{"metaData"')
"""Actions of which a commit has few. The others are long: a file with its statistics each."""
_FILE: Final = '{"add"'
SOME_VERSION: Final = -1
"""A RESTORE to a time does not say which version that was."""
NO_NUMBERS: Final[Mapping[str, int]] = MappingProxyType({})


class Commit(NamedTuple):
    """A commit as the table's log has it.

    said: what was said with it (`userMetadata`). rows: how many it added. restored: the version whose rows it
    brought back (RESTORE), or SOME_VERSION. numbers: by application (`txn`). writer: the protocol's version
    that writers must know from now on; None where the commit does not change it. files: how many it added.
    reshaped: whether it changed the table's columns or properties.
    """

    version: int
    said: str | None
    rows: int
    restored: int | None = None
    numbers: Mapping[str, int] = NO_NUMBERS
    writer: int | None = None
    files: int = 0
    reshaped: bool = False


class DeltaLog:
    """The commits of one table."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._newest: int | None = None

    def newest_version(self) -> int:
        """The version of the newest commit. Raises Refused where there is no log."""
        version = self._newest if self._newest is not None and self.has(self._newest) else self._listed()
        while self.has(version + 1):
            version += 1
        self._newest = version
        return version

    def commits(self) -> Iterator[Commit]:
        """Newest first; as far back as the log still goes (Delta keeps 30 days)."""
        version = self.newest_version()
        while (commit := self._commit(version)) is not None:
            yield commit
            version -= 1

    def after(self, version: int) -> Iterator[Commit]:
        """Those that follow a version, oldest first."""
        while (commit := self._commit(version + 1)) is not None:
            yield commit
            version += 1

    def has(self, version: int) -> bool:
        """Whether the log has the commit itself, not only a checkpoint of it."""
        return self._files.exists(name_of(version))

    def add(self, version: int, actions: Iterable[Mapping[str, Any]]) -> bool:
        """Commit as that version; False where somebody else has it."""
        lines = [json.dumps(action, separators=(",", ":")) for action in actions]
        return self._files.create(name_of(version), "\n".join(lines) + "\n")

    def _commit(self, version: int) -> Commit | None:
        text = None if version < 0 else self._files.read(name_of(version))
        return None if text is None else parse_commit(version, text.split("\n"))

    def _listed(self) -> int:
        versions = [int(found[1]) for name in self._files.names(FOLDER) if (found := _NAME.fullmatch(name))]
        if not versions:
            raise Refused(f"{self._files.location} has no {FOLDER}: there is no Delta table.")
        return max(versions)


def name_of(version: int) -> str:
    """The file of a commit."""
    return f"{FOLDER}/{version:020d}.json"


def parse_commit(version: int, lines: Iterable[str]) -> Commit:
    """A commit out of its lines. One without a `commitInfo` was made by something that writes none."""
    few: dict[str, Any] = {}
    numbers: dict[str, int] = {}
    files = 0
    for line in lines:
        files += line.startswith(_FILE)
        if line.startswith(_FEW):
            action = json.loads(line)
            few |= action
            if "txn" in action:
                numbers[action["txn"]["appId"]] = int(action["txn"]["version"])
    info = few.get("commitInfo") or {}
    rows = int((info.get("operationMetrics") or {}).get("numOutputRows", 0))
    protocol = few.get("protocol")
    writer = None if protocol is None else int(protocol["minWriterVersion"])
    return Commit(
        version, info.get("userMetadata"), rows, _restored(info), numbers, writer, files, "metaData" in few
    )


def appending(
    files: Sequence[DataFile], before: int, said: str | None, number: tuple[str, int] | None
) -> list[dict[str, Any]]:
    """The actions of a commit that adds files to version `before`, and says something.

    number: the application and its number.
    """
    rows, size = sum(one.rows for one in files), sum(one.size for one in files)
    metrics = {"numFiles": str(len(files)), "numOutputRows": str(rows), "numOutputBytes": str(size)}
    info = _info("WRITE", {"mode": "Append"}, before, metrics)
    if said is not None:
        info["userMetadata"] = said
    actions: list[dict[str, Any]] = [{"commitInfo": info}]
    if number is not None:
        actions.append({"txn": {"appId": number[0], "version": number[1], "lastUpdated": _now()}})
    return actions + [{"add": _added(one)} for one in files]


def creating(
    schema: Mapping[str, Any], partitioned_by: Sequence[str], properties: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The actions of a table's first commit."""
    return [
        {"commitInfo": _info("CREATE TABLE", {}, None, {})},
        {"protocol": {"minReaderVersion": READER_VERSION, "minWriterVersion": WRITER_VERSION}},
        {
            "metaData": {
                "id": str(uuid.uuid4()),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": list(partitioned_by),
                "configuration": dict(properties),
                "createdTime": _now(),
            }
        },
    ]


def _added(file: DataFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "partitionValues": dict(file.values),
        "size": file.size,
        "modificationTime": file.modified,
        "dataChange": True,
        "stats": json.dumps(file.statistics, separators=(",", ":")),
    }


def _info(
    operation: str, parameters: Mapping[str, str], before: int | None, metrics: Mapping[str, str]
) -> dict[str, Any]:
    info: dict[str, Any] = {
        "timestamp": _now(),
        "operation": operation,
        "operationParameters": dict(parameters),
        "isolationLevel": "Serializable",
        # It depends on nothing that it has read: a compaction at the same time does not matter to it.
        "isBlindAppend": True,
        "operationMetrics": dict(metrics),
        "engineInfo": ENGINE,
        "txnId": str(uuid.uuid4()),
    }
    return info if before is None else {**info, "readVersion": before}


def _now() -> int:
    return time.time_ns() // 1_000_000


def _restored(info: Mapping[str, Any]) -> int | None:
    if info.get("operation") != "RESTORE":
        return None
    version = (info.get("operationParameters") or {}).get("version")
    return SOME_VERSION if version in {None, "null"} else int(version)
