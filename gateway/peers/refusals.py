"""Other gateways that refuse what only a gateway of their cluster may ask."""

from __future__ import annotations

import logging

from gateway.common.log_limit import warn_once
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode

logger = logging.getLogger(__name__)


def say_if_refused(gateway: int, key: ApiKey, error: int) -> None:
    """Log it, once, if this is the error: it lasts until somebody changes something, and meanwhile
    transactions wait.
    """
    if error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        warn_once(
            logger,
            "gateway %s refuses %s: there, give CLUSTER_ACTION on the cluster to the user as which this "
            "gateway connects, or name it with --super-user; until then transactions wait",
            gateway,
            key.name,
        )
