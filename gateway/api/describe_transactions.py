"""DescribeTransactions (key 65), version 0: there are none (KIP-664).

A transactional id is TRANSACTIONAL_ID_NOT_FOUND, an empty one INVALID_REQUEST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.common.handlers import Request, Response, api
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

_Answer: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_TRANSACTIONS]


@api(key=ApiKey.DESCRIBE_TRANSACTIONS, name="DescribeTransactions", min_version=0, max_version=0)
async def describe_transactions(request: Request, _broker: Broker) -> Response:
    """Nobody has begun one."""
    check_elements(len(request.body.transactional_ids), "transactional ids")
    states = await request.work.each(_unknown, request.body.transactional_ids)
    return await answer_of(len(states), request, _Answer(throttle_time_ms=0, transaction_states=states))


def _unknown(transactional_id: str) -> Any:
    return _Answer.TransactionState(
        error_code=(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST),
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )
