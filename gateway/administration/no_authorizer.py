"""What an operation on ACLs is answered here: SECURITY_DISABLED, as by a Kafka without an authorizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from wireproto.kafka.errors import ErrorCode

NO_AUTHORIZER: Final = "No Authorizer is configured."
"""Said to those who change ACLs (`AclApis.handleCreateAcls`)."""

NO_AUTHORIZER_ON_BROKER: Final = "No Authorizer is configured on the broker"
"""Said to those who ask for them (`AclApis.handleDescribeAcls`)."""

_R = TypeVar("_R")


def security_disabled(made: Callable[..., _R], message: str = NO_AUTHORIZER, **fields: object) -> _R:
    """An answer, or one element of it, that refuses: `made` (a class of kafka-python's) with `fields`."""
    return made(error_code=ErrorCode.SECURITY_DISABLED, error_message=message, **fields)
