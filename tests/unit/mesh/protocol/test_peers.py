"""Which peers a node has, by what it is told: vanishing, moving, silent towers, several towers, strangers."""

from collections.abc import Sequence

import pytest

from mesh.protocol.endpoints import Endpoint
from mesh.protocol.peers import (
    FORGET_SECONDS,
    MAX_PEERS,
    MAX_PEERS_OF_HOST,
    MAX_PEERS_OF_KEY,
    MOVE_SECONDS,
    RETRY_SECONDS,
    UNREACHED_SECONDS,
    Connect,
    Disconnect,
    Effect,
    Greet,
    Peers,
    Unreached,
)

OWN_PORT = 49152
A, B, C = (Endpoint("10.0.0.1", port) for port in (1001, 1002, 1003))
OTHER_A = Endpoint("192.168.0.1", 1001)


def peers(max_peers: int = MAX_PEERS) -> Peers:
    return Peers("ME", OWN_PORT, max_peers=max_peers)


def linked(*nodes: tuple[str, Endpoint]) -> Peers:
    """A table in which these are known and linked since time 0."""
    table = peers()
    for node, endpoint in nodes:
        table.heard(node, endpoint, 0.0)
        table.linked(endpoint, 0.0)
    return table


def states(table: Peers, now: float) -> dict[str, str]:
    return {peer.node: peer.state for peer in table.status(now)}


def ticks(table: Peers, start: float, end: float) -> list[Effect]:
    """Every effect of a tick each second, from `start` until before `end`."""
    effects: list[Effect] = []
    for second in range(int(start), int(end)):
        effects += table.tick(float(second))
    return effects


class Sockets:
    """What a shell is connected to, from the effects; complains of what no shell could do."""

    def __init__(self) -> None:
        self.connected: set[Endpoint] = set()

    def do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Connect):
                assert effect.endpoint not in self.connected
                self.connected.add(effect.endpoint)
            elif isinstance(effect, Disconnect):
                self.connected.remove(effect.endpoint)


# new nodes --------------------------------------------------------------------------------------------------


def test_a_new_node_is_connected_and_greeted_once() -> None:
    table = peers()
    assert table.heard("N1", A, 0.0) == [Connect(A), Greet()]
    assert table.heard("N1", A, 1.0) == []
    assert states(table, 1.0) == {"N1": "connecting"}
    assert table.linked(A, 1.5) == "N1"
    assert table.status(3.0) == [("N1", str(A), "connected", 2.0)]


def test_our_own_beacon_comes_back() -> None:
    table = peers()
    own = Endpoint("10.0.0.1", OWN_PORT)
    assert table.heard("ME", own, 0.0) == []
    assert table.heard("STRANGER", own, 1.0) == [], "whoever says that it is where we are"
    assert len(table) == 0


def test_a_node_that_turns_out_to_be_ourselves_is_dropped() -> None:
    table = peers()
    own = Endpoint("10.0.0.1", OWN_PORT)
    assert table.heard("STRANGER", own, 0.0) == [Connect(own), Greet()]
    assert table.heard("ME", own, 1.0) == [Disconnect(own)]
    assert len(table) == 0


def test_with_a_host_of_our_own_we_know_where_we_are() -> None:
    table = Peers("ME", OWN_PORT, host="10.0.0.1")
    assert table.heard("STRANGER", Endpoint("10.0.0.1", OWN_PORT), 0.0) == []
    elsewhere = Endpoint("10.0.0.2", OWN_PORT)
    assert table.heard("ME", elsewhere, 1.0) == [], "a forged beacon, or a tower that is wrong"
    assert table.heard("N1", elsewhere, 2.0) == [Connect(elsewhere), Greet()]


@pytest.mark.parametrize("place", [A, Endpoint("10.0.0.2", OWN_PORT)])
def test_a_forged_beacon_of_ours_cuts_no_link(place: Endpoint) -> None:
    """Nodes on several machines may well have the same port."""
    table = linked(("N1", place))
    assert table.heard("ME", place, 1.0) == []
    assert states(table, 1.0) == {"N1": "connected"}
    table.unlinked(place, 2.0)
    assert table.heard("N1", place, 3.0) == []
    assert states(table, 3.0) == {"N1": "connecting"}


# links and silence ------------------------------------------------------------------------------------------


