"""Messages of Kafka that kafka-python has no schema for, or none with what we add, in the form of its own."""

from kafka.protocol.api_message import ApiMessage

# The classes of messages are made from the files beside this one, by their names.
_HERE = __package__


class AddPartitionsToTxnRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """AddPartitionsToTxn (KIP-98), with a tagged field of our own."""


class CreateDelegationTokenRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """CreateDelegationToken (KIP-48, KIP-373)."""


class CreateDelegationTokenResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """Its answer."""


class RenewDelegationTokenRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """RenewDelegationToken (KIP-48)."""


class RenewDelegationTokenResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """Its answer."""


class ExpireDelegationTokenRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """ExpireDelegationToken (KIP-48)."""


class ExpireDelegationTokenResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """Its answer."""


class DescribeDelegationTokenRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """DescribeDelegationToken (KIP-48, KIP-373)."""


class DescribeDelegationTokenResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """Its answer."""


class UnregisterBrokerRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """UnregisterBroker (KIP-631)."""


class UnregisterBrokerResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """Its answer."""


class WriteTxnMarkersRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc, call-arg]
    """WriteTxnMarkers (KIP-98), with tagged fields of our own."""


__all__ = [
    "AddPartitionsToTxnRequest",
    "CreateDelegationTokenRequest",
    "CreateDelegationTokenResponse",
    "DescribeDelegationTokenRequest",
    "DescribeDelegationTokenResponse",
    "ExpireDelegationTokenRequest",
    "ExpireDelegationTokenResponse",
    "RenewDelegationTokenRequest",
    "RenewDelegationTokenResponse",
    "UnregisterBrokerRequest",
    "UnregisterBrokerResponse",
    "WriteTxnMarkersRequest",
]
