"""ListTransactions (key 66), versions 0 to 2: the transactional ids that this gateway has (KIP-664).

Behaviour
  Those that the client may DESCRIBE and that pass all filters: by state, by producer id, by how long ago the
  last transaction began. A state that Kafka does not know comes back in `unknown_state_filters`. While a part
  of the ids is being loaded the answer is COORDINATOR_LOAD_IN_PROGRESS.

Version notes
  v1 filters by duration (ms), v2 by a pattern of transactional ids (KIP-1152), which the whole id has to
  match (`gateway.common.pattern`): one that is no regular expression is INVALID_REGULAR_EXPRESSION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer, answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.common.pattern import InvalidPattern, Pattern
from gateway.security.acls import Operation, ResourceType
from gateway.transactions.metadata import STATES
from gateway.transactions.room import ID_BYTES
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.transactions.metadata import TransactionMetadata

COMPILED: Final = 10_000_000
"""Nanoseconds that a pattern of the greatest length may take until it is compiled."""

LISTED_BYTES: Final = 250
"""Memory of an id in an answer, about, beside its name."""

CHARACTER: Final = 20
"""Nanoseconds that a character of an id may take."""

_Answer: Any = RESPONSE_CLASSES[ApiKey.LIST_TRANSACTIONS]


@api(key=ApiKey.LIST_TRANSACTIONS, name="ListTransactions", min_version=0, max_version=2)
async def list_transactions(request: Request, broker: Broker) -> Response:
    """List the ids that pass the filters."""
    body, access = request.body, request.access
    check_elements(len(body.state_filters) + len(body.producer_id_filters), "states and producer ids")
    await request.reserve_if_large(_size(broker))  # before it is made, by many connections at once
    try:
        filters = await _Filters.of(request, broker)
        broker.transactions.check_all_served()
    except KafkaError as error:
        refused = _Answer(
            throttle_time_ms=0, error_code=error.code, unknown_state_filters=[], transaction_states=[]
        )
        return answer(request, refused)
    found = []
    for one in broker.transactions.loaded():
        await request.work.before(ELEMENT)
        metadata = one.machine.metadata
        if metadata is None or not filters.pass_metadata(metadata):
            continue
        await request.work.before(CHARACTER * len(one.transactional_id))
        name = one.transactional_id
        if filters.pass_id(name) and access.sees(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name):
            found.append(
                _Answer.TransactionState(
                    transactional_id=name,
                    producer_id=metadata.producer_id,
                    transaction_state=metadata.state.label,
                )
            )
    response = _Answer(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        unknown_state_filters=filters.unknown_states,
        transaction_states=found,
    )
    return await answer_of(len(found) + len(filters.unknown_states), request, response)


def _size(broker: Broker) -> int:
    """Memory of an answer with all ids; what their partitions take is counted with their names."""
    transactions = broker.transactions
    count = len(transactions.transactions)
    return LISTED_BYTES * count + max(0, transactions.room.held.used - ID_BYTES * count)


class _Filters:
    """What is asked for."""

    def __init__(self, request: Request, broker: Broker, pattern: Pattern | None) -> None:
        body = request.body
        names = dict.fromkeys(body.state_filters)
        self.unknown_states = [name for name in names if name not in STATES]
        self._states = {STATES[name] for name in names if name in STATES} if names else None
        self._producer_ids = set(body.producer_id_filters)
        self._longer_than_ms = body.duration_filter
        self._now_ms = broker.context.now_ms()
        self._pattern = pattern

    @classmethod
    async def of(cls, request: Request, broker: Broker) -> _Filters:
        """Those of a request. Raises KafkaError: INVALID_REGULAR_EXPRESSION."""
        pattern = request.body.transactional_id_pattern
        if not pattern:
            return cls(request, broker, None)
        await request.work.before(COMPILED)
        try:
            return cls(request, broker, Pattern(pattern))
        except InvalidPattern as error:
            raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from None

    def pass_metadata(self, metadata: TransactionMetadata) -> bool:
        """Whether what is known of an id is asked for."""
        if self._producer_ids and metadata.producer_id not in self._producer_ids:
            return False
        if self._states is not None and metadata.state not in self._states:
            return False
        if self._longer_than_ms < 0:
            return True
        # An id that never had a transaction has begun in 1970: as Kafka has it.
        return bool(self._now_ms - metadata.start_ms > self._longer_than_ms)

    def pass_id(self, transactional_id: str) -> bool:
        """Whether the pattern matches the id."""
        return self._pattern is None or self._pattern.matches(transactional_id)