def test_a_silent_tower_cuts_no_live_link() -> None:
    table = linked(("N1", A), ("N2", B))
    assert ticks(table, 1, 100_000) == []
    assert states(table, 100_000.0) == {"N1": "connected", "N2": "connected"}


def test_a_node_that_vanished_is_forgotten() -> None:
    table = linked(("N1", A), ("N2", B))
    table.heard("N1", A, 100.0)
    assert table.unlinked(A, 100.0) == "N1"
    effects = ticks(table, 101, 100 + int(FORGET_SECONDS))
    assert [effect for effect in effects if not isinstance(effect, Connect | Disconnect)] == []
    assert "N1" in states(table, 129.0)
    assert table.tick(100 + FORGET_SECONDS) == [Disconnect(A)]
    assert states(table, 131.0) == {"N2": "connected"}


def test_the_time_counts_from_the_end_of_the_link() -> None:
    """After hours of a silent tower the node dies: it is tried for as long as any other."""
    table = linked(("N1", A))
    table.unlinked(A, 10_000.0)
    ticks(table, 10_001, 10_000 + int(FORGET_SECONDS))
    assert states(table, 10_029.0) == {"N1": "silent"}
    assert table.tick(10_000 + FORGET_SECONDS) == [Disconnect(A)]


def test_a_node_whose_beacons_come_is_never_forgotten() -> None:
    table = peers()
    table.heard("N1", A, 0.0)
    sockets = Sockets()
    sockets.do([Connect(A)])
    for second in range(1, 1000):
        sockets.do(table.heard("N1", A, float(second)))
        sockets.do(table.tick(float(second)))
    assert sockets.connected == {A}


def test_a_link_that_comes_back_is_the_same() -> None:
    table = linked(("N1", A))
    table.unlinked(A, 50.0)
    table.linked(A, 55.0)
    assert ticks(table, 56, 1000) == []


def test_a_link_that_does_not_come_up_is_made_anew() -> None:
    """And somebody is told, once, if the node says that it is there."""
    table = peers()
    table.heard("N1", A, 0.0)
    table.heard("N1", A, RETRY_SECONDS)
    assert table.tick(RETRY_SECONDS) == [Disconnect(A), Connect(A), Unreached("N1", A)]
    table.heard("N1", A, 2 * RETRY_SECONDS)
    assert table.tick(2 * RETRY_SECONDS) == [Disconnect(A), Connect(A)]
    assert table.tick(2 * RETRY_SECONDS + 1) == []


def test_nobody_is_told_of_a_node_that_is_just_gone() -> None:
    table = linked(("N1", A))
    table.unlinked(A, 100.0)
    assert table.tick(100 + RETRY_SECONDS) == [Disconnect(A), Connect(A)]


def test_news_of_links_given_up_are_ignored() -> None:
    table = linked(("N1", A))
    assert table.linked(B, 1.0) is None
    assert table.unlinked(B, 1.0) is None
    assert table.linked(A, 1.0) is None, "it was before"
    assert states(table, 1.0) == {"N1": "connected"}


def test_a_failed_attempt_is_no_end_of_a_link() -> None:
    """ZeroMQ tells of each attempt that ended; the time to forget must not begin anew with it."""
    table = linked(("N1", A))
    table.unlinked(A, 100.0)
    for second in range(101, 130):
        assert table.unlinked(A, float(second)) is None
    assert table.tick(130.0) == [Disconnect(A)]


# moving -----------------------------------------------------------------------------------------------------


def test_a_node_that_moved_is_found_again() -> None:
    table = linked(("N1", A))
    table.heard("N1", A, 9.5)
    table.unlinked(A, 10.0)
    assert table.heard("N1", B, 10.5) == []
    assert table.heard("N1", B, 10.0 + UNREACHED_SECONDS) == [Disconnect(A), Connect(B)]
    assert table.linked(B, 13.0) == "N1"
    assert table.status(13.0) == [("N1", str(B), "connected", 13.0 - (10.0 + UNREACHED_SECONDS))]
    assert len(table) == 1


def test_a_node_that_moved_while_its_old_link_is_live() -> None:
    """Its old place is not named any more."""
    table = linked(("N1", A))
    assert table.heard("N1", B, MOVE_SECONDS - 0.5) == []
    assert table.heard("N1", B, MOVE_SECONDS + 0.5) == [Disconnect(A), Connect(B)]


