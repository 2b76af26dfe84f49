"""An `Access` that writes down what it is asked, and says no to what it is told to."""

from __future__ import annotations

from typing import NamedTuple

from gateway.security.acls import SUPPORTED, Operation, ResourceType
from gateway.security.principal import USER, Principal


class Question(NamedTuple):
    """What is asked of an `Access`, whatever the resource is called.

    Without an operation: all of them, to be told. `anywhere`: whether there is any such resource.
    """

    operation: Operation | None
    resource_type: ResourceType
    anywhere: bool = False


class Recording:
    """Allows all that is not in `denied`."""

    is_unrestricted = False
    principal = Principal(USER, "recorded")
    """Somebody, as if by a certificate: who is not known may not ask for everything."""
    owner: Principal | None = principal
    api = ""

    @property
    def basis(self) -> object:
        """What is denied may be something else each time."""
        return object()

    def __init__(self) -> None:
        self.denied: frozenset[Question] = frozenset()
        self.asked: dict[Question, None] = {}
        """In the order of the first time."""

    def may(self, operation: Operation, resource_type: ResourceType, _name: str) -> bool:
        return self._allows(Question(operation, resource_type))

    sees = may

    def may_somewhere(self, operation: Operation, resource_type: ResourceType) -> bool:
        return self._allows(Question(operation, resource_type, anywhere=True))

    def operations(self, resource_type: ResourceType, _name: str) -> frozenset[Operation]:
        return SUPPORTED[resource_type] if self._allows(Question(None, resource_type)) else frozenset()

    def _allows(self, question: Question) -> bool:
        self.asked[question] = None
        return question not in self.denied
