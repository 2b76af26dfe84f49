"""Changes of topics are charged by the partitions that they make or delete (KIP-599)."""

from __future__ import annotations

from gateway.common.handlers import Request
from wireproto.kafka.errors import ErrorCode, KafkaError

EXCEEDED = "The throttling quota has been exceeded."


def charge_partitions(request: Request, partitions: int, *, strict_from: int) -> None:
    """Charge the client of a request that is right; also where it only asks whether it would be.

    Raises KafkaError: THROTTLING_QUOTA_EXCEEDED, it has changed too much lately. Versions before
    `strict_from` cannot be told so: there the change is made, and the client waits.
    """
    charges = request.charges
    if charges is not None and not charges.may_change(
        partitions, strictly=request.header.api_version >= strict_from
    ):
        raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, EXCEEDED)
