"""What one connection may do: the authorizer's answers for its principal and address, remembered.

A hot path asks the same few things with every request: that is a dictionary's look-up. An authorizer is
another object after each change of the ACLs, so what was remembered of the one before is forgotten then.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Final

from gateway.security.acls import Operation, ResourceType
from gateway.security.authorizer import Authorizer, Decision
from gateway.security.principal import Principal

MAX_REMEMBERED: Final = 1_000
"""Answers of a connection that are kept: some 200 bytes each."""

_Question = tuple[Operation, ResourceType, str]


class Access:
    """`authorizer` gives the one that is in force now. `address` is the client's, as the socket has it."""

    def __init__(self, principal: Principal, address: str, authorizer: Callable[[], Authorizer]) -> None:
        self.principal = principal
        self.host = java_address(address)
        self._authorizer = authorizer
        self._asked: Authorizer | None = None
        self._remembered: dict[_Question, bool] = {}

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the client may do this with a resource."""
        authorizer = self._authorizer()
        if authorizer is not self._asked:
            self._asked, self._remembered = authorizer, {}
        question = operation, resource_type, name
        answer = self._remembered.get(question)
        if answer is None:
            answer = self._decide(authorizer, question).is_allowed
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()  # whoever asks about so many is not quick anyway
            self._remembered[question] = answer
        return answer

    def may_somewhere(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the client may do it with some resource of this type."""
        return self._authorizer().may_somewhere(self.principal, self.host, operation, resource_type)

    def _decide(self, authorizer: Authorizer, question: _Question) -> Decision:
        return authorizer.decide(self.principal, self.host, *question)


def java_address(address: str) -> str:
    """As Java's `getHostAddress` writes an address, by which Kafka's ACLs compare it: IPv6 with all of its
    groups, and IPv4 that came over IPv6 as IPv4. (Java adds the scope of a link-local one; ACLs never have
    it, since it is this machine's own.)
    """
    found = ip_address(address.partition("%")[0])
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in found.exploded.split(":"))
