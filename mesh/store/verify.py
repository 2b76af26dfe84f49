"""`dafka store verify`: every byte of a store that is stopped, read and checked; nothing is changed.

Read are the write-ahead log, every key under RocksDB's checksums, every batch under its CRC; checked are
what must follow from what: sequences without gaps, offsets and epochs, rows, heads. A store that passes
serves what it acknowledged.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mesh.data_directory import DataDirectory, DataDirectoryRefused, Kind
from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.disk import StoreCorrupt
from mesh.store import keys
from mesh.store.checking import AddressCheck
from mesh.store.db import Database, StoreFailed

MAX_PROBLEMS = 1000
"""Problems that are listed; further ones are only counted."""

MAX_UNREADABLE_AN_ADDRESS = 16
"""Places of one address that cannot be read, behind which the rest of it is left out."""

EXIT_GOOD = 0
EXIT_DAMAGED = 3

NEXT_STEP = (
    "if other stores hold the same segments, move the directory away, start an empty store, and let it take"
    " this one's place (dafka store replace): it gets them from the others; otherwise restore the directory"
    " from a copy"
)


class Problem(NamedTuple):
    """`sequence` -1: the address as a whole; `address` "": the store."""

    address: str
    sequence: int
    text: str

    def __str__(self) -> str:
        if not self.address:
            return self.text
        sequence = f", sequence {self.sequence}" if self.sequence >= 0 else ""
        return f"address {self.address}{sequence}: {self.text}"


class Verified(NamedTuple):
    """One address: what it is, how far it goes, and the digest of its records."""

    address: str
    log: str
    phase: Phase
    head: int
    end: int
    bytes: int
    digest: str

    @property
    def is_incomplete(self) -> bool:
        """Closed, and not everything is here: what the store fetches from others when it runs."""
        return self.phase is Phase.CLOSED and self.head < self.end


@dataclass
class Report:
    """What was found."""

    cluster_id: str = ""
    addresses: list[Verified] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    problem_count: int = 0
    records: int = 0
    bytes: int = 0

    @property
    def exit_code(self) -> int:
        return EXIT_DAMAGED if self.problem_count else EXIT_GOOD

    def add(self, address: str, sequence: int, text: str) -> None:
        self.problem_count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(address, sequence, text))

    def lines(self) -> Iterator[str]:
        """The report for people."""
        for problem in self.problems:
            yield str(problem)
        if self.problem_count > len(self.problems):
            yield f"and {self.problem_count - len(self.problems)} more"
        incomplete = [one for one in self.addresses if one.is_incomplete]
        for one in incomplete[:MAX_PROBLEMS]:
            yield (
                f"address {one.address} lacks the records from {one.head + 1} to {one.end}:"
                " the store fetches them from others when it runs"
            )
        found = f"{len(self.addresses)} addresses, {self.records} records, {self.bytes} bytes"
        if self.problem_count:
            yield f"{found} read: {self.problem_count} problems; {NEXT_STEP}"
        else:
            yield f"{found} read: all is well"


def verify(path: Path, progress: Callable[[int], None] = lambda _bytes: None) -> Report:
    """Check the store in the data directory `path` (standalone's has it in `store/`).

    `progress` is told of the bytes read so far, now and then. Raises DataDirectoryRefused when it is in use,
    is no store's, or cannot be opened at all.
    """
    path = path / "store" if (path / "store" / "identity.json").is_file() else path
    if not (path / "identity.json").is_file():
        raise DataDirectoryRefused(path, "there is no store in it", "Name the directory given to --data")
    with DataDirectory(path, Kind.STORE):
        return verify_database(path / "db", progress)


def verify_database(path: Path, progress: Callable[[int], None] = lambda _bytes: None) -> Report:
    """As `verify`, of RocksDB's own directory."""
    report = Report()
    if not path.is_dir():
        # The store was made and never started.
        return report
    try:
        database = Database(path, read_only=True)
    except StoreFailed as error:
        report.add("", -1, f"{path} cannot be opened: {error}")
        return report
    try:
        log = database.examined.verdict
        if log.kind == "corrupt":
            report.add("", -1, f"{log.cause}; nothing else was read")
            return report
        _Verification(database, report, progress).run()
    finally:
        database.close()
    return report


class _Verification:
    def __init__(self, database: Database, report: Report, progress: Callable[[int], None]) -> None:
        self._database = database
        self._report = report
        self._progress = progress

    def run(self) -> None:
        try:
            self._report.cluster_id = self._database.cluster_id()
        except (StoreCorrupt, ValueError) as error:
            self._report.add("", -1, f"the cluster id cannot be read: {error}")
        for address in self._addresses():
            try:
                state = self._database.load(address)
            except StoreCorrupt as error:
                self._report.add(address, -1, str(error))
                continue
            self._verify(state or AddressState(address))
            self._progress(self._report.bytes)

    def _addresses(self) -> Iterator[str]:
        """Every address of which anything is kept: also one whose records have lost their head."""
        seen: set[str] = set()
        for letter in (b"a", b"h", b"m", b"r", b"u"):
            start = letter
            while True:
                try:
                    names = self._database.names_from(letter, start)
                except StoreCorrupt as error:
                    self._report.add("", -1, f"the keys of kind {letter.decode()} cannot be listed: {error}")
                    break
                if names is None:
                    break
                name, start = names
                if name not in seen:
                    seen.add(name)
                    yield name

    def _verify(self, state: AddressState) -> None:
        report, address = self._report, state.address
        check = AddressCheck(state)
        unreadable = 0
        rows = _Rows(self._database, address)
        prefix = keys.record_prefix(address)
        start = prefix
        while unreadable <= MAX_UNREADABLE_AN_ADDRESS:
            try:
                for key, content in self._database.scan(start, keys.prefix_end(prefix)):
                    start = key + b"\0"
                    sequence = keys.sequence_of(key)
                    wrong = check.take(sequence, content, rows.at(sequence))
                    report.records += 1
                    report.bytes += len(content)
                    if wrong:
                        report.add(address, sequence, wrong)
                break
            except StoreCorrupt as error:
                unreadable += 1
                report.add(address, check.next, f"{error}")
                check.skip(check.next + 1)
                start = prefix + keys.sequence_bytes(check.next)
        else:
            report.add(address, check.next, "too much of it cannot be read: the rest was left out")
            return
        wrong = check.end() or rows.end(check.next)
        if wrong:
            report.add(address, -1, wrong)
        if state.phase is Phase.DELETED and check.next:
            report.add(address, -1, "it was deleted, and has records")
        log = state.announcement.log if state.announcement else ""
        report.addresses.append(
            Verified(address, log, state.phase, state.head, state.end, check.bytes, check.digest)
        )


class _Rows:
    """The rows of one address, read along with its records."""

    def __init__(self, database: Database, address: str) -> None:
        self._database = database
        self._prefix = keys.row_prefix(address)
        self._rows = self._from(self._prefix)
        self._ahead: tuple[int, bytes] | None = None

    def at(self, sequence: int) -> bytes | None:
        """The row of this sequence, None if there is none. Sequences ascend. Raises `StoreCorrupt`."""
        while True:
            try:
                ahead = self._ahead or next(self._rows, None)
            except StoreCorrupt:
                self._rows = self._from(self._prefix + keys.sequence_bytes(sequence + 1))
                raise
            self._ahead = ahead
            if ahead is None or ahead[0] > sequence:
                return None
            self._ahead = None
            if ahead[0] == sequence:
                return ahead[1]

    def end(self, behind: int) -> str:
        """What is wrong behind the last record: "" if there are no rows."""
        left = self._ahead or next(self._from(self._prefix + keys.sequence_bytes(behind)), None)
        return f"there is a row of sequence {left[0]}, and no record" if left else ""

    def _from(self, start: bytes) -> Iterator[tuple[int, bytes]]:
        for key, row in self._database.scan(start, keys.prefix_end(self._prefix)):
            yield keys.sequence_of(key), row
