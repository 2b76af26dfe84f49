"""Whom a tower knows."""

from mesh.protocol.endpoints import Endpoint
from mesh.tower.register import FORGET_SECONDS, MAX_NODES, News, Register

A, B = Endpoint("10.0.0.1", 1), Endpoint("10.0.0.1", 2)


def test_what_a_beacon_tells() -> None:
    register = Register()
    told = [register.heard(*beacon) for beacon in (("N1", A, 0.0), ("N1", A, 1.0), ("N1", B, 2.0))]
    assert told == [News.NEW, News.KNOWN, News.MOVED]


def test_silent_nodes_are_forgotten() -> None:
    register = Register()
    register.heard("N1", A, 0.0)
    register.heard("N2", B, 1.0)
    assert register.forget(FORGET_SECONDS - 1) == []
    assert register.forget(FORGET_SECONDS) == ["N1"]
    assert len(register) == 1
    assert register.heard("N1", A, FORGET_SECONDS) is News.NEW


def test_nodes_are_bounded() -> None:
    register = Register()
    told = [register.heard(f"N{number}", A, 0.0) for number in range(100_000)]
    assert told.count(News.NEW) == MAX_NODES == len(register)
    assert register.refused == 100_000 - MAX_NODES
    assert register.heard("N1", A, 1.0) is News.KNOWN
