"""Which native records topics have, or are still to have. Pure.

Rule: a record of a subject that topics take up is not dropped for its age before each of them has it, on as
many stores as count. What a gateway tells of an address it knows from the log, so what a store was not told
of, or has forgotten with a restart, the topics do not have.

Theory of operation: gateways tell all stores which topics take up a subject, and how far each address has
come into them, some times a minute (TAKEN-UP). A gateway may see an older catalog than another one, so a
topic counts until nobody has told of it for `WANTED_SECONDS` in which others were told of. Which topics
there are is kept on the disk, as the first second after a start would otherwise drop what has waited for a
gateway for longer than the retention; how far they are is not.
"""

from typing import NamedTuple

from wireproto.dafka.additions import STORES_OWN, NativeTopic, pack_topics, read_topics
from wireproto.dafka.fields import MAX_SEQUENCE, Cursor

EVERYTHING = MAX_SEQUENCE
"""As the next record of an address: nobody is still to have any of its records."""

WANTED_SECONDS = 180.0
"""How long a topic counts of which no gateway tells any more while they tell of what there is: each tells of
all three times as often."""

MAX_WANTED = 1_024
"""Topics of which a store was told; further ones get what is left when their turn comes."""


class Terms(NamedTuple):
    """Of one address: topics have its records before `following`, which may go after `seconds`."""

    following: int
    seconds: float


class WantedSubjects:
    """Of one store, whose records go after `seconds` where no topic says otherwise."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._topics: dict[tuple[str, str], NativeTopic] = {}
        """(topic, subject) -> what was told of it last."""
        self._told: dict[tuple[str, str], float] = {}
        """When that was."""
        self._of: dict[str, list[NativeTopic]] = {}
        self._heard = -WANTED_SECONDS
        """When a gateway has told of topics, or of none."""
        self._since = 0.0
        """Since when they tell without a longer pause."""
        self._is_unknown = False
        """What the disk has cannot be read: until gateways have told for long enough everything may be
        wanted."""

    def __contains__(self, subject: str) -> bool:
        """Whether a topic takes up this subject, or may."""
        return self._is_unknown or subject in self._of

    def has(self, topic: NativeTopic) -> bool:
        """Whether this topic takes up this subject."""
        return (topic.topic, topic.subject) in self._topics

    def told(self, topics: tuple[NativeTopic, ...], now: float) -> bool:
        """A gateway tells of all topics at `now` (seconds, of any clock that goes on). True if they are
        others than before.
        """
        if now - self._heard >= WANTED_SECONDS:
            # Nobody has told of anything for so long: the time of silence does not count.
            self._told = dict.fromkeys(self._topics, now)
            self._since = now
        self._heard = now
        before = dict(self._topics)
        for topic in topics:
            if self.has(topic) or len(self._topics) < MAX_WANTED:
                self._topics[topic.topic, topic.subject] = topic
                self._told[topic.topic, topic.subject] = now
        for name, when in list(self._told.items()):
            if now - when >= WANTED_SECONDS:
                del self._topics[name], self._told[name]
        became_known = self._is_unknown and now - self._since >= WANTED_SECONDS
        if became_known:
            self._is_unknown = False
        if not became_known and before == self._topics:
            return False
        self._index()
        return True

    def _index(self) -> None:
        self._of = {}
        for topic in self._topics.values():
            self._of.setdefault(topic.subject, []).append(topic)

    def terms(self, subject: str, taken: dict[str, int]) -> Terms:
        """Of an address of this subject; `taken` is topic -> the first record that it does not have."""
        topics = self._of.get(subject)
        if self._is_unknown:
            return Terms(0, self._seconds)
        if not topics:
            return Terms(EVERYTHING, self._seconds)
        following = min(taken.get(one.topic, 0) for one in topics)
        seconds = max(
            self._seconds if one.retention_ms == STORES_OWN else one.retention_ms / 1000 for one in topics
        )
        return Terms(following, seconds)

    def pack(self) -> bytes:
        """Which topics there are, for the disk."""
        return pack_topics(tuple(self._topics.values()))

    def distrust(self) -> None:
        """What is on the disk cannot be read: everything counts as wanted until gateways have told for long
        enough.
        """
        self._is_unknown = True

    def load(self, value: bytes) -> None:
        """What `pack` gave before the start; b"" for nothing. Raises MalformedMessage (a ValueError)."""
        if not value:
            return
        cursor = Cursor(value, 0)
        topics = read_topics(cursor)
        cursor.finish()
        self._topics = {(topic.topic, topic.subject): topic for topic in topics}
        self._told = dict.fromkeys(self._topics, self._heard)
        self._index()
