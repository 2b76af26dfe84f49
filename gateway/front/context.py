"""What all connections of one server share."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from gateway.audit.audit import Audit
from gateway.common.budget import Budget, Gate
from gateway.common.log_limit import LogLimit
from gateway.common.metrics import Metrics
from gateway.common.shared_budget import SharedBudget
from gateway.front.dispatch import Dispatcher
from gateway.front.limits import Limits
from gateway.front.listeners import Listener
from gateway.front.principal_rules import PrincipalRules
from gateway.front.readiness import Readiness
from gateway.front.tls import HANDSHAKES_AT_ONCE
from gateway.quotas.client_quotas import ClientQuotas
from gateway.security.access import Access, Unrestricted
from gateway.security.principal import Principal
from gateway.security.sasl_session import SaslSession

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.front.clients import Client

DECODING_AT_ONCE = 1
"""Large requests that are decoded at the same time: the interpreter works on one, whatever the threads."""


def _without_sasl(_listener: Listener) -> None:
    """Nobody is asked who he is."""


def _everything(principal: Principal, _address: str) -> Access:
    """Nobody is denied anything."""
    return Unrestricted(principal)


def _without_tls(_listener: Listener) -> None:
    """What is said can be read by all."""


def _nobody_is_identified(principal: str, _now: float) -> Client:
    raise RuntimeError(f"{principal} has said who he is where nobody is asked")


def _no_quotas() -> ClientQuotas:
    return ClientQuotas(now_ms=lambda: 0)


@dataclass(slots=True)
class ConnectionContext:
    """`broker` is handed to the handlers; `shutting_down` is set when the gateway stops.

    Requests from BIG_FRAME_BYTES on take from `request_memory` before they are received, others from
    `small_request_memory` once they are here: no client can hold that without being served. What they
    become takes from `decoded_memory` (of a Produce from `produced_memory`, so that producers wait for each
    other only), and their answers from `response_memory`, always in this order. `room_memory` is no further
    memory: it bounds how much of the others may be held by who waits for room in a log and wants no answer.
    Connections take by the shares of their clients (`gateway.front.clients`).

    `begin_session` makes what a connection of a listener with SASL has to go through; None for others.
    `tls_of` gives the certificates of a listener with TLS, as they are at that moment; None for others.
    `principal_rules` say who shows a certificate, on a listener with TLS and without SASL.
    `audit` is told of administration and of who could not show who it is, where there is one.
    `quotas` are those of clients, and what is used of them.
    `identify` gives whose a connection is that has said who it is, by that principal and the time.
    `grant` gives what somebody may do who comes from an address (as the socket has it).
    """

    dispatcher: Dispatcher
    broker: Broker
    limits: Limits
    metrics: Metrics
    request_memory: SharedBudget
    small_request_memory: SharedBudget
    decoded_memory: SharedBudget
    produced_memory: SharedBudget
    room_memory: Budget
    response_memory: SharedBudget
    produce_gate: Gate
    log: LogLimit
    begin_session: Callable[[Listener], SaslSession | None] = _without_sasl
    tls_of: Callable[[Listener], ssl.SSLContext | None] = _without_tls
    principal_rules: PrincipalRules = field(default_factory=PrincipalRules)
    audit: Audit | None = None
    grant: Callable[[Principal, str], Access] = _everything
    identify: Callable[[str, float], Client] = _nobody_is_identified
    quotas: ClientQuotas = field(default_factory=_no_quotas)
    handshakes: trio.CapacityLimiter = field(default_factory=lambda: trio.CapacityLimiter(HANDSHAKES_AT_ONCE))
    shutting_down: trio.Event = field(default_factory=trio.Event)
    readiness: Readiness = field(default_factory=Readiness)
    decoding: trio.CapacityLimiter = field(default_factory=lambda: trio.CapacityLimiter(DECODING_AT_ONCE))
