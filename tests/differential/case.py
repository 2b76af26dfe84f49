"""How a case is written down: a function that asks one server, run once per version and once per side.

    @case(MetadataRequest)
    def named_topics(side: Side, version: int) -> None:
        topic = side.topic("named", partitions=3)
        side.ask(MetadataRequest(version=version, topics=[...]))

Both sides get the same topic names and so the same bytes, except for topic ids. What `side.ask` hears is
compared; what the set-up methods (`topic`, `put`) do is not.

A case of `as_each` asks a second pair of servers, which have ACLs, once as each of several principals; and a
case of `as_nobody` asks these before they know who it is.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.differential.principals import NOBODY, WITH_CLUSTER_RIGHTS, WITH_RIGHTS

if TYPE_CHECKING:
    from tests.differential.side import Side

Script = Callable[["Side", int], None]

# What this project registers, by API key. A case runs for each of these versions unless it says otherwise.
REGISTERED: dict[int, range] = {
    0: range(3, 14),  # Produce
    1: range(4, 19),  # Fetch
    2: range(1, 12),  # ListOffsets
    3: range(14),  # Metadata
    8: range(2, 11),  # OffsetCommit
    9: range(1, 11),  # OffsetFetch
    10: range(7),  # FindCoordinator
    11: range(10),  # JoinGroup
    12: range(5),  # Heartbeat
    13: range(6),  # LeaveGroup
    14: range(6),  # SyncGroup
    15: range(7),  # DescribeGroups
    16: range(6),  # ListGroups
    17: range(2),  # SaslHandshake
    18: range(5),  # ApiVersions
    19: range(2, 8),  # CreateTopics
    20: range(1, 7),  # DeleteTopics
    21: range(3),  # DeleteRecords
    22: range(6),  # InitProducerId
    23: range(2, 5),  # OffsetForLeaderEpoch
    24: range(6),  # AddPartitionsToTxn
    25: range(5),  # AddOffsetsToTxn
    26: range(6),  # EndTxn
    27: range(1, 3),  # WriteTxnMarkers
    28: range(6),  # TxnOffsetCommit
    29: range(1, 4),  # DescribeAcls
    30: range(1, 4),  # CreateAcls
    31: range(1, 4),  # DeleteAcls
    32: range(1, 5),  # DescribeConfigs
    33: range(3),  # AlterConfigs
    34: range(1, 3),  # AlterReplicaLogDirs
    35: range(1, 6),  # DescribeLogDirs
    36: range(3),  # SaslAuthenticate
    37: range(4),  # CreatePartitions
    38: range(1, 4),  # CreateDelegationToken
    39: range(1, 3),  # RenewDelegationToken
    40: range(1, 3),  # ExpireDelegationToken
    41: range(1, 4),  # DescribeDelegationToken
    42: range(3),  # DeleteGroups
    43: range(3),  # ElectLeaders
    44: range(2),  # IncrementalAlterConfigs
    45: range(2),  # AlterPartitionReassignments
    46: range(1),  # ListPartitionReassignments
    48: range(2),  # DescribeClientQuotas
    49: range(2),  # AlterClientQuotas
    50: range(1),  # DescribeUserScramCredentials
    51: range(1),  # AlterUserScramCredentials
    55: range(3),  # DescribeQuorum
    47: range(1),  # OffsetDelete
    57: range(3),  # UpdateFeatures
    60: range(3),  # DescribeCluster
    61: range(1),  # DescribeProducers
    64: range(1),  # UnregisterBroker
    65: range(1),  # DescribeTransactions
    66: range(3),  # ListTransactions
    74: range(2),  # ListConfigResources
    75: range(1),  # DescribeTopicPartitions
}


@dataclass(frozen=True)
class Case:
    """One script for one API; `name` is file.function, and part of every topic name it uses."""

    name: str
    api_key: int
    versions: tuple[int, ...]
    script: Script
    long: bool = False
    """It takes seconds, as what it looks at is tens of thousands of requests away."""
    principal: str | None = None
    """Who asks, of servers that have ACLs; None: of servers where everybody may do everything."""

    @property
    def group(self) -> str:
        return self.name.partition(".")[0]


_cases: dict[str, Case] = {}


def case(
    request: Any, versions: Iterable[int] | None = None, *, long: bool = False
) -> Callable[[Script], Script]:
    """Registers a script for an API (kafka-python's request class) and its versions, default: all."""

    def register(script: Script) -> Script:
        _register(_name_of(script), request, versions, script, long=long)
        return script

    return register


def as_each(
    request: Any, versions: Iterable[int] | None = None, *, principals: Sequence[str] = WITH_RIGHTS
) -> Callable[[Script], Script]:
    """As `case`, asked as each of these principals of servers that have ACLs: one case for each.

    Who has rights on the cluster alone asks by the lowest and the highest version: what a version changes is
    the same for all.
    """
    served = tuple(REGISTERED[int(request.API_KEY)] if versions is None else versions)
    ends = tuple(sorted({served[0], served[-1]}))

    def register(script: Script) -> Script:
        for principal in principals:
            name = f"{_name_of(script)}-as-{principal}"
            wanted = ends if principal in WITH_CLUSTER_RIGHTS else served
            _register(name, request, wanted, script, principal=principal)
        return script

    return register


def as_nobody(request: Any, versions: Iterable[int] | None = None) -> Callable[[Script], Script]:
    """As `case`, asked on a listener with SASL by who has not said yet who he is."""

    def register(script: Script) -> Script:
        _register(_name_of(script), request, versions, script, principal=NOBODY)
        return script

    return register


def _name_of(script: Script) -> str:
    return f"{script.__module__.rpartition('.')[2]}.{script.__name__}"


def _register(
    name: str,
    request: Any,
    versions: Iterable[int] | None,
    script: Script,
    *,
    long: bool = False,
    principal: str | None = None,
) -> None:
    """Raises ValueError: there is one of this name."""
    if name in _cases:
        raise ValueError(f"two cases are called {name}")
    key = int(request.API_KEY)
    served = REGISTERED[key] if versions is None else versions
    _cases[name] = Case(name, key, tuple(served), script, long, principal)


def all_cases() -> list[Case]:
    """Every case in `tests/differential/cases`, in order of definition."""
    from tests.differential import cases

    for module in sorted(pkgutil.iter_modules(cases.__path__), key=lambda m: m.name):
        importlib.import_module(f"{cases.__name__}.{module.name}")
    return list(_cases.values())


def runs(only: str = "") -> Iterator[tuple[Case, int]]:
    """Every (case, version) whose name contains `only`."""
    for one in all_cases():
        for version in one.versions:
            if only in f"{one.name}-v{version}":
                yield one, version