def test_two_towers_that_see_a_node_under_two_addresses() -> None:
    table = linked(("N1", A))
    for second in range(1, 100):
        assert table.heard("N1", A, second + 0.0) == []
        assert table.heard("N1", OTHER_A, second + 0.5) == []
        assert table.tick(second + 0.9) == []


@pytest.mark.parametrize("first", [A, OTHER_A])
def test_of_two_addresses_the_one_that_can_be_reached(first: Endpoint) -> None:
    table, sockets = peers(), Sockets()
    for step in range(40):
        now = step / 2
        named = (A, OTHER_A)[(step + (first != A)) % 2]
        sockets.do(table.heard("N1", named, now))
        sockets.do(table.tick(now))
        if OTHER_A in sockets.connected:
            table.linked(OTHER_A, now)
    assert sockets.connected == {OTHER_A}
    assert states(table, 20.0) == {"N1": "connected"}


def test_a_node_started_again_on_its_port_keeps_the_link() -> None:
    """ZeroMQ has made it anew already; connecting twice would bring each message twice."""
    table = linked(("N1", A))
    table.unlinked(A, 10.0)
    table.linked(A, 10.3)
    assert table.heard("N2", A, 10.4) == [Greet()]
    assert states(table, 10.4) == {"N2": "connected"}
    table.unlinked(A, 20.0)
    assert ticks(table, 21, 60)[-1] == Disconnect(A)
    assert len(table) == 0


def test_a_node_that_moves_to_where_another_was() -> None:
    table = linked(("N1", A), ("N2", B))
    table.unlinked(A, 10.0)
    assert table.heard("N1", B, 20.0) == [Disconnect(A)], "the link to B is there"
    assert states(table, 20.0) == {"N1": "connected"}


def test_two_nodes_change_places() -> None:
    table, sockets = peers(), Sockets()
    sockets.do(table.heard("N1", A, 0.0) + table.heard("N2", B, 0.0))
    for second in range(1, 10):
        sockets.do(table.heard("N1", B, second + 0.0) + table.heard("N2", A, second + 0.5))
    assert {peer.node: peer.endpoint for peer in table.status(10.0)} == {"N1": str(B), "N2": str(A)}
    assert sockets.connected == {A, B}


# many nodes -------------------------------------------------------------------------------------------------


def test_a_hundred_thousand_ids_are_bounded_and_cut_no_link() -> None:
    table, sockets = peers(), Sockets()
    friends = [(f"F{n}", Endpoint("10.0.0.1", 2000 + n)) for n in range(10)]
    for node, endpoint in friends:
        sockets.do(table.heard(node, endpoint, 0.0))
        table.linked(endpoint, 0.0)
    for number in range(100_000):
        host = f"10.{1 + number // 65536}.{number // 256 % 256}.{number % 256}"
        sockets.do(table.heard(f"S{number}", Endpoint(host, 1), 1.0))
    assert len(table) == MAX_PEERS == len(sockets.connected)
    assert table.refused == 100_000 - (MAX_PEERS - 10)
    for second in range(1, 100):
        sockets.do(table.tick(float(second)))
    assert sockets.connected == {endpoint for _, endpoint in friends}


def test_a_hundred_thousand_ids_at_one_place_are_one_peer() -> None:
    table, sockets = peers(), Sockets()
    for number in range(100_000):
        sockets.do(table.heard(f"S{number}", A, number / 1000))
    assert len(table) == 1
    assert sockets.connected == {A}


def test_one_id_at_a_hundred_thousand_places_is_one_peer() -> None:
    table, sockets = peers(), Sockets()
    for number in range(100_000):
        sockets.do(table.heard("S", Endpoint(f"10.0.{number // 256 % 256}.{number % 256}", 1), number / 1000))
    assert len(table) == 1 == len(sockets.connected)


def test_the_places_where_we_are_said_to_be_are_bounded() -> None:
    table = peers(max_peers=3)
    for number in range(1000):
        table.heard("ME", Endpoint(f"10.0.{number // 256}.{number % 256}", OWN_PORT), 0.0)
    assert table.heard("N1", Endpoint("10.0.0.1", OWN_PORT), 1.0) != [], "an old one may be somebody else's"
    assert table.heard("N2", Endpoint("10.0.3.231", OWN_PORT), 1.0) == []


