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


TOLD = "Kafka's answer, where this one differs: "
NOT_YET: list[NotYet] = [
    NotYet("sasl.tokens_before", None, f"{TOLD}a token before the handshake closes the connection"),
    NotYet("sasl.others_between", None, f"{TOLD}ILLEGAL_SASL_STATE to other APIs while a token is awaited"),
    NotYet("scram_users.*", None, f"{TOLD}messages, and the refusals of users who are named twice"),
    NotYet(
        "authorization_cluster.users*", None, f"{TOLD}messages, and the refusals of users who are named twice"
    ),
    NotYet("authorization_records.followed-*", None, f"{TOLD}followers without rights are told of no ids"),
    NotYet(
        "authorization_records.offsets_seen_twice-*", None, f"{TOLD}a hidden partition, each time it is named"
    ),
    NotYet("authorization_topics.pages_seen-*", None, f"{TOLD}hidden topics count for no page"),
    *(
        NotYet(f"{group}.*", None, "ACLs that can be created, and APIs that ask what a client may do")
        for group in (
            "acl_administration",
            "authorization_cluster",
            "authorization_groups",
            "authorization_records",
            "authorization_topics",
            "authorization_transactions",
        )
    ),
]
"""The first entry that a case matches is its own."""


def not_yet(case: Case) -> NotYet | None:
    """The entry that the case waits for, if it does."""
    return next((entry for entry in NOT_YET if fnmatchcase(case.name, entry.where)), None)
