"""What a write-ahead log that was read is good for: what of it is replayed, and whether anything is missing.

Rule: a commit that must be here, as one of the witnesses says, and is neither in tables nor whole in the log,
is a loss: then the log is `corrupt`, and nothing of it is used until somebody accepts that. What no witness
names may never have been fsynced: if it is not whole, it goes, and whatever comes behind it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from mesh.store.write_ahead.entries import FILE_HEADER_BYTES, Entry
from mesh.store.write_ahead.reading import ReadFile

Kind = Literal["none", "torn", "corrupt"]


class Verdict(NamedTuple):
    """`replayed`: the entries that go on from the tables, each with its file, in order. `last`: the commit to
    which tables and log come without a gap.

    Of what stands behind that, `none` means nothing, `torn` something that no witness names. For `corrupt`
    and `torn`, `file` and `offset` say where the first commit is missing; `file` is the directory where no
    file of the log is left that could have had it. `bytes_behind` are those of the log from there on.
    """

    replayed: tuple[tuple[ReadFile, Entry], ...]
    last: int
    kind: Kind
    file: Path
    offset: int
    bytes_behind: int
    reason: str

    @property
    def cause(self) -> str:
        """One clause for the operator: where, why, and how much."""
        found = f"{self.file} is {self.kind} from byte {self.offset} on: {self.reason}"
        return f"{found} ({self.bytes_behind} bytes to the end of the log)" if self.bytes_behind else found

    @property
    def next_step(self) -> str:
        """What an operator can do about a corrupt log."""
        return (
            "If other stores hold its data, start an empty store and let it take this one's place (dafka"
            " store replace); else restore the directory from a copy. To go on without everything from that"
            " byte on, 'dafka store accept-loss DIR' says first what that is (dafka standalone: start once"
            " with --accept-loss)"
        )


def judge(directory: Path, files: Sequence[ReadFile], tables: int, mark: int) -> Verdict:
    """`files` in the order of their commits; `tables` is the last commit in tables, `mark` the last one that
    the file `come-to` names.
    """
    replayed: list[tuple[ReadFile, Entry]] = []
    last, at, offset = tables, None, 0
    for file in files:
        if file.first <= last + 1:
            at, offset = file, FILE_HEADER_BYTES
        for entry in file.entries:
            if entry.number == last + 1:
                replayed.append((file, entry))
                last = entry.number
            if entry.number <= last:
                offset = entry.end
    known = [entry for file in files for entry in file.entries]
    must_be_here = max([mark, *(entry.fsynced for entry in known)])
    later = [entry for entry in known if entry.number > last]
    kind: Kind = "none"
    reason = "whole"
    if must_be_here > last:
        kind = "corrupt"
        reason = f"the log went to commit {must_be_here} at least, and {_found(last + 1, known)}"
    elif later or (at is not None and at.kind == "torn" and at.next > last):
        kind = "torn"
        reason = f"commit {last + 1} is not whole"
        if later:
            reason += f", and {len(later)} whole ones behind it are witnessed by nothing, either"
    path = directory if at is None else at.path
    behind = sum(file.torn_end for file in files if file is not at and file.first > last + 1)
    if at is not None:
        behind += max(at.torn_end - offset, 0)
    return Verdict(tuple(replayed), last, kind, path, offset, behind, reason)


def _found(missing: int, known: Sequence[Entry]) -> str:
    """What is there of them."""
    whole = sum(entry.number > missing for entry in known)
    return f"commit {missing} cannot be read" + (f", with {whole} whole ones behind it" if whole else "")
