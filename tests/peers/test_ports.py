"""Where servers that come back on the same port get it."""

from pathlib import Path

from tests.peers.ports import free_ports, free_ports_in_a_row
from tests.peers.tower import TowerProcess


def lowest_of_connections() -> int:
    """The lowest port that the system gives to a connection."""
    return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])


def test_no_connection_is_given_the_port_of_a_server_that_is_down(tmp_path: Path) -> None:
    with TowerProcess(tmp_path) as tower:
        own = {tower.port_in, tower.port_out}
    assert max(own | set(free_ports(100))) < lowest_of_connections()
    assert free_ports_in_a_row(4) + 4 <= lowest_of_connections()


def test_ports_asked_for_at_once_differ() -> None:
    assert len(set(free_ports(2_000))) == 2_000
