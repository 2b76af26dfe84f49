"""Cases that are written and cannot be compared yet, as what they need is not served. Empty once it is.

For each entry pytest shows an expected failure that says how many runs wait and for what, and a true failure
once its API is served: nothing stays here by mistake. `python -m tests.differential` runs them all the same
and says what differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.differential.case import Case


@dataclass(frozen=True)
class NotYet:
    """A pattern over 'file.case' (as in fnmatch), the key of the API that its cases wait for, and why."""

    where: str
    needs: int
    reason: str


# Most cases hold transactions between decision and markers, by WriteTxnMarkers (`transactions.held`).
NOT_YET: list[NotYet] = [
    NotYet("transactions_offsets.*", 28, "groups' offsets in transactions: TxnOffsetCommit is not served"),
    NotYet("transactions_*.*", 27, "transactions are not served whole: WriteTxnMarkers is not"),
]


def not_yet(case: Case) -> NotYet | None:
    """The entry that the case waits for, if it does."""
    return next((entry for entry in NOT_YET if fnmatchcase(case.name, entry.where)), None)
