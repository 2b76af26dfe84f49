"""Which native records topics have, or are still to have. Pure.

Rule: a record of a subject that topics take up is not dropped for its age before each of them has it, on as
many stores as count. What a gateway tells of an address it knows from the log, so what a store was not told
of, or has forgotten with a restart, the topics do not have.

Theory of operation: gateways tell all stores which topics have a subject, and how far each address has come
into them, some times a minute (TAKEN-UP). Which topics there are is kept on the disk, as the first second
after a start would otherwise drop what has waited for a gateway for longer than the retention; how far they
are is not.
"""

from typing import NamedTuple

from wireproto.dafka.additions import STORES_OWN, NativeTopic, pack_topics, read_topics
from wireproto.dafka.fields import MAX_SEQUENCE, Cursor

EVERYTHING = MAX_SEQUENCE
"""As the next record of an address: nobody is still to have any of its records."""


class Terms(NamedTuple):
    """Of one address: topics have its records before `following`, which may go after `seconds`."""

    following: int
    seconds: float


class WantedSubjects:
    """Of one store, whose records go after `seconds` where no topic says otherwise."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._topics: tuple[NativeTopic, ...] = ()
        self._revision = -1
        """Of the catalog that told of these."""
        self._of: dict[str, list[NativeTopic]] = {}

    def __contains__(self, subject: str) -> bool:
        """Whether a topic takes up this subject."""
        return subject in self._of

    def told(self, revision: int, topics: tuple[NativeTopic, ...]) -> bool:
        """A gateway tells of all topics, as the catalog had them at this revision. True if they are others
        than before. One that sees an older catalog changes nothing.
        """
        if revision < self._revision:
            return False
        self._revision = revision
        if topics == self._topics:
            return False
        self._set(topics)
        return True

    def _set(self, topics: tuple[NativeTopic, ...]) -> None:
        self._topics = topics
        self._of = {}
        for topic in topics:
            self._of.setdefault(topic.subject, []).append(topic)

    def terms(self, subject: str, taken: dict[str, int]) -> Terms:
        """Of an address of this subject; `taken` is topic -> the first record that it does not have."""
        topics = self._of.get(subject)
        if not topics:
            return Terms(EVERYTHING, self._seconds)
        following = min(taken.get(one.topic, 0) for one in topics)
        seconds = max(
            self._seconds if one.retention_ms == STORES_OWN else one.retention_ms / 1000 for one in topics
        )
        return Terms(following, seconds)

    def pack(self) -> bytes:
        """Which topics there are, for the disk."""
        return pack_topics(self._topics)

    def load(self, value: bytes) -> None:
        """What `pack` gave before the start; b"" for nothing. Raises MalformedMessage (a ValueError)."""
        if not value:
            return
        cursor = Cursor(value, 0)
        topics = read_topics(cursor)
        cursor.finish()
        self._set(topics)
