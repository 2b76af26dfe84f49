"""ListTransactions (key 66), versions 0 to 2: there are none (KIP-664).

A state that Kafka does not know comes back in `unknown_state_filters`. v1 filters by duration, v2 by a
pattern of transactional ids (KIP-1152): one that is no regular expression is INVALID_REGULAR_EXPRESSION.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.common.handlers import Request, Response, api
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

STATES: Final = frozenset(
    (
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
        "PrepareEpochFence",
    )
)  # fmt: skip
"""The states of a transaction (`TransactionState`)."""

MAX_PATTERN_LENGTH: Final = 1_000
"""Characters of a pattern that is looked at; a longer one counts as wrong: compiling costs."""

_Answer: Any = RESPONSE_CLASSES[ApiKey.LIST_TRANSACTIONS]


@api(key=ApiKey.LIST_TRANSACTIONS, name="ListTransactions", min_version=0, max_version=2)
async def list_transactions(request: Request, _broker: Broker) -> Response:
    """None."""
    body = request.body
    pattern = body.transactional_id_pattern
    check_elements(len(body.state_filters), "states")
    error = ErrorCode.NONE
    if pattern is not None and not _is_pattern(pattern):
        error = ErrorCode.INVALID_REGULAR_EXPRESSION
    unknown = [] if error else [s for s in dict.fromkeys(body.state_filters) if s not in STATES]
    whole = _Answer(
        throttle_time_ms=0, error_code=error, unknown_state_filters=unknown, transaction_states=[]
    )
    return await answer_of(len(unknown), request, whole)


def _is_pattern(text: str) -> bool:
    if len(text) > MAX_PATTERN_LENGTH:
        return False
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return True
