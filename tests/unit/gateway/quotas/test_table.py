from __future__ import annotations

from itertools import combinations

import pytest

from gateway.quotas.entities import CLIENT_ID, IP, USER, Entity
from gateway.quotas.table import Limit, Table

RATE = "producer_byte_rate"


def entity(**parts: str | None) -> Entity:
    return frozenset((kind.replace("_", "-"), name) for kind, name in parts.items())


IN_ORDER: list[tuple[Entity, tuple[str, str]]] = [
    (entity(user="alice", client_id="app"), ("alice", "app")),
    (entity(user="alice", client_id=None), ("alice", "app")),
    (entity(user="alice"), ("alice", "")),
    (entity(user=None, client_id="app"), ("alice", "app")),
    (entity(user=None, client_id=None), ("alice", "app")),
    (entity(user=None), ("alice", "")),
    (entity(client_id="app"), ("", "app")),
    (entity(client_id=None), ("", "app")),
]
"""What alice's app has its quota from, and who shares it."""


@pytest.mark.parametrize("there", [*combinations(range(8), 1), *combinations(range(8), 2), tuple(range(8))])
def test_the_first_that_fits(there: tuple[int, ...]) -> None:
    table = Table({IN_ORDER[one][0]: {RATE: one + 1.0} for one in reversed(there)})
    first = min(there)
    assert table.limit(RATE, "alice", "app") == Limit(first + 1.0, (RATE, *IN_ORDER[first][1]))


@pytest.mark.parametrize(
    ("there", "user", "client_id", "limit"),
    [
        pytest.param({}, "alice", "app", None, id="none at all"),
        pytest.param({entity(user="bob"): 1}, "alice", "app", None, id="another's"),
        pytest.param({entity(client_id="job"): 1}, "alice", "app", None, id="another client's"),
        pytest.param({entity(user="alice", client_id="job"): 1}, "alice", "app", None, id="another of hers"),
        pytest.param({entity(client_id=None): 1}, "alice", "", None, id="no id, no default"),
        pytest.param(
            {entity(user="alice", client_id=None): 1, entity(user="alice"): 2},
            "alice", "", (2, "alice", ""), id="without an id it is the user's",
        ),
        pytest.param(
            {entity(user=None, client_id=None): 1, entity(user=None): 2},
            "alice", "", (2, "alice", ""), id="or the default user's",
        ),
        pytest.param({entity(user=None): 1}, "bob", "app", (1, "bob", ""), id="each user has a default's"),
        pytest.param({entity(client_id=None): 1}, "bob", "app", (1, "", "app"), id="users share a client's"),
    ],
)  # fmt: skip
def test_limits(
    there: dict[Entity, float], user: str, client_id: str, limit: tuple[float, str, str] | None
) -> None:
    found = Table({one: {RATE: bound} for one, bound in there.items()}).limit(RATE, user, client_id)
    assert found == (None if limit is None else Limit(limit[0], (RATE, *limit[1:])))


def test_each_key_is_looked_for_by_itself() -> None:
    table = Table(
        {
            frozenset({(USER, "alice")}): {"producer_byte_rate": 1},
            frozenset({(CLIENT_ID, "app")}): {"producer_byte_rate": 2, "consumer_byte_rate": 3},
        }
    )
    assert table.limit("producer_byte_rate", "alice", "app") == (1, ("producer_byte_rate", "alice", ""))
    assert table.limit("consumer_byte_rate", "alice", "app") == (3, ("consumer_byte_rate", "", "app"))
    assert table.limit("request_percentage", "alice", "app") is None
    assert table.keys == {"producer_byte_rate": 2, "consumer_byte_rate": 1}


@pytest.mark.parametrize("before", IN_ORDER)
def test_what_an_entity_has_is_put_in_the_place_of_what_it_had(
    before: tuple[Entity, tuple[str, str]],
) -> None:
    table = Table({before[0]: {RATE: 1, "consumer_byte_rate": 2}})
    table.put(before[0], {"consumer_byte_rate": 3})
    assert table.limit(RATE, "alice", "app") is None
    assert table.limit("consumer_byte_rate", "alice", "app") == (3, ("consumer_byte_rate", *before[1]))
    assert table.keys == {"consumer_byte_rate": 1}
    table.put(before[0], {})
    assert table.limit("consumer_byte_rate", "alice", "app") is None
    assert not table.keys


def test_addresses() -> None:
    key = "connection_creation_rate"
    table = Table({frozenset({(IP, "10.0.0.1")}): {key: 5}})
    assert table.of_ip(key, "10.0.0.1") == (5, True)
    assert table.of_ip(key, "10.0.0.2") is None
    table = Table({frozenset({(IP, "10.0.0.1")}): {key: 5}, frozenset({(IP, None)}): {key: 2}})
    assert table.of_ip(key, "10.0.0.1") == (5, True)
    assert table.of_ip(key, "10.0.0.2") == (2, False)
    assert table.limit(key, "10.0.0.1", "") is None
