"""What a transform's checkpoint belongs to, and whether what is asked still fits it. Pure.

Spark keeps offsets and state by the names of topics. It does not notice that a topic was deleted and made
again, that another function reads its state, or that the records now go elsewhere. So what a checkpoint
belongs to stands in a file in it (`dafka.json`) from the first start on, and each start compares.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from dafka_pipeline.failures import Refused

AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"
DELIVERIES: Final = (AT_LEAST_ONCE, EXACTLY_ONCE)
FORMAT: Final = 1
FILE: Final = "dafka.json"


@dataclass(frozen=True)
class Binding:
    """What a checkpoint belongs to.

    id: made at the first start, 32 hex characters; names the transform's own records in the target.
    sources, targets: topic -> its id, None where the server has none.
    partitions: target -> how many partitions rows were spread over.
    function: MODULE:FN as the user named it.
    outbox: where it is, for exactly-once; empty else.
    query: the id in Spark's part of the checkpoint; empty until it is known.
    """

    id: str
    sources: Mapping[str, str | None]
    targets: Mapping[str, str | None]
    partitions: Mapping[str, int]
    function: str
    delivery: str
    output_mode: str
    outbox: str = ""
    query: str = ""

    def to_json(self) -> str:
        return json.dumps({"dafka_transform": FORMAT, **asdict(self)}, indent=1, sort_keys=True) + "\n"


def parse_binding(text: str, place: str) -> Binding:
    """What `dafka.json` says. Raises Refused for another kind of job or the format of a later version."""
    try:
        found: Any = json.loads(text)
        version = found.pop("dafka_transform")
        if version == FORMAT:
            return Binding(**found)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Refused(
            f"{place}/{FILE} is not that of a transform: the directory belongs to something else. Give "
            "another "
            "--checkpoint."
        ) from None
    raise Refused(
        f"{place} is a checkpoint of format {version}, and this version knows {FORMAT}: use the version "
        "that wrote it, "
        "or a newer one."
    )


@dataclass(frozen=True)
class Difference:
    """Something that was asked and does not fit the checkpoint.

    acceptable: whether `--accept-change` may go on with it.
    """

    text: str
    acceptable: bool


def differences(kept: Binding, asked: Binding) -> list[Difference]:
    """What was changed since the checkpoint was made, each with its repair."""
    return [*_fixed(kept, asked), *_sources(kept, asked), *_targets(kept, asked), *_partitions(kept, asked)]


def _fixed(kept: Binding, asked: Binding) -> Iterator[Difference]:
    for name, acceptable, why in (
        (
            "function",
            True,
            (
                "Spark can go on with changed code as long as its stateful operators and their state stay as "
                "they are"
            ),
        ),
        ("delivery", False, "the two keep different things; begin with a new --checkpoint"),
        ("output_mode", False, "state was kept for the other one; begin with a new --checkpoint"),
        ("outbox", False, "move the outbox and name where it is now, or begin with a new --checkpoint"),
    ):
        before, now = getattr(kept, name), getattr(asked, name)
        if before != now:
            text = f"its {name.replace('_', ' ')} is {before or 'none'}, and {now or 'none'} was asked: {why}"
            yield Difference(text, acceptable)


def _sources(kept: Binding, asked: Binding) -> Iterator[Difference]:
    if set(kept.sources) != set(asked.sources):
        yield Difference(
            f"it reads {', '.join(sorted(kept.sources))}, and {', '.join(sorted(asked.sources))} was asked: "
            "its "
            "offsets and state are of the former; begin with a new --checkpoint",
            acceptable=False,
        )
    for topic in _made_again(kept.sources, asked.sources):
        yield Difference(
            f"topic {topic} was deleted and made again (its id was {kept.sources[topic]} and is "
            f"{asked.sources[topic]}): "
            "the checkpoint's offsets are of the former, and going on would skip records of the new one; "
            "begin with a "
            "new --checkpoint",
            acceptable=False,
        )


def _targets(kept: Binding, asked: Binding) -> Iterator[Difference]:
    if set(kept.targets) != set(asked.targets):
        yield Difference(
            f"it writes to {', '.join(sorted(kept.targets))}, and {', '.join(sorted(asked.targets))} was "
            "asked: the "
            "new target would get only what comes from now on",
            acceptable=kept.delivery != EXACTLY_ONCE,
        )
    for topic in _made_again(kept.targets, asked.targets):
        yield Difference(
            f"the target {topic} was deleted and made again: what was written to it before is gone, and the "
            "new one "
            "would get only what comes from now on",
            acceptable=True,
        )


def _partitions(kept: Binding, asked: Binding) -> Iterator[Difference]:
    if kept.delivery != EXACTLY_ONCE:
        return
    for topic, before in kept.partitions.items():
        now = asked.partitions.get(topic, before)
        if now != before:
            yield Difference(
                f"the target {topic} had {before} partitions and has {now}: records of one key would go on "
                "in another "
                "partition than those before them, as with every producer",
                acceptable=now > before,
            )


def _made_again(kept: Mapping[str, str | None], now: Mapping[str, str | None]) -> list[str]:
    return [
        name
        for name, one in kept.items()
        if name in now and None not in {one, now[name]} and one != now[name]
    ]


def refuse_differences(found: list[Difference], place: str, *, accepted: bool) -> list[str]:
    """The differences that were accepted, to be told. Raises Refused when one is not, or must not be."""
    final = [one for one in found if not (one.acceptable and accepted)]
    if final:
        listed = "; ".join(one.text for one in final)
        more = ". --accept-change goes on nevertheless." if all(one.acceptable for one in final) else "."
        raise Refused(f"The checkpoint {place} does not fit what was asked: {listed}{more}")
    return [one.text for one in found]