def test_a_place_becomes_free_when_a_node_is_forgotten() -> None:
    table = peers(max_peers=1)
    table.heard("N1", A, 0.0)
    table.linked(A, 0.0)
    table.unlinked(A, 0.0)
    assert table.heard("N2", B, 1.0) == []
    assert (table.wants("N1"), table.wants("N2")) == (True, False)
    table.tick(FORGET_SECONDS)
    assert table.heard("N2", B, FORGET_SECONDS) == [Connect(B), Greet()]


# forged beacons ---------------------------------------------------------------------------------------------


def place(number: int, hosts: int) -> Endpoint:
    """Somewhere at one of so many hosts of strangers."""
    return Endpoint(f"10.9.{number % hosts // 256}.{number % hosts % 256}", 1 + number)


@pytest.mark.parametrize("hosts", [1, 2, 400])
def test_four_hundred_forged_beacons_a_second_keep_a_new_store_out_for_two_seconds_at_most(
    hosts: int,
) -> None:
    """It beacons once a second, each time as the last."""
    table, sockets = peers(), Sockets()
    known = [(f"F{n}", Endpoint("10.0.0.1", 2000 + n)) for n in range(10)]
    for node, endpoint in known:
        sockets.do(table.heard(node, endpoint, 0.0))
        table.linked(endpoint, 0.0)
    for second in range(1, 4):
        for number in range(400):
            sockets.do(table.heard(f"FAKE{number}", place(number, hosts), float(second)))
        sockets.do(table.heard("NEW", A, float(second)))
        if "NEW" in states(table, float(second)):
            break
    assert second <= 3
    table.linked(A, float(second))
    for later in range(second, second + 30):
        for number in range(400):
            sockets.do(table.heard(f"FAKE{number}", place(number, hosts), float(later)))
        sockets.do(table.tick(float(later)))
        assert states(table, later)["NEW"] == "connected"
        assert len(table) <= MAX_PEERS
    assert sockets.connected >= {A, *(endpoint for _, endpoint in known)}


def test_a_known_node_that_is_away_for_a_while_keeps_its_place() -> None:
    table, sockets = peers(max_peers=2), Sockets()
    for node, endpoint in (("N1", A), ("N2", B)):
        sockets.do(table.heard(node, endpoint, 0.0))
        table.linked(endpoint, 0.0)
        table.unlinked(endpoint, 1.0)
    for second in range(2, int(FORGET_SECONDS)):
        assert table.heard(f"FAKE{second}", place(second, 400), float(second)) == []
    assert not table.wants("FAKE")
    assert sockets.connected == {A, B}


def test_a_host_that_answers_on_many_ports_has_half_of_the_places() -> None:
    table = peers()
    for number in range(MAX_PEERS):
        endpoint = Endpoint("10.9.0.1", 1 + number)
        table.heard(f"S{number}", endpoint, 0.0)
        table.linked(endpoint, 0.0)
    assert len(table) == MAX_PEERS_OF_HOST
    assert table.heard("NEW", A, 1.0) == [Connect(A), Greet()]


def test_with_keys_a_link_is_to_the_key_that_the_beacon_names() -> None:
    table = peers()
    assert table.heard("N1", A, 0.0, "key-1") == [Connect(A, "key-1"), Greet()]
    table.heard("N1", A, RETRY_SECONDS, "key-1")
    assert table.tick(RETRY_SECONDS) == [Disconnect(A), Connect(A, "key-1"), Unreached("N1", A)]
    table.linked(A, 11.0)
    table.unlinked(A, 12.0)
    assert table.heard("N1", B, 12.0 + UNREACHED_SECONDS, "key-1") == [Disconnect(A), Connect(B, "key-1")]


def keyed(key: str = "key-1") -> Peers:
    """A table in which N1 is linked at A, by this key."""
    table = peers()
    table.heard("N1", A, 0.0, key)
    table.linked(A, 0.0)
    return table


@pytest.mark.parametrize("node", ["N1", "N2"])
def test_another_key_does_not_take_the_place_of_a_live_link(node: str) -> None:
    table = keyed()
    for second in range(100):
        table.heard("N1", A, float(second), "key-1")
        assert table.heard(node, A, second + 0.5, "key-2") == []
        assert table.tick(float(second)) == []
    assert states(table, 100.0) == {"N1": "connected"}
    assert table.refused == 100


