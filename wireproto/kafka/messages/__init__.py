"""Messages of Kafka that kafka-python has no schema for, in the same form as its own."""

from kafka.protocol.api_message import ApiMessage

# The classes of messages are made from the files beside this one, by their names.
_HERE = __package__


class UnregisterBrokerRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """UnregisterBroker (KIP-631)."""


class UnregisterBrokerResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """Its answer."""


__all__ = ["UnregisterBrokerRequest", "UnregisterBrokerResponse"]
