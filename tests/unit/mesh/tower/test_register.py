"""Whom a tower knows."""

from mesh.protocol.endpoints import Endpoint
from mesh.tower.register import BEACONS_PER_SECOND, FORGET_SECONDS, MAX_NODES, MAX_SOURCES, News, Register

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
    told = [register.heard(f"N{number}", A, number / BEACONS_PER_SECOND) for number in range(100_000)]
    assert told.count(News.NEW) == MAX_NODES == len(register)
    assert register.refused == 100_000 - MAX_NODES
    assert register.heard("N1", A, 1000.0) is News.KNOWN


def test_a_source_that_sends_without_a_pause_is_slowed_and_others_are_not() -> None:
    register = Register()
    register.heard("N1", A, 0.0, "10.0.0.1")
    told = [register.heard(f"FAKE{number % 400}", B, number / 40_000, "10.0.0.9") for number in range(40_000)]
    assert len(told) - told.count(News.REFUSED) == 2 * BEACONS_PER_SECOND
    assert register.heard("N1", A, 1.0, "10.0.0.1") is News.KNOWN
    assert register.heard("N2", A, 1.0, "10.0.0.2") is News.NEW


def test_places_are_shared_among_sources_and_known_nodes_keep_theirs() -> None:
    register = Register(max_nodes=10)
    for number in range(3):
        register.heard(f"KNOWN{number}", A, 0.0, "10.0.0.1")
    for number in range(400):
        register.heard(f"FAKE{number}", B, 0.0, "10.0.0.9")
    assert len(register) == 10
    for number in range(3):
        assert register.heard(f"NEW{number}", A, 0.0, "10.0.0.2") is News.NEW
    for number in range(3):
        assert register.heard(f"KNOWN{number}", A, 1.0, "10.0.0.1") is News.KNOWN
        assert register.heard(f"NEW{number}", A, 1.0, "10.0.0.2") is News.KNOWN
    assert register.heard("FAKE0", B, 1.0, "10.0.0.9") is News.KNOWN, "the newest give way"
    assert register.heard("FAKE6", B, 1.0, "10.0.0.9") is News.REFUSED
    assert len(register) == 10


def test_sources_are_bounded() -> None:
    register = Register(max_nodes=1)
    for number in range(2 * MAX_SOURCES):
        register.heard("N1", A, 0.0, str(number))
    assert len(register._rates) == MAX_SOURCES
