"""`python -m FOLDER.adapter SCENARIO BOOTSTRAP`: the table of the scenarios, and how one ends."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from functools import partial

from python_client import administration, groups, records, security, transactions
from python_client.adapter import Adapter, NotInThisClient
from python_client.reconnect import reconnect

NOT_IN_CLIENT_STATUS = 77


def main(connect: Callable[[str], Adapter]) -> int:
    """The exit status; `connect` makes the adapter for a bootstrap."""
    role, bootstrap = sys.argv[1:]
    adapter = connect(bootstrap)
    try:
        if role.startswith(f"{groups.MEMBER}:"):
            _, topic, group = role.split(":")
            groups.member(adapter, topic, group)
        else:
            _scenario(role, adapter, bootstrap)()
    except NotInThisClient as missing:
        print(missing, file=sys.stderr)
        return NOT_IN_CLIENT_STATUS
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def _scenario(name: str, adapter: Adapter, bootstrap: str) -> Callable[[], None]:
    if name.startswith("codec-"):
        return partial(records.codec, adapter, name.removeprefix("codec-"))
    if name.startswith("sasl-"):
        return partial(security.sasl, adapter, name.removeprefix("sasl-").upper())
    table: dict[str, Callable[[], None]] = {
        "headers": partial(records.headers, adapter),
        "empty-values": partial(records.empty_values, adapter),
        "batches": partial(records.batches, adapter),
        "single-records": partial(records.single_records, adapter),
        "large-messages": partial(records.large_messages, adapter),
        "idempotence": partial(records.idempotence, adapter),
        "seek": partial(records.seek, adapter),
        "timestamps": partial(records.timestamps, adapter),
        "commits": partial(groups.commits, adapter),
        "group-join-leave": partial(groups.join_leave, adapter, bootstrap),
        "group-killed": partial(groups.killed, adapter, bootstrap),
        "admin-topics": partial(administration.topics, adapter),
        "admin-configs": partial(administration.configs, adapter),
        "admin-partitions": partial(administration.partitions, adapter),
        "delete-records": partial(administration.delete_records, adapter),
        "reconnect": partial(reconnect, adapter),
        "tls": partial(security.tls, adapter),
        "certificate-exchanged": partial(security.certificate_exchanged, adapter),
        "password-changed": partial(security.password_changed, adapter),
        "reauthentication": partial(security.reauthentication, adapter),
        "transactions": partial(transactions.commit_and_abort, adapter),
        "transactions-fencing": partial(transactions.fencing, adapter),
        "transactions-offsets": partial(transactions.offsets, adapter),
        "transactions-timeout": partial(transactions.timeout, adapter),
    }
    if name not in table:
        raise NotInThisClient(f"no scenario {name} in this program")
    return table[name]
