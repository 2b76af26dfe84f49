"""Headers of messages that go to one node: a store's requests, and the answers to who asked."""

from wireproto.dafka import fields
from wireproto.dafka.errors import MalformedMessage
from wireproto.dafka.messages import (
    Decoder,
    answer_topic,
    directed_topic,
    register,
    split_answer_topic,
    split_directed_topic,
)


def asking(message_id: bytes, store: str, requester: str) -> bytes:
    """How every request begins."""
    topic = directed_topic(store, "")
    return fields.header(message_id, topic, fields.MAX_PAIR_BYTES) + fields.name(requester)


def asking_about(message_id: bytes, store: str, requester: str, address: str) -> bytes:
    """How a request about one address begins."""
    return asking(message_id, store, requester) + fields.name(address)


def answering(message_id: bytes, requester: str, store: str) -> bytes:
    """How every answer begins. Raises ValueError where no store is named."""
    if not store:
        raise ValueError("an answer names its store")
    return fields.header(message_id, answer_topic(requester, store), fields.MAX_PAIR_BYTES)


def store_of(topic: str) -> str:
    """Whom a request is for. Raises MalformedMessage."""
    store, rest = split_directed_topic(topic)
    if rest:
        raise MalformedMessage("topic is not @incarnation/")
    return store


def parties_of(topic: str) -> tuple[str, str]:
    """(requester, incarnation) of an answer. Raises MalformedMessage."""
    requester, store = split_answer_topic(topic)
    if not store:
        raise MalformedMessage("answer without a store in its topic")
    return requester, store


def register_directed(message_id: bytes, decoder: Decoder) -> None:
    """Makes a decoder known for messages whose topic names one node, or two."""
    register(message_id, decoder, fields.MAX_PAIR_BYTES)
