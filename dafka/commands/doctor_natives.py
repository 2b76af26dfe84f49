"""What `dafka doctor --data` says of native records: what of them does not come, and what to do about it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from dafka.commands.doctor_checks import Finding, Verdict

FULL: Final = 0.9
"""Part of the addresses that may be known, from where on it is said that they run out."""


def look_at_natives(data: Path) -> Iterator[Finding]:
    """Ask the gateway that runs there."""
    from dafka.operators.socket import NoGateway, OperatorRefused, ask  # loads trio

    try:
        seen = ask(data, "mesh.subjects")
    except (NoGateway, OperatorRefused) as failed:
        yield Finding(Verdict.NOTE, "native records", str(failed))
        return
    yield from findings_of(seen)


def findings_of(seen: Mapping[str, Any]) -> Iterator[Finding]:
    """What a gateway's answer to `mesh.subjects` says."""
    for entry in seen["native"]:
        troubles = list(_troubles(entry))
        yield from troubles
        if not troubles:
            yield Finding(
                Verdict.OK,
                _question(entry),
                f"topic {entry['topic']} has it from {_many(entry['addresses'], 'address', 'addresses')}, "
                f"with {_many(entry['lag'], 'record')} to come where this gateway leads",
            )
    for entry in seen["published"]:
        yield Finding(
            Verdict.OK,
            _question(entry),
            f"the values of topic {entry['topic']}, {_many(entry['partitions'], 'partition')} that this "
            "gateway leads",
        )
    for entry in seen["left_out"]:
        yield Finding(Verdict.NOTE, _question(entry), f"topic {entry['topic']} is left out: {entry['why']}")
    if seen["known"] >= FULL * seen["most"]:
        yield Finding(
            Verdict.NOTE,
            "native addresses",
            f"{seen['known']} are known, and no more than {seen['most']} may be: then no new producer comes",
            "Each life of a producer is one, as long as its topic is there: let producers live longer, or "
            "begin another topic and delete this one once it is read",
        )


def _troubles(entry: Mapping[str, Any]) -> Iterator[Finding]:
    topic, question = entry["topic"], _question(entry)
    if not entry["addresses"] and entry["unknown"]:
        yield Finding(
            Verdict.NOTE,
            question,
            f"{_many(entry['unknown'], 'address', 'addresses')} still to come into topic {topic}",
            "See the gateway's log for what they wait for: the partition that they go to, room for another "
            "address",
        )
    elif not entry["addresses"]:
        yield Finding(
            Verdict.NOTE,
            question,
            f"topic {topic} has nothing of it: no store has told of a producer",
            "Start one on the same mesh ('dafka produce SUBJECT --tower HOST'), and see that the stores are "
            "there ('dafka mesh status')",
        )
    if entry["lost"]:
        yield Finding(
            Verdict.NOTE,
            question,
            f"{_many(entry['lost'], 'record')} did not come into topic {topic}: no store had them any more",
            "Give the stores more room (--native-bytes), and see in the gateway's log what held the topic up",
        )
    if entry["refused"]:
        yield Finding(
            Verdict.NOTE,
            question,
            f"{_many(entry['refused'], 'record')} did not come into topic {topic}: they are larger than its "
            "batches may be",
            f"'dafka topics alter {topic} --set max.message.bytes=BYTES' lets further ones come",
        )
    if entry["rewritten"]:
        yield Finding(
            Verdict.NOTE,
            question,
            f"{_many(entry['rewritten'], 'address', 'addresses')} had two contents of one record; topic "
            f"{topic} has the first that came",
            "Their producers sent others when they were asked again, as C's do: start them when stores are "
            "there",
        )


def _question(entry: Mapping[str, Any]) -> str:
    return f"native subject {entry['subject']}"


def _many(count: int, one: str, more: str = "") -> str:
    return f"{count} {one}" if count == 1 else f"{count} {more or one + 's'}"
