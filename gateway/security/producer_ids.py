"""Producer ids that are of use only to whom they were given. Pure.

Rule: who writes with such an id is whom the id says, or nothing of what he sends is looked at. Kafka binds
ids to nobody: whoever may write to a topic and knows, or guesses, the id of another producer there can use up
its next sequence, so that the other's record is taken for a duplicate and lost, or fence it by an epoch.

The id itself says for whom it is, so that nothing is kept for each. It is a positive number of 63 bits ::

    1 | mark of the secret, 8 bits | count, 34 bits | proof, 20 bits

The count is what the catalog gives out in blocks; the proof is the beginning of a keyed BLAKE2b (RFC 7693) of
the count and of whom it is for, with a key that is made from the cluster's own secret. It is for a principal,
or for a transactional id: several principals may share one of those, and each of them needs WRITE for it.

What is for nobody in particular is anybody's: ids without the highest bit, which older gateways gave, or
which were made up; and those of another secret, which a catalog had that is lost. So nobody's producer
breaks. (Of 256 other secrets one has the same mark; then old ids are refused, and producers begin anew.)

By chance an id fits somebody else too: once in a million (2^20). The count is no secret, and nothing depends
on that.
"""

from __future__ import annotations

import hashlib
import hmac
from struct import Struct
from typing import Final, TypeAlias

from gateway.security.principal import Principal

BOUND: Final = 1 << 62
"""Ids from here on say for whom they are."""

COUNT_BITS: Final = 34
"""Bits of the count: 17 thousand million ids. An id with a larger count is for nobody in particular."""

PROOF_BITS: Final = 20
"""Bits of the proof: a guess is right once in 2^20, and a refusal tells nothing that helps with the next."""

Whom: TypeAlias = Principal | str
"""A principal, or a transactional id."""

HTTP_CLIENTS: Final = Principal("Http", "clients")
"""Whoever appends records by HTTP: who has the token of that door."""

_PROOF_BYTES: Final = 3
_INPUT: Final = Struct(">QB")
_OF_PRINCIPAL: Final = 0
_OF_TRANSACTIONAL_ID: Final = 1


class ProducerIdBinding:
    """With one secret: the cluster's own, from which other things are made as well."""

    __slots__ = ("_keyed", "_mark")

    def __init__(self, secret: bytes) -> None:
        key = hmac.digest(secret, b"producer ids", "sha512")
        self._keyed = hashlib.blake2b(key=key, digest_size=_PROOF_BYTES)
        self._mark = hashlib.blake2b(b"which secret it is", key=key, digest_size=1).digest()[0]

    def bind(self, count: int, whom: Whom) -> int:
        """The id for `whom` with this count (0 or more). A count of more than COUNT_BITS is itself the id,
        and anybody's.
        """
        if count >> COUNT_BITS:
            return count
        high = BOUND | self._mark << (COUNT_BITS + PROOF_BITS)
        return high | count << PROOF_BITS | self._proof(count, whom)

    def is_mine(self, producer_id: int) -> bool:
        """Whether an id (63 bits) says for whom it is, by this secret."""
        return producer_id >> (COUNT_BITS + PROOF_BITS) == BOUND >> (COUNT_BITS + PROOF_BITS) | self._mark

    def fits(self, producer_id: int, whom: Whom) -> bool:
        """Whether an id that `is_mine` is for `whom`: three microseconds, and ten more for each 2,000
        characters of a name.
        """
        count = (producer_id >> PROOF_BITS) & ((1 << COUNT_BITS) - 1)
        return producer_id & ((1 << PROOF_BITS) - 1) == self._proof(count, whom)

    def _proof(self, count: int, whom: Whom) -> int:
        kind = _OF_PRINCIPAL if isinstance(whom, Principal) else _OF_TRANSACTIONAL_ID
        keyed = self._keyed.copy()
        keyed.update(_INPUT.pack(count, kind) + str(whom).encode("utf-8", "surrogatepass"))
        return int.from_bytes(keyed.digest(), "big") >> (8 * _PROOF_BYTES - PROOF_BITS)
