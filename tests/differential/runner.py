"""Runs a case on both servers and says where they differ."""

from __future__ import annotations

from dataclasses import dataclass

from tests.differential import allowed
from tests.differential.case import Case
from tests.differential.compare import Difference, differences
from tests.differential.normalise import normalise, sent
from tests.differential.principals import ADMIN, NOBODY
from tests.differential.rights import make_acls, make_users
from tests.differential.servers import Doors
from tests.differential.side import Exchange, Server, Side


@dataclass(frozen=True)
class Pair:
    """The two servers of a session."""

    kafka: Server
    ours: Server

    @classmethod
    def reach(cls, kafka: str, ours: str, run: str) -> Pair:
        """Learns both servers' own ids; `run` begins every topic name."""
        return cls(Server.reach("kafka", kafka, run), Server.reach("ours", ours, run))

    @classmethod
    def reach_secured(cls, kafka: Doors, ours: Doors, run: str) -> Pair:
        """As `reach`, for servers with ACLs."""
        return cls(reach_secured("kafka", kafka, run), reach_secured("ours", ours, run))


def reach_secured(name: str, doors: Doors, run: str) -> Server:
    """As `Server.reach`; and the principals can log in."""
    server = Server.reach(name, doors.plain, run, doors.sasl)
    make_users(server)
    return server


@dataclass(frozen=True)
class Outcome:
    """What one case found, allowed differences apart."""

    exchanges: int
    found: list[Difference]
    allowed: list[tuple[Difference, allowed.Allowed]]


def record(case: Case, version: int, server: Server) -> list[Exchange]:
    """Everything the case asked this server, and its answers."""
    if case.principal not in {None, NOBODY, ADMIN}:
        make_acls(server)
    side = Side(server, case.name, version, case.principal)
    try:
        case.script(side, version)
    finally:
        side.close()
    return side.exchanges


def run(pair: Pair, case: Case, version: int) -> Outcome:
    """Runs the case on Kafka, then on ours.

    Raises:
        AssertionError: the two sides were not asked the same things (the case is at fault).
    """
    kafka, ours = record(case, version, pair.kafka), record(case, version, pair.ours)
    found: list[Difference] = []
    excused: list[tuple[Difference, allowed.Allowed]] = []
    labels = [exchange.label for exchange in kafka]
    assert labels == [exchange.label for exchange in ours], (
        f"{case.name}: the sides were asked different things"
    )
    assert len(set(labels)) == len(labels), f"{case.name}: labels are not unique: {labels}"
    for left, right in zip(kafka, ours, strict=True):
        same = sent(left, pair.kafka) == sent(right, pair.ours)
        if found and not same:
            break  # The answers before it differ, and the case asked on with what they said.
        assert same, f"{case.name} {left.label}: the two requests differ"
        here, there = normalise(left, pair.kafka), normalise(right, pair.ours)
        for path, a, b in differences(here, there, left.label):
            difference = Difference(left.api_key, case.name, version, path, a, b)
            reason = allowed.find(difference)
            if reason is None:
                found.append(difference)
            else:
                excused.append((difference, reason))
    return Outcome(len(kafka), found, excused)
