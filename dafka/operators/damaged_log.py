"""The command `dafka store accept-loss DIR`: a stopped store gives up the rest of a damaged write-ahead log.

It works on the store's own files: the log is cut at its first bad byte (`mesh.store.log_cut` says before what
that takes), and the directory becomes another store. A gateway, if one runs, is only asked what it knows.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dafka.commands.exits import CommandFailed
from dafka.operators.accept_loss import MAX_ASKED_SEGMENTS
from dafka.operators.socket import NoGateway, OperatorRefused, ask
from mesh.data_directory import DataDirectory, Kind
from mesh.store.db import Database
from mesh.store.identity import learn
from mesh.store.log_cut import Part, look
from mesh.store.opening import examined
from mesh.store.write_ahead.replaying import cut


class DamagedLog:
    """A stopped store whose write-ahead log is damaged. It holds the lock until it is left."""

    def __init__(self, directory: Path, gateway: Path) -> None:
        """Raises DataDirectoryRefused, CommandFailed."""
        if (directory / "store" / "identity.json").is_file():
            raise CommandFailed(
                f"{directory} is of 'dafka standalone', which has one store: start it once with --accept-loss"
            )
        if not (directory / "identity.json").is_file():
            raise CommandFailed(f"{directory}: there is no store in it. Name the directory given to --data")
        self._gateway = gateway
        self._lock = DataDirectory(directory, Kind.STORE)
        self._database = directory / "db"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.close()

    def given_up(self) -> Iterator[str]:
        """What is given up, a line for each segment. Nothing is changed.

        Raises OperatorRefused (the log is not damaged), StoreFailed.
        """
        found = look(self._database) if self._database.is_dir() else None
        if found is None:
            raise OperatorRefused(
                "its write-ahead log is not damaged: there is nothing to give up. Start the store"
            )
        known, note = self._ask([part.segment for part in found.parts])
        yield f"{found.cause}."
        yield f"{found.entries} keys after that byte can be read, and go with it. Of this store go:"
        lines = [line for part in found.parts if (line := _part_line(part, known, self._lock.incarnation))]
        yield from (
            f"  {line}" for line in lines or ["nothing that is known of: every segment is here to its end"]
        )
        if note:
            yield note

    def _ask(self, segments: Sequence[str]) -> tuple[dict[str, dict[str, Any]], str]:
        """What the catalog knows of these segments, by segment; a note if it was not asked."""
        found: dict[str, dict[str, Any]] = {}
        try:
            for first in range(0, len(segments), MAX_ASKED_SEGMENTS):
                piece = segments[first : first + MAX_ASKED_SEGMENTS]
                found |= {one["segment"]: one for one in ask(self._gateway, "loss.segments", addresses=piece)}
        except NoGateway as error:
            return {}, f"What the catalog knows, and which other stores keep it, is not said here: {error}"
        return found, ""

    def give_up(self) -> Iterator[str]:
        """Cut the log; what was done, and what to do next. Raises OSError, DataDirectoryRefused, StoreFailed,
        StoreCorrupt.
        """
        log = examined(self._database)
        old, new = self._lock.incarnation, self._lock.new_incarnation()
        cut(log)
        database = Database(self._database)
        learn(database, new)  # or the next start takes it for the database of another store
        database.close()
        place = f"byte {log.verdict.offset} of {log.verdict.file}"
        yield f"Cut at {place}: {log.verdict.bytes_behind} bytes are gone"
        yield f"The directory is another store now: incarnation {new}, before {old}"
        yield (
            f"Next: start it as before, then 'dafka store admit {new}', 'dafka store replace {old} {new}': "
            "it keeps what is left and fetches the rest from the other stores"
        )


def _part_line(part: Part, known: Mapping[str, Mapping[str, Any]], own: str) -> str:
    """The line of one segment, "" if nothing of it goes."""
    catalog = known.get(part.segment)
    end = part.seen_to
    others = ""
    if catalog is not None:
        if catalog["end"] is not None:
            end = max(end, catalog["end"] - 1)
        names = [name for member, name in catalog["stores"].items() if member != own]
        others = f"; {', '.join(names)} keep it too" if names else "; no other store keeps it"
    first = part.kept_to + 1
    index = part.log.rpartition("/")[2] or "?"
    if catalog is not None:
        index = catalog["partition"]
        first = catalog["start"] if not part.log else first
    name = f"{part.topic}-{index}, segment {part.segment}"
    if end >= first:
        return f"{name}: offsets {first} to {end}{others}"
    if catalog is not None and catalog["end"] is not None:
        return ""
    return f"{name}: offsets from {first} on, if there were any{others}"
