"""DescribeTransactions (key 65), version 0: what transactional ids are doing (KIP-664).

Behaviour
  State, timeout, start, producer and partitions of each id; once the end of its transaction is decided, the
  partitions that have no marker yet. An id that the client may not DESCRIBE is
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED, and partitions of such topics are left out. An id that is not known
  is TRANSACTIONAL_ID_NOT_FOUND, an empty one INVALID_REQUEST; one that another gateway has NOT_COORDINATOR,
  and one that is being loaded COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.answers.element_limit import MAX_ELEMENTS, check_elements
from gateway.answers.encoding import answer_of
from gateway.common.costs import COUNTED, ELEMENT, HASHED_CHARACTER
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.security.access import Access
    from gateway.transactions.metadata import TopicPartition
    from gateway.transactions.served import Transaction

MAX_DESCRIBED_PARTITIONS: Final = MAX_ELEMENTS
"""Partitions that one answer names: an id could be asked for 50,000 times. The ids beyond are
POLICY_VIOLATION."""

_Answer: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_TRANSACTIONS]
_State: Any = _Answer.TransactionState


@api(key=ApiKey.DESCRIBE_TRANSACTIONS, name="DescribeTransactions", min_version=0, max_version=0)
async def describe_transactions(request: Request, broker: Broker) -> Response:
    """Describe each id on its own."""
    wanted = request.body.transactional_ids
    check_elements(len(wanted), "transactional ids")
    states, partitions = [], 0
    for transactional_id in wanted:
        await request.work.before(ELEMENT + HASHED_CHARACTER * len(transactional_id))
        if not request.access.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            states.append(_failed(transactional_id, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
            continue
        if partitions > MAX_DESCRIBED_PARTITIONS:
            states.append(_failed(transactional_id, ErrorCode.POLICY_VIOLATION))
            continue
        found = _find(broker, transactional_id)
        if isinstance(found, ErrorCode):
            states.append(_failed(transactional_id, found))
            continue
        left = found.partitions_left
        partitions += len(left)
        await request.work.before(COUNTED * len(left))
        states.append(_described(found, left, request.access))
    response = _Answer(throttle_time_ms=0, transaction_states=states)
    return await answer_of(len(states) + partitions, request, response)


def _find(broker: Broker, transactional_id: str) -> Transaction | ErrorCode:
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    try:
        found = broker.transactions.find_one(transactional_id)
    except KafkaError as error:
        return error.code
    return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if found is None else found


def _described(transaction: Transaction, left: frozenset[TopicPartition], access: Access) -> Any:
    """With those of the partitions whose topic the client may know of."""
    metadata = transaction.machine.metadata
    if metadata is None:  # it was forgotten meanwhile
        return _failed(transaction.transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    topics: dict[str, list[int]] = {}
    for name, index in sorted(left):
        topics.setdefault(name, []).append(index)
    return _State(
        error_code=ErrorCode.NONE,
        transactional_id=transaction.transactional_id,
        transaction_state=metadata.state.label,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=[
            _State.TopicData(topic=name, partitions=indexes)
            for name, indexes in topics.items()
            if access.sees(Operation.DESCRIBE, ResourceType.TOPIC, name)
        ],
    )


def _failed(transactional_id: str, error: ErrorCode) -> Any:
    return _State(
        error_code=error,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )
