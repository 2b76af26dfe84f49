"""What a start says of listeners that anybody may use. Nothing is refused: Kafka refuses nothing there."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from gateway.front.listeners import ListenerSpec
from mesh.protocol.endpoints import is_loopback

logger = logging.getLogger(__name__)


def warn_of_open_listeners(
    listeners: Iterable[ListenerSpec], *, has_acls: bool, asks_certificates: bool
) -> None:
    """Log which of them anybody may use who reaches it.

    `asks_certificates`: clients of listeners with TLS have to show one. With ACLs who does not say who he is
    is `User:ANONYMOUS`, who may do nothing unless somebody let him.
    """
    for listener in () if has_acls else listeners:
        asks = listener.protocol.has_sasl or (listener.protocol.has_tls and asks_certificates)
        if not asks and not is_loopback(listener.host):
            logger.warning(
                "--listen %s asks nobody who they are, and without --authorizer acl whoever reaches it may "
                "read, write and delete everything. Unless a network keeps everybody else away, see "
                "docs/security.md",
                listener,
            )
