"""InitProducerId (key 22), versions 0 to 5: a new id for an idempotent producer.

Behaviour
  Without a transactional id: a producer id that was never given before, epoch 0. An id and epoch that the
  producer already has make no difference (only both or neither may be given), nor does the timeout.
  With one: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, since there are no transactions here yet. It is the code on
  which both Java and librdkafka give up at once. librdkafka repeats the request until its timeout
  on most others (35, 42, 48, 54 and 120 were tried), and shows "fenced" on 90.
  COORDINATOR_LOAD_IN_PROGRESS while too few stores remember the next block of ids: clients ask again.

Version notes
  v2 is flexible. v3 brings the producer's present id and epoch (KIP-360). v4 may answer PRODUCER_FENCED, v5
  TRANSACTION_ABORTABLE; neither happens here.

Skipped
  v6 (KIP-939, two-phase commit): Kafka 4.3 does not offer it either.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from gateway.answers.encoding import answer
from gateway.common.handlers import Request, Response, api
from gateway.common.log_limit import warn_once
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1

logger = logging.getLogger(__name__)
_Answer: Any = RESPONSE_CLASSES[ApiKey.INIT_PRODUCER_ID]


@api(key=ApiKey.INIT_PRODUCER_ID, name="InitProducerId", min_version=0, max_version=5)
async def init_producer_id(request: Request, broker: Broker) -> Response:
    """Give an idempotent producer its id; refuse a transactional one."""
    error = _refusal(request)
    producer_id, producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
    if error is ErrorCode.NONE:
        try:
            producer_id, producer_epoch = await broker.allocate_producer_id(), 0
        except KafkaError as refused:
            error = refused.code
    response = _Answer(
        throttle_time_ms=0, error_code=error, producer_id=producer_id, producer_epoch=producer_epoch
    )
    return answer(request, response)


def _refusal(request: Request) -> ErrorCode:
    body = request.body
    if (body.producer_id == NO_PRODUCER_ID) != (body.producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if body.transactional_id is None:
        return ErrorCode.NONE
    if not body.transactional_id:
        return ErrorCode.INVALID_REQUEST
    warn_once(
        logger,
        "a producer with transactional.id %r was refused: transactions are not supported yet. "
        "Remove transactional.id; idempotent producers work",
        body.transactional_id[:100],
    )
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
