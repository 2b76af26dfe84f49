"""AddOffsetsToTxn (key 25), versions 0 to 4: a transaction is about to commit a group's offsets.

Behaviour
  The partition of `__consumer_offsets` that has the group gets the transaction's marker, as any other
  partition (`gateway.transactions.adding`); the group need not exist. Answered when it is durable.

Version notes
  v2 may answer PRODUCER_FENCED, before that it is INVALID_PRODUCER_EPOCH. v3 is flexible. v4
  TRANSACTION_ABORTABLE, which does not happen here.

Errors
  As AddPartitionsToTxn. TRANSACTIONAL_ID_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED: the client may not
  WRITE with the id, or READ the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.answers.encoding import answer
from gateway.answers.fenced import as_known
from gateway.common.costs import HASHED_CHARACTER, TRANSACTION_PARTITION
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import Operation, ResourceType
from gateway.transactions.adding import AddPartitions
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

FENCED_SINCE_VERSION: Final = 2

_Answer: Any = RESPONSE_CLASSES[ApiKey.ADD_OFFSETS_TO_TXN]


@api(key=ApiKey.ADD_OFFSETS_TO_TXN, name="AddOffsetsToTxn", min_version=0, max_version=4)
async def add_offsets_to_txn(request: Request, broker: Broker) -> Response:
    """Have a group's partition in the transaction."""
    try:
        error = await _add(request, broker)
    except KafkaError as refused:
        error = refused.code
    knows_fenced = request.header.api_version >= FENCED_SINCE_VERSION
    return answer(request, _Answer(throttle_time_ms=0, error_code=as_known(error, knows_fenced=knows_fenced)))


async def _add(request: Request, broker: Broker) -> ErrorCode:
    """Raises KafkaError."""
    body, transactions = request.body, broker.transactions
    name = body.transactional_id
    if not request.access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not request.access.may(Operation.READ, ResourceType.GROUP, body.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not name:
        return ErrorCode.INVALID_REQUEST
    await request.work.before(
        HASHED_CHARACTER * (len(name) + len(body.group_id))
        + TRANSACTION_PARTITION * transactions.partitions_of(name)
    )
    place = await broker.groups.place_of(body.group_id)
    wanted = AddPartitions(body.producer_id, body.producer_epoch, frozenset((place,)))
    return (await transactions.add(name, wanted, request.client)).error
