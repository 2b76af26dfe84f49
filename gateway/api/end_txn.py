"""EndTxn (key 26), versions 0 to 5: a producer commits or aborts its transaction.

Behaviour
  The rules are those of `gateway.transactions.ending`. Answered when the decision is durable; the markers of
  the partitions follow, and until they are written the id is CONCURRENT_TRANSACTIONS for whoever asks.

Version notes
  v2 may answer PRODUCER_FENCED, before that it is INVALID_PRODUCER_EPOCH. v3 is flexible. v5 is the newer
  protocol (KIP-890): the answer has the id and epoch with which the producer goes on.

Errors
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED: the client may not WRITE with the id.
  Not durable in five seconds: COORDINATOR_NOT_AVAILABLE. Clients try again; it may have been decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.answers.encoding import answer
from gateway.answers.fenced import as_known
from gateway.common.costs import HASHED_CHARACTER, TRANSACTION_PARTITION
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import Operation, ResourceType
from gateway.transactions.ending import EndTxn
from gateway.transactions.metadata import BUMPS_EPOCH_FROM
from gateway.transactions.outcomes import Answer
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

FENCED_SINCE_VERSION: Final = 2
NEXT_EPOCH_SINCE_VERSION: Final = 5

_Answer: Any = RESPONSE_CLASSES[ApiKey.END_TXN]


@api(key=ApiKey.END_TXN, name="EndTxn", min_version=0, max_version=5)
async def end_txn(request: Request, broker: Broker) -> Response:
    """Decide the end of a transaction."""
    version = request.header.api_version
    try:
        ended = await _end(request, broker)
    except KafkaError as refused:
        ended = Answer(refused.code)
    fields: dict[str, int] = {}
    if version >= NEXT_EPOCH_SINCE_VERSION:
        fields = {"producer_id": ended.producer_id, "producer_epoch": ended.producer_epoch}
    error = as_known(ended.error, knows_fenced=version >= FENCED_SINCE_VERSION)
    return answer(request, _Answer(throttle_time_ms=0, error_code=error, **fields))


async def _end(request: Request, broker: Broker) -> Answer:
    """Raises KafkaError."""
    body, transactions = request.body, broker.transactions
    name = body.transactional_id
    if not request.access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return Answer(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not name:
        return Answer(ErrorCode.INVALID_REQUEST)
    await request.work.before(
        HASHED_CHARACTER * len(name) + TRANSACTION_PARTITION * transactions.partitions_of(name)
    )
    client_version = BUMPS_EPOCH_FROM if request.header.api_version >= NEXT_EPOCH_SINCE_VERSION else 0
    wanted = EndTxn(body.producer_id, body.producer_epoch, body.committed, client_version)
    return await transactions.end(name, wanted, request.client)
