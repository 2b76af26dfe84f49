"""The fetch sessions of one gateway, connected to its log: begun, brought up to date, and ended."""

from __future__ import annotations

import trio

from gateway.common.handlers import Request
from gateway.common.settings import LogSettings
from gateway.common.work import BREATH
from gateway.fetch.full import FetchJob, key_of
from gateway.fetch.incremental import disarm
from gateway.fetch.job import CONSUMER_REPLICA_ID
from gateway.fetch.session import FORGOTTEN, PARTITION_BYTES, TOPIC_BYTES, FetchSession, TopicKey
from gateway.fetch.session_cache import MAX_SESSION_BYTES, NO_SESSION, FetchSessionCache
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.fetch import FetchRequest

TOPIC_IDS_SINCE_VERSION = 13


class SessionRefused(Exception):
    """A Fetch cannot go on with the session that it names: the whole answer is `code`."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class FetchSessions:
    """`cache` decides who has a session; here the log learns who is to be called."""

    def __init__(
        self, slots: int = LogSettings.fetch_session_slots, max_bytes: int = MAX_SESSION_BYTES
    ) -> None:
        self.cache = FetchSessionCache(slots, max_bytes)

    async def begin(self, request: Request, job: FetchJob) -> int:
        """Make a session of a Fetch that named all its partitions, once its answer is known: its id, or 0 if
        there is no place for it (`FullFetchContext.updateAndGenerateResponseData`).
        """
        body: FetchRequest = request.body
        names = sum(TOPIC_BYTES + len(key) for key in {key_of(topic): None for topic in body.topics})
        session, evicted = self.cache.create(
            _now_ms(),
            job.partitions,
            job.partitions * PARTITION_BYTES + names,
            by_id=_by_id(request),
            privileged=body.replica_id > CONSUMER_REPLICA_ID,
            client=request.client,
        )
        for old in evicted:
            await self._release(old)
        if session is None:
            return NO_SESSION
        session.isolation = body.isolation_level
        session.basis = request.access.basis
        for done, (key, wanted, result) in enumerate(job.answered(), 1):
            # All are active: the next Fetch looks at each, and has the idle ones call.
            place = session.name(key, wanted.ask)
            if wanted.partition is not None:
                place.source, place.topic.name = wanted.partition, wanted.partition.topic.name
            place.tell(result.high_watermark, result.log_start_offset, 0, result.error_code)
            if not done % BREATH:
                await trio.lowlevel.checkpoint()
                if session.closed:
                    return NO_SESSION
        self.cache.touch(session, _now_ms())
        return session.id

    async def go_on(self, request: Request) -> FetchSession | None:
        """The session that a Fetch goes on with, brought up to date; None if nothing is left of it: it has
        ended, and what the request names is all (`FetchManager.newContext`). Raises SessionRefused.
        """
        body: FetchRequest = request.body
        found = self.cache.find(body.session_id, body.session_epoch, by_id=_by_id(request))
        if isinstance(found, ErrorCode):
            raise SessionRefused(found)
        session = found
        session.used()
        await _Update(self, session).take(body, request.access.basis)
        if not session.size:
            self.cache.remove(session.id)
            return None
        self.cache.touch(session, _now_ms())
        return session

    async def end(self, session_id: int) -> None:
        """The session is not wanted any more, if it is there at all."""
        session = self.cache.remove(session_id)
        if session is not None:
            await self._release(session)

    async def _release(self, session: FetchSession) -> None:
        """Have nobody called for a session that has ended."""
        done = 0
        with trio.CancelScope(shield=True):  # what is left out would stay in the log's lists
            for topic in tuple(session.topics.values()):
                for place in tuple(topic.partitions.values()):
                    disarm(place)
                    done += 1
                    if not done % BREATH:
                        await trio.lowlevel.checkpoint()


class _Update:
    """What a request changes in its session: partitions that it names, and those to forget, in that order."""

    def __init__(self, sessions: FetchSessions, session: FetchSession) -> None:
        self._sessions = sessions
        self._session = session
        self._epoch = session.epoch
        self._done = 0

    async def take(self, body: FetchRequest, basis: object) -> None:
        """`basis`: what the client may do now. Raises SessionRefused: the session went meanwhile, or has
        become too large for the cache.
        """
        session, cache = self._session, self._sessions.cache
        for topic in body.topics:
            key: TopicKey = key_of(topic)
            await self._breathe()
            for ask in topic.partitions:
                session.name(key, ask)
                if not cache.has_room(session):
                    await self._sessions.end(session.id)
                    raise SessionRefused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
                await self._breathe()
        for forgotten in body.forgotten:
            key = key_of(forgotten)
            await self._breathe()
            for index in forgotten.partitions:
                gone = session.forget(key, index)
                if gone is not None:
                    disarm(gone)
                await self._breathe()
        if body.isolation_level != session.isolation or basis is not session.basis:
            await self._read_all_again()
            session.isolation, session.basis = body.isolation_level, basis

    async def _read_all_again(self) -> None:
        """Make all partitions active. Raises SessionRefused."""
        for partition in tuple(self._session):
            if partition.place != FORGOTTEN:
                self._session.active.add(partition)
            await self._breathe()

    async def _breathe(self) -> None:
        self._done += 1
        if self._done % BREATH:
            return
        session = self._session
        self._sessions.cache.touch(session, _now_ms())
        await trio.lowlevel.checkpoint()
        if session.closed:
            raise SessionRefused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != self._epoch:
            raise SessionRefused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)


def _by_id(request: Request) -> bool:
    return request.header.api_version >= TOPIC_IDS_SINCE_VERSION


def _now_ms() -> float:
    return trio.current_time() * 1000
