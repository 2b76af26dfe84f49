"""What one connection may do. Handlers ask here, for each resource that a request names.

Two ways to ask. `may` is for what is to be done: that it is denied is worth telling. `sees` is for what only
shapes an answer (what is left out of a list, the first half of an either-or, the operations that are
allowed): the answers are the same, and nobody was denied anything.

A hot path asks the same few things with every request: that is a dictionary's look-up. An authorizer is
another object after each change of the ACLs, so what was remembered of the one before is forgotten then.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Final, Protocol

from gateway.security.acls import SUPPORTED, Operation, ResourceType
from gateway.security.authorizer import Authorizer, Decision
from gateway.security.principal import ANONYMOUS, Principal

MAX_REMEMBERED: Final = 1_000
"""Answers of a connection that are kept: some 200 bytes each, and the name."""

MAX_REMEMBERED_CHARS: Final = 249
"""Longest name that is kept with its answer: that of a topic. A client may write 32,000."""

Question = tuple[Operation, ResourceType, str]


class Access(Protocol):
    """What somebody may do from somewhere."""

    principal: Principal
    api: str
    """The name of the API that is asked, for who is told of denied requests."""

    is_unrestricted: bool
    """Everything is allowed, to everybody: there is no authorizer."""
    owner: Principal | None
    """To whom belongs what he makes; None without an authorizer: to nobody."""

    @property
    def basis(self) -> object:
        """The same object for as long as all answers are the same."""

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether it may be done with a resource. A "no" is a denied request."""

    def sees(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """As `may`; a "no" only shapes an answer, or something else is asked then."""

    def may_somewhere(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether it may be done with some resource of this type."""

    def operations(self, resource_type: ResourceType, name: str) -> frozenset[Operation]:
        """All that may be done with a resource, for answers that tell it."""


class Unrestricted:
    """Where there is no authorizer."""

    is_unrestricted = True
    basis: object = None
    owner: Principal | None = None

    def __init__(self, principal: Principal = ANONYMOUS) -> None:
        self.principal = principal
        self.api = ""

    def may(self, _operation: Operation, _resource_type: ResourceType, _name: str) -> bool:
        return True

    sees = may

    def may_somewhere(self, _operation: Operation, _resource_type: ResourceType) -> bool:
        return True

    def operations(self, resource_type: ResourceType, _name: str) -> frozenset[Operation]:
        return SUPPORTED[resource_type]


UNRESTRICTED: Final = Unrestricted()
"""Of requests that come from no client: the gateway's own."""


def _nobody_is_told(_access: ByAcls, _question: Question) -> None:
    """Denied requests are of no interest."""


class ByAcls:
    """`authorizer` gives the one that is in force now. `address` is the client's, as the socket has it.
    `denied` is told of each denied request.
    """

    is_unrestricted = False

    def __init__(
        self,
        principal: Principal,
        address: str,
        authorizer: Callable[[], Authorizer],
        denied: Callable[[ByAcls, Question], object] = _nobody_is_told,
    ) -> None:
        self.principal = principal
        self.owner: Principal | None = principal
        self.host = java_address(address)
        self.api = ""
        self._authorizer = authorizer
        self._denied = denied
        self._asked: Authorizer | None = None
        self._remembered: dict[Question, bool] = {}
        self._somewhere: dict[tuple[Operation, ResourceType], bool] = {}
        self._basis = object()

    @property
    def basis(self) -> object:
        self._in_force()
        return self._basis

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        if self.sees(operation, resource_type, name):
            return True
        self._denied(self, (operation, resource_type, name))
        return False

    def sees(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        authorizer = self._in_force()
        question = operation, resource_type, name
        answer = self._remembered.get(question)
        if answer is None:
            answer = self._decide(authorizer, question).is_allowed
            if len(name) > MAX_REMEMBERED_CHARS:
                return answer
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()  # whoever asks about so many is not quick anyway
            self._remembered[question] = answer
        return answer

    def may_somewhere(self, operation: Operation, resource_type: ResourceType) -> bool:
        authorizer = self._in_force()
        question = operation, resource_type
        answer = self._somewhere.get(question)
        if answer is None:
            # Idempotent producers ask so, each when it begins; it goes through all lines of a principal.
            answer = authorizer.may_somewhere(self.principal, self.host, operation, resource_type)
            self._somewhere[question] = answer
        return answer

    def operations(self, resource_type: ResourceType, name: str) -> frozenset[Operation]:
        return frozenset(one for one in SUPPORTED[resource_type] if self.sees(one, resource_type, name))

    def _in_force(self) -> Authorizer:
        """That of now; what another one has answered is forgotten."""
        authorizer = self._authorizer()
        if authorizer is not self._asked:
            self._asked, self._remembered, self._somewhere = authorizer, {}, {}
            self._basis = object()
        return authorizer

    def _decide(self, authorizer: Authorizer, question: Question) -> Decision:
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
