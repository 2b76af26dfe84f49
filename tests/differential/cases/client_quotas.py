"""AlterClientQuotas, and what DescribeClientQuotas tells then: each entity alone, so each is compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

from tests.differential.case import case
from tests.differential.side import Side

Parts = Sequence[tuple[str, str | None]]
Ops = Sequence[tuple[str, float | None]]

BYTES, PERCENT, MUTATIONS = "producer_byte_rate", "request_percentage", "controller_mutation_rate"
CONNECTIONS = "connection_creation_rate"
EXACT, DEFAULT, ANY = 0, 1, 2


def entry(parts: Parts, ops: Ops) -> Any:
    of = AlterClientQuotasRequest.EntryData
    return of(
        entity=[of.EntityData(entity_type=kind, entity_name=name) for kind, name in parts],
        ops=[of.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
    )


def alteration(version: int, *entries: Any, validate_only: bool = False) -> Any:
    return AlterClientQuotasRequest(version=version, entries=list(entries), validate_only=validate_only)


def question(version: int, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    of = DescribeClientQuotasRequest.ComponentData
    made = [of(entity_type=kind, match_type=how, match=match) for kind, how, match in components]
    return DescribeClientQuotasRequest(version=version, components=made, strict=strict)


@case(AlterClientQuotasRequest)
def faults(side: Side, version: int) -> None:
    """What is wrong with one entity. Nothing of it is done."""
    user: Parts = [("user", side.name("u"))]
    wanted: dict[str, tuple[Parts, Ops]] = {
        "no entity": ([], [(BYTES, 1)]),
        "unknown type": ([("topic", "t")], [(BYTES, 1)]),
        "no type": ([("", "t")], [(BYTES, 1)]),
        "empty name": ([("user", "")], [(BYTES, 1)]),
        "empty client id": ([("user", "u"), ("client-id", "")], [(BYTES, 1)]),
        "ip and user": ([("ip", "10.0.0.1"), ("user", "u")], [(CONNECTIONS, 1)]),
        "ip and client id": ([("ip", None), ("client-id", "c")], [(CONNECTIONS, 1)]),
        "no ip": ([("ip", "1.2.3.4.5.6")], [(CONNECTIONS, 1)]),
        "unknown key": (user, [("bytes", 1)]),
        "a key of others": (user, [(CONNECTIONS, 1)]),
        "a key of clients": ([("ip", "10.0.0.1")], [(BYTES, 1)]),
        "repeated key": (user, [(BYTES, 1), (BYTES, 2)]),
        "repeated and removed": (user, [(BYTES, 1), (BYTES, None)]),
        "zero": (user, [(BYTES, 0)]),
        "less than zero": (user, [(PERCENT, -1.5)]),
        "a fraction": (user, [(BYTES, 1.5)]),
        "a fraction of connections": ([("ip", "10.0.0.1")], [(CONNECTIONS, 1.5)]),
        "too many bytes": (user, [(BYTES, 2.0**64)]),
        "too many connections": ([("ip", "10.0.0.1")], [(CONNECTIONS, 2.0**31)]),
        "one of two is wrong": (user, [(BYTES, 1), ("bytes", 1)]),
        "nothing": (user, []),
        "what is not there is removed": (user, [(BYTES, None)]),
        "an unknown key is removed": (user, [("bytes", None)]),
    }
    for label, (parts, ops) in wanted.items():
        side.ask(alteration(version, entry(parts, ops), validate_only=label == "nothing"), label)
    side.ask(alteration(version), "no entities")
    side.ask(question(version, ("user", EXACT, side.name("u"))), "nothing of it is there")


@case(AlterClientQuotasRequest)
def twice(side: Side, version: int) -> None:
    """An entity that is named twice."""
    user: Parts = [("user", side.name("u"))]
    both = [entry(user, [(BYTES, 1)]), entry(user, [(BYTES, 2)])]
    side.ask(alteration(version, *both, validate_only=True), "the same entity")
    pair: Parts = [("user", side.name("u")), ("client-id", "c")]
    swapped = [entry(pair, [(BYTES, 1)]), entry(tuple(reversed(pair)), [(BYTES, 1)])]
    side.ask(alteration(version, *swapped, validate_only=True), "in another order")


@case(DescribeClientQuotasRequest)
def what_is_there(side: Side, version: int) -> None:
    """Set, told by every filter, changed, and removed."""
    user, client = side.name("u"), side.name("c")
    alone: Parts = [("user", user)]
    pair: Parts = [("user", user), ("client-id", client)]
    anybody: Parts = [("user", user), ("client-id", None)]
    host: Parts = [("ip", "10.9.8.7")]
    set_ = {
        "user": entry(alone, [(BYTES, 1024), (PERCENT, 12.5)]),
        "pair": entry(pair, [(MUTATIONS, 0.25)]),
        "any client": entry(anybody, [("consumer_byte_rate", 2.0**62)]),
        "ip": entry(host, [(CONNECTIONS, 7)]),
    }
    for label, one in set_.items():
        side.ask(alteration(version, one), label)
    side.until(question(version, ("ip", EXACT, "10.9.8.7")), lambda answer: bool(answer.entries))
    of_user = ("user", EXACT, user)
    for strict in (False, True):
        how = f", strict {strict}"
        side.ask(question(version, of_user, strict=strict), f"the user{how}")
        of_pair = question(version, of_user, ("client-id", EXACT, client), strict=strict)
        side.ask(of_pair, f"the pair{how}")
        of_default = question(version, of_user, ("client-id", DEFAULT, None), strict=strict)
        side.ask(of_default, f"any client{how}")
        side.ask(question(version, of_user, ("client-id", ANY, None), strict=strict), f"some client{how}")
        side.ask(question(version, ("ip", ANY, None), strict=strict), f"ips{how}")
    side.ask(alteration(version, entry(alone, [(BYTES, 2048), (PERCENT, None)])), "changed")
    removed = [
        entry(pair, [(MUTATIONS, None)]),
        entry(anybody, [("consumer_byte_rate", None)]),
        entry(host, [(CONNECTIONS, None)]),
    ]
    side.ask(alteration(version, *removed), "removed")
    side.until(question(version, ("ip", EXACT, "10.9.8.7")), lambda answer: not answer.entries)
    side.ask(question(version, of_user), "what is left")
    side.ask(alteration(version, entry(alone, [(BYTES, None)])), "the rest is removed")
    side.until(question(version, of_user), lambda answer: not answer.entries)
