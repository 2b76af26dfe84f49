"""`python -m java_tools.scenarios SCENARIO BOOTSTRAP`: what people type, against a server."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from java_tools import cluster, configs, consoles, copier, groups, load, logs, topics, transacted
from java_tools.host import Tools

SCENARIOS: Final[dict[str, Callable[[Tools], None]]] = {
    "consoles": consoles.consoles,
    "topics": topics.topics,
    "configs": configs.configs,
    "consumer-groups": groups.consumer_groups,
    "reset-offsets": groups.reset_offsets,
    "groups": consoles.kafka_groups,
    "get-offsets": logs.get_offsets,
    "delete-records": logs.delete_records,
    "log-dirs": logs.log_dirs,
    "verifiable": load.verifiable,
    "performance": load.performance,
    "end-to-end-latency": load.end_to_end_latency,
    "client-compatibility": load.client_compatibility,
    "replica-verification": load.replica_verification,
    "application-reset": groups.application_reset,
    "api-versions": cluster.api_versions,
    "cluster": cluster.cluster,
    "metadata-quorum": cluster.metadata_quorum,
    "leader-election": cluster.leader_election,
    "reassign-partitions": cluster.reassign_partitions,
    "transactions": cluster.transactions,
    "transactions-under-way": transacted.transactions_under_way,
    "message-copier": copier.message_copier,
    "acls": cluster.acls,
    "features": cluster.features,
}


def main(scenario: str, bootstrap: str) -> None:
    with tempfile.TemporaryDirectory() as folder, Tools(bootstrap, Path(folder)) as tools:
        SCENARIOS[scenario](tools)


if __name__ == "__main__":
    main(*sys.argv[1:])
