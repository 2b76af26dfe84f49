"""Which topics publish under which subject, and which take one up: what would be heard twice, or for ever.

Rules: no topic takes up what one publishes, or records would come round again without an end; and no subject
that is published has a topic's name, since gateways publish the segments of a topic under that, which are
nothing that native programs can read.

A topic is checked when it is made or altered, against what was there a moment ago. Of two that come into
being at the same time, or by a default of all topics, the one that publishes is not published, and the log
says so (`gateway.native.publishing`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.configs.checks import MAX_SUBJECT_BYTES
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.cluster.topics import Topics
    from gateway.configs.effective import EffectiveTopicConfigs
    from gateway.log.topic import Topic

VALUES: Final = ".values"
"""Behind a topic's name: the subject under which its values are published, unless it has another."""


def published_subject(name: str, settings: EffectiveTopicConfigs) -> str:
    """The subject under which native programs read the values of a topic; "": they do not."""
    return (settings.publish_subject or name + VALUES) if settings.publishes_values else ""


class SubjectNames:
    """Of one gateway's topics, as of the latest `look`."""

    def __init__(self) -> None:
        self._published: dict[str, set[str]] = {}
        """Subject -> the topics that publish under it."""
        self._taken: dict[str, str] = {}
        """Subject -> a topic that takes it up."""

    def look(self, topics: Iterable[Topic]) -> None:
        """Take what the topics have now."""
        self._published.clear()
        self._taken.clear()
        for topic in topics:
            if topic.settings.publishes_values:
                subject = published_subject(topic.name, topic.settings)
                self._published.setdefault(subject, set()).add(topic.name)
            if topic.settings.native_subject:
                self._taken[topic.settings.native_subject] = topic.name

    def check(self, topics: Topics, name: str, settings: EffectiveTopicConfigs) -> None:
        """Whether a topic may have these settings. Raises KafkaError: INVALID_CONFIG."""
        if why := self.why_not(topics, name, settings):
            raise KafkaError(ErrorCode.INVALID_CONFIG, why)
        others = self._published.get(settings.native_subject, set()) - {name}
        if settings.native_subject and others:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"dafka.native.subject: topic '{min(others)}' publishes its values under "
                f"'{settings.native_subject}', so its records would come round. Take another subject, or set "
                f"dafka.publish=off there",
            )

    def check_name(self, name: str) -> None:
        """Whether a new topic may have this name. Raises KafkaError: INVALID_TOPIC_EXCEPTION."""
        others = self._published.get(name, set()) - {name}
        if others:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{min(others)}' publishes its values under the subject '{name}', which must not be a "
                "topic's name. Take another name, or give that topic another dafka.publish.subject.",
            )

    def why_not(self, topics: Topics, name: str, settings: EffectiveTopicConfigs) -> str:
        """Why a topic cannot be published; "" if it can, or is not to be."""
        subject = published_subject(name, settings)
        if not subject:
            return ""
        if len(subject.encode()) > MAX_SUBJECT_BYTES:
            return (
                f"dafka.publish: the subject '{subject[:40]}...' has more than {MAX_SUBJECT_BYTES} bytes. "
                "Give the topic a shorter one (dafka.publish.subject)"
            )
        if subject == name or topics.get(subject) is not None:
            return (
                f"dafka.publish.subject: '{subject}' is the name of a topic, and gateways publish the "
                "segments of that under it. Take another subject"
            )
        taker = name if settings.native_subject == subject else self._taken.get(subject)
        if taker is not None:
            return (
                f"dafka.publish: topic '{taker}' takes up the subject '{subject}' (dafka.native.subject), so "
                "records would come round. Take another subject for one of the two"
            )
        return ""
