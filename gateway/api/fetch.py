"""Fetch (key 1), versions 4 to 18.

Behaviour: whole batches from the one that holds the fetch offset, raw, up to max_bytes and each partition's
max_bytes; the first batch of the first partition that has one is given even if it is larger. With less than
min_bytes and no error the answer waits for max_wait_ms at most, woken when a high watermark advances. An
offset outside of the log is OFFSET_OUT_OF_RANGE, never a silent reset; between high watermark and end the
answer is empty.

Isolation: who asks for read_committed (1) is given what lies below the last stable offset, markers and
aborted records included, with the list of aborted transactions that these are part of; it waits for what
becomes stable. Who asks for read_uncommitted is given all, and no list. Until it is known which transactions
are open read_committed is NOT_LEADER_OR_FOLLOWER, and the last stable offset -1.

Version notes: from 7 there are sessions (KIP-227, `gateway.fetch.session`); from 13 topics come by id
(unknown: UNKNOWN_TOPIC_ID).

Quotas: who has fetched too much lately is answered at once, without records, as in Kafka; he begins no
session then. What he may be given at once is bounded by his quota.

Skipped on purpose: follower fetches (a replica id makes a session worth more, and nothing else), preferred
read replica (-1), diverging epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from gateway.answers.encoding import encoded
from gateway.cluster.told_leaders import ToldLeaders
from gateway.common.handlers import Request, Response, api
from gateway.fetch.full import FetchJob
from gateway.fetch.incremental import SessionJob, SessionTaken
from gateway.fetch.job import ClientLeft, OverQuota
from gateway.fetch.session_cache import NO_SESSION
from gateway.fetch.sessions import SessionRefused
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.fetch import (
    LEADERS_FROM,
    FetchPartitionResult,
    FetchRequest,
    TopicResults,
    decode_fetch,
    encode_fetch_response,
)

if TYPE_CHECKING:
    from gateway.broker import Broker

INITIAL_EPOCH = 0
"""Session epoch of a Fetch that names all its partitions and asks for a session (`FetchMetadata`)."""

FINAL_EPOCH = -1
"""Session epoch of a Fetch that names all its partitions and wants no session."""


@api(key=1, name="Fetch", min_version=4, max_version=18, decoder=decode_fetch)
async def fetch(request: Request, broker: Broker) -> Response:
    """Answer one Fetch; None if its client has gone while it waited."""
    try:
        return await _fetch(request, broker)
    except ClientLeft:
        return None
    except OverQuota:
        return await _answer(request, broker, [])


async def _fetch(request: Request, broker: Broker) -> Response:
    """Raises ClientLeft; and OverQuota: there is no session."""
    body: FetchRequest = request.body
    if body.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        return await _fetch_all(request, broker)
    try:
        session = await broker.fetch_sessions.go_on(request)
        if session is None:
            return await _without_session(request, broker)
        job = SessionJob(request, broker, session)
        try:
            results = await job.run()
        except OverQuota:
            results = []  # the session is as it was: the next Fetch is given what this one is not
        return await _answer(request, broker, results, session_id=session.id)
    except SessionRefused as refused:
        return await _answer(request, broker, [], error=refused.code)
    except SessionTaken:
        code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
        return await _answer(request, broker, [], error=code, session_id=body.session_id)


async def _fetch_all(request: Request, broker: Broker) -> Response:
    """A Fetch that names its partitions: any session that it names ends, and another may begin."""
    body: FetchRequest = request.body
    if body.session_id != NO_SESSION:
        await broker.fetch_sessions.end(body.session_id)
    if body.session_epoch == FINAL_EPOCH:
        return await _without_session(request, broker)
    job = FetchJob(request, broker)
    results = await job.run()
    return await _answer(request, broker, results, session_id=await broker.fetch_sessions.begin(request, job))


async def _without_session(request: Request, broker: Broker) -> Response:
    return await _answer(request, broker, await FetchJob(request, broker).run())


async def _answer(
    request: Request,
    broker: Broker,
    results: Sequence[TopicResults],
    *,
    error: ErrorCode = ErrorCode.NONE,
    session_id: int = NO_SESSION,
) -> Response:
    header = request.header
    told = ToldLeaders(broker.gateways, request.local_address)
    if header.api_version >= LEADERS_FROM and broker.gateways.others:
        for _, topic_id, partitions in results:
            _tell_leaders(broker, topic_id, partitions, told)
    return await encoded(
        sum(len(partitions) for _, _, partitions in results),
        partial(
            encode_fetch_response,
            header.api_version,
            header.correlation_id,
            results,
            error_code=error,
            session_id=session_id,
            nodes=told.nodes,
        ),
    )


def _tell_leaders(
    broker: Broker, topic_id: bytes | None, results: Sequence[FetchPartitionResult], told: ToldLeaders
) -> None:
    topic = broker.topics.by_id(topic_id or b"")
    for result in results:
        if result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            result.current_leader = told.of(topic, result.index)
