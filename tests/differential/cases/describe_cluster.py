"""DescribeCluster 0-2."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeClusterRequest

from tests.differential.case import case
from tests.differential.side import Side


@case(DescribeClusterRequest)
def brokers(side: Side, version: int) -> None:
    side.ask(DescribeClusterRequest(version=version, include_cluster_authorized_operations=False), "plain")
    side.ask(
        DescribeClusterRequest(version=version, include_cluster_authorized_operations=True), "operations"
    )


@case(DescribeClusterRequest, range(1, 3))
def endpoint_types(side: Side, version: int) -> None:
    """1 brokers, 2 controllers: a broker's listener answers for brokers."""
    fields: dict[str, Any] = {"include_cluster_authorized_operations": False}
    for kind in [1, 2, 0, 3, -1]:
        side.ask(DescribeClusterRequest(version=version, endpoint_type=kind, **fields), f"type {kind}")


@case(DescribeClusterRequest, [2])
def fenced(side: Side, version: int) -> None:
    side.ask(
        DescribeClusterRequest(
            version=version,
            include_cluster_authorized_operations=False,
            endpoint_type=1,
            include_fenced_brokers=True,
        )
    )
