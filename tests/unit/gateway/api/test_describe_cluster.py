from __future__ import annotations

from typing import Any

import pytest

from tests.unit.gateway.api.asking import CLUSTER_ID, NODE_ID, FakeBroker, ask, request_class

Describe = request_class(60)
VERSIONS = [0, 1, 2]


def describe(version: int, **fields: Any) -> dict[str, Any]:
    return ask(FakeBroker(), Describe(version=version, **fields), ("::1", 19092))


@pytest.mark.parametrize("version", VERSIONS)
def test_this_node_is_the_cluster(version: int) -> None:
    broker: dict[str, Any] = {"broker_id": NODE_ID, "host": "::1", "port": 19092, "rack": None}
    expected = {
        "throttle_time_ms": 0,
        "error_code": 0,
        "error_message": None,
        "cluster_id": CLUSTER_ID,
        "controller_id": NODE_ID,
        "brokers": [broker],
        "authorized_operations": None,
    }
    if version >= 1:
        expected["endpoint_type"] = 1
    if version >= 2:
        broker["is_fenced"] = False
    assert describe(version) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_operations_are_told_when_asked_for(version: int) -> None:
    answer = describe(version, include_cluster_authorized_operations=True)
    assert answer["authorized_operations"] == {5, 7, 8, 9, 10, 11, 12}


def test_fenced_brokers_make_no_difference() -> None:
    assert describe(2, include_fenced_brokers=True) == describe(2)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("endpoint_type", "error"), [(2, 114), (0, 115), (3, 115), (-1, 115)])
def test_only_brokers_are_here(version: int, endpoint_type: int, error: int) -> None:
    answer = describe(version, endpoint_type=endpoint_type, include_cluster_authorized_operations=True)
    assert answer.pop("error_message")
    assert answer == {
        "throttle_time_ms": 0,
        "error_code": error,
        "endpoint_type": 1,
        "cluster_id": "",
        "controller_id": -1,
        "brokers": [],
        "authorized_operations": None,
    }