def test_the_same_id_with_another_key_is_another_node() -> None:
    """Whichever of them comes first: neither keeps the other one out, whatever its link does."""
    for first, second in (("key-1", "key-2"), ("key-2", "key-1")):
        table, sockets = peers(), Sockets()
        sockets.do(table.heard("N1", A, 0.0, first))
        table.linked(A, 0.0)
        sockets.do(table.heard("N1", B, 0.1, second))
        assert sockets.connected == {A, B}
        assert (table.key_at(A), table.key_at(B)) == (first, second)
        assert [peer.node for peer in table.status(1.0)] == ["N1", "N1"]


def test_who_names_anothers_endpoint_holds_its_link_up_for_two_seconds() -> None:
    """Its own key does not answer there, so it never proves it. Who does keeps it, also without a link."""
    table, sockets = peers(), Sockets()
    sockets.do(table.heard("FAKE", A, 0.0, "key-2"))
    now = 0.0
    while table.key_at(A) != "key-1":
        now += 0.1
        sockets.do(table.heard("N1", A, now, "key-1"))
        sockets.do(table.heard("FAKE", A, now + 0.05, "key-2"))
    assert now == pytest.approx(UNREACHED_SECONDS)
    table.linked(A, now)
    table.unlinked(A, now)
    for tenth in range(600):
        now += 0.1
        sockets.do(table.heard("N1", A, now, "key-1"))
        sockets.do(table.heard("FAKE", A, now + 0.05, "key-2"))
        assert table.key_at(A) == "key-1", tenth
    assert sockets.connected == {A}


def test_a_node_that_comes_back_with_its_next_key_is_linked_by_that() -> None:
    """Keys are rotated: the node is started again, with the same name and at the same place or another."""
    for node in ("N1", "N2"):
        table, sockets = keyed(), Sockets()
        sockets.connected = {A}
        table.unlinked(A, 1.0)
        sockets.do(table.heard(node, A, 1.5, "key-2"))
        assert sockets.connected == {A}
        assert table.key_at(A) == "key-1"  # it may come back, for a moment
        effects = table.heard(node, A, MOVE_SECONDS, "key-2")
        assert effects == [Disconnect(A), Connect(A, "key-2"), Greet()]
        assert states(table, MOVE_SECONDS) == {node: "connecting"}
    assert keyed().heard("N1", B, 1.5, "key-2") == [Connect(B, "key-2"), Greet()]


def test_a_node_whose_key_is_removed_is_forgotten_and_new_when_it_is_back() -> None:
    table = keyed()
    table.heard("N2", B, 0.0, "key-2")
    assert table.forget_unless(lambda key: key == "key-2") == [Disconnect(A)]
    assert states(table, 1.0) == {"N2": "connecting"}
    assert ticks(table, 1, int(RETRY_SECONDS) - 1) == []
    assert table.heard("N1", A, 2.0, "key-1") == [Connect(A, "key-1"), Greet()]


def test_one_key_has_a_bounded_number_of_nodes() -> None:
    table = peers()
    for number in range(MAX_PEERS_OF_KEY):
        endpoint = Endpoint(f"10.9.{number}.1", 1)
        assert table.heard(f"S{number}", endpoint, 0.0, "key-1") == [Connect(endpoint, "key-1"), Greet()]
        table.linked(endpoint, 0.0)
    assert table.heard("NEW", B, 0.0, "key-1") == []
    assert table.refused == 1
    assert table.heard("NEW", B, 0.0, "key-2") == [Connect(B, "key-2"), Greet()]
    gone = Endpoint("10.9.7.1", 1)
    table.unlinked(gone, 1.0)
    assert table.heard("NEW", C, 1.0, "key-1") == [Disconnect(gone), Connect(C, "key-1"), Greet()]
    table.forget_unless(lambda key: key == "key-2")
    assert table.heard("S0", A, 1.0, "key-1") == [Connect(A, "key-1"), Greet()]


def test_with_keys_two_nodes_change_places() -> None:
    table, sockets = peers(), Sockets()
    for node, endpoint, key in (("N1", A, "key-1"), ("N2", B, "key-2")):
        sockets.do(table.heard(node, endpoint, 0.0, key))
        table.linked(endpoint, 0.0)
    table.unlinked(A, 1.0)
    table.unlinked(B, 1.0)
    sockets.do(table.heard("N1", B, 10.0, "key-1"))
    sockets.do(table.heard("N2", A, 10.0, "key-2"))
    assert sockets.connected == {A, B}
    assert states(table, 10.0) == {"N1": "connecting", "N2": "connecting"}
