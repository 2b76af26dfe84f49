"""InitProducerId (key 22), versions 0 to 5: a new id for an idempotent producer, and the next epoch of a
transactional one.

Behaviour
  Without a transactional id: a producer id that was never given before, epoch 0. An id and epoch that the
  producer already has make no difference (only both or neither may be given), nor does the timeout.
  With one: the rules are those of `gateway.transactions.initialising`. A transaction that is open is aborted
  first, and the answer is CONCURRENT_TRANSACTIONS until that is done. The first such request makes the topic
  of transactions.
  COORDINATOR_LOAD_IN_PROGRESS while too few stores remember the next block of ids: clients ask again.

  Who has an id needs WRITE for it (TRANSACTIONAL_ID_AUTHORIZATION_FAILED), who has none IDEMPOTENT_WRITE, or
  WRITE for some topic (CLUSTER_AUTHORIZATION_FAILED).

Version notes
  v2 is flexible. v3 brings the producer's present id and epoch (KIP-360). v4 may answer PRODUCER_FENCED,
  before that it is INVALID_PRODUCER_EPOCH. v5 TRANSACTION_ABORTABLE, which does not happen here.

Errors
  Not durable in five seconds, or no room for another transactional id (`gateway.transactions.room`):
  COORDINATOR_NOT_AVAILABLE. Clients try again.

Skipped
  v6 (KIP-939, two-phase commit): Kafka 4.3 does not offer it either.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from gateway.answers.encoding import answer
from gateway.answers.fenced import as_known
from gateway.common.costs import HASHED_CHARACTER
from gateway.common.handlers import Request, Response, api
from gateway.common.log_limit import warn_once
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from gateway.transactions.initialising import InitProducerId
from gateway.transactions.metadata import NO_EPOCH, NO_PRODUCER_ID
from gateway.transactions.outcomes import Answer
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.security.access import Access

FENCED_SINCE_VERSION: Final = 4

logger = logging.getLogger(__name__)
_Answer: Any = RESPONSE_CLASSES[ApiKey.INIT_PRODUCER_ID]


@api(key=ApiKey.INIT_PRODUCER_ID, name="InitProducerId", min_version=0, max_version=5)
async def init_producer_id(request: Request, broker: Broker) -> Response:
    """Give a producer its id and epoch."""
    try:
        given = await _give(request, broker)
    except KafkaError as refused:
        given = Answer(refused.code)
    knows_fenced = request.header.api_version >= FENCED_SINCE_VERSION
    response = _Answer(
        throttle_time_ms=0,
        error_code=as_known(given.error, knows_fenced=knows_fenced),
        producer_id=given.producer_id,
        producer_epoch=given.producer_epoch,
    )
    return answer(request, response)


async def _give(request: Request, broker: Broker) -> Answer:
    """Raises KafkaError."""
    body = request.body
    if body.transactional_id is None:
        if not _may_be_idempotent(request.access):
            return Answer(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    elif not request.access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id):
        return Answer(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if (body.producer_id == NO_PRODUCER_ID) != (body.producer_epoch == NO_EPOCH):
        return Answer(ErrorCode.INVALID_REQUEST)
    if body.transactional_id is None:
        return Answer(ErrorCode.NONE, await broker.allocate_producer_id(), 0)
    if not body.transactional_id:
        return Answer(ErrorCode.INVALID_REQUEST)
    await request.work.before(HASHED_CHARACTER * len(body.transactional_id))
    wanted = InitProducerId(body.transaction_timeout_ms, body.producer_id, body.producer_epoch)
    try:
        return await broker.transactions.init_producer_id(body.transactional_id, wanted, request.client)
    except KafkaError as refused:
        if refused.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        warn_once(
            logger,
            "a producer with transactional.id %r was refused: %s",
            body.transactional_id[:100],
            refused.message,
        )
        # On this one Java and librdkafka give up at once. On most others librdkafka asks again until its
        # timeout is over.
        return Answer(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _may_be_idempotent(access: Access) -> bool:
    """Who may WRITE to some topic may do so without doubles (KIP-679). Who may not lacks IDEMPOTENT_WRITE."""
    asked = Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME
    return (
        access.sees(*asked) or access.may_somewhere(Operation.WRITE, ResourceType.TOPIC) or access.may(*asked)
    )
