"""Cases that are written and cannot be compared yet, as what they need is not served. Empty once it is.

While there are entries pytest shows an expected failure that says how many runs wait and for what, and a
true one once an entry's API is served: nothing stays here by mistake. `python -m tests.differential` runs
them all the same and says what differs. Those that wait for no API are run by pytest, too, which says when
none of them differs any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.differential.case import Case


@dataclass(frozen=True)
class NotYet:
    """A pattern over 'file.case' (as in fnmatch), the key of the API that its cases wait for, and why.

    Without a key they wait for something else: until then some of them differ.
    """

    where: str
    needs: int | None
    reason: str


NOT_YET: list[NotYet] = [
    NotYet(
        "sasl.others_between", None, "ILLEGAL_SASL_STATE as each API's own answer, while a token is awaited"
    ),
]
"""The first entry that a case matches is its own."""


def not_yet(case: Case) -> NotYet | None:
    """The entry that the case waits for, if it does."""
    return next((entry for entry in NOT_YET if fnmatchcase(case.name, entry.where)), None)
