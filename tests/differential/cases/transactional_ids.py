"""AddPartitionsToTxn 0-5, AddOffsetsToTxn 0-4 and EndTxn 0-5 of ids that nobody knows, and of none."""

from __future__ import annotations

from kafka.protocol.producer import AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest

from tests.differential import transactional
from tests.differential.case import case
from tests.differential.side import Side

STRANGER = 1 << 40


@case(AddPartitionsToTxnRequest)
def partitions_of_nobody(side: Side, version: int) -> None:
    wanted = {side.topic("t", partitions=2): [1, 0]}
    for label, name in {"unknown": side.name("nobody"), "empty": ""}.items():
        side.ask(transactional.add_partitions(name, STRANGER, 0, wanted, version=version), label)
    nowhere = wanted | {side.name("nowhere"): [0]}
    side.ask(
        transactional.add_partitions(side.name("nobody"), STRANGER, 0, nowhere, version=version), "nowhere"
    )


@case(AddPartitionsToTxnRequest, [4, 5])
def verified_of_nobody(side: Side, version: int) -> None:
    wanted = {side.topic("t", partitions=2): [1, 0]}
    for label, name in {"unknown": side.name("nobody"), "empty": ""}.items():
        request = transactional.add_partitions(name, STRANGER, 0, wanted, version=version, verify_only=True)
        side.ask(request, label)


@case(AddOffsetsToTxnRequest)
def offsets_of_nobody(side: Side, version: int) -> None:
    for label, name in {"unknown": side.name("nobody"), "empty": ""}.items():
        side.ask(transactional.add_offsets(name, STRANGER, 0, side.name("g"), version=version), label)


@case(EndTxnRequest)
def ends_of_nobody(side: Side, version: int) -> None:
    for commit in (True, False):
        for label, name in {"unknown": side.name("nobody"), "empty": ""}.items():
            request = transactional.end(name, STRANGER, 0, commit=commit, version=version)
            side.ask(request, f"{label}, {'commit' if commit else 'abort'}")
