"""Who may ask for delegation tokens: on which connections, and what is answered elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from gateway.common.handlers import Request

NO_TIME: Final = -1
"""A time in an answer to who may not ask (`DelegationTokenManager.ERROR_TIMESTAMP`)."""


def may_ask(request: Request) -> bool:
    """Whether who asks has shown who he is, and not by a token (`KafkaApis.allowTokenRequests`): otherwise a
    token would live for ever, by others that are asked for with it.
    """
    if request.sasl is None:
        return request.access.principal != ANONYMOUS
    return not request.sasl.token_id
