"""What a transform's checkpoint belongs to, and whether what is asked still fits it. Pure.

Spark keeps offsets and state by the names of topics. It does not notice that a topic was deleted and made
again, that another function reads its state, or that the records now go elsewhere. So what a checkpoint
belongs to stands in a file in it (`dafka.json`) from the first start on, and each start compares.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
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
    outbox: where it is, when that is not the checkpoint itself.
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
    return [*_fixed(kept, asked), *_sources(kept, asked), *_targets(kept, asked)]


def _fixed(kept: Binding, asked: Binding) -> Iterator[Difference]:
    for name, acceptable, why in (
        ("function", True, "changed code can go on as long as its stateful operators stay as they are"),
        ("delivery", False, "the two keep different things; begin with a new --checkpoint"),
        ("output_mode", False, "state was kept for the other one; begin with a new --checkpoint"),
        ("outbox", True, "what it has not published yet is in there, wherever it was moved"),
    ):
        before, now = getattr(kept, name), getattr(asked, name)
        if before != now:
            what = name.replace("_", " ")
            text = f"its {what} is {before or 'its own'}, and {now or 'its own'} was asked ({why})"
            yield Difference(text, acceptable)


def _sources(kept: Binding, asked: Binding) -> Iterator[Difference]:
    if set(kept.sources) != set(asked.sources):
        yield Difference(
            f"it reads {_listed(kept.sources)}, and {_listed(asked.sources)} was asked: its offsets and "
            "state are of the former; begin with a new --checkpoint",
            acceptable=False,
        )
    for topic in _made_again(kept.sources, asked.sources):
        yield Difference(
            f"topic {topic} was deleted and made again (its id was {kept.sources[topic]} and is "
            f"{asked.sources[topic]}): the checkpoint's offsets are of the former, and going on would skip "
            "records of the new one; begin with a new --checkpoint",
            acceptable=False,
        )


def _targets(kept: Binding, asked: Binding) -> Iterator[Difference]:
    # What an outbox has published is known by the target's own end: that of another one says nothing.
    acceptable = kept.delivery != EXACTLY_ONCE
    repair = "" if acceptable else "; begin with a new --checkpoint"
    if set(kept.targets) != set(asked.targets):
        yield Difference(
            f"it writes to {_listed(kept.targets)}, and {_listed(asked.targets)} was asked: the new target "
            f"would get only what comes from now on{repair}",
            acceptable,
        )
    for topic in _made_again(kept.targets, asked.targets):
        yield Difference(
            f"the target {topic} was deleted and made again (its id was {kept.targets[topic]} and is "
            f"{asked.targets[topic]}): the new one would get only what comes from now on{repair}",
            acceptable,
        )
    for topic, before in kept.partitions.items():
        now = asked.partitions.get(topic, before)
        if now != before and kept.delivery == EXACTLY_ONCE:
            yield Difference(
                f"the target {topic} had {before} partitions and has {now}: rows of the outbox are placed "
                f"among {before} of them{repair}",
                acceptable=False,
            )


def _listed(topics: Iterable[str]) -> str:
    return ", ".join(sorted(topics))


def _made_again(kept: Mapping[str, str | None], now: Mapping[str, str | None]) -> list[str]:
    return [
        name
        for name, one in kept.items()
        if name in now and None not in {one, now[name]} and one != now[name]
    ]


def refuse_other_query(kept: Binding, query: str, place: str) -> None:
    """Raises Refused when Spark's part of a checkpoint is gone, or is another query's."""
    if kept.query and kept.query != query:
        raise Refused(
            f"{place}/{FILE} is of Spark's query {kept.query}, and Spark's part of the directory is "
            f"{f'of {query}' if query else 'gone'}. Restore the whole directory from a copy, or begin with a "
            "new --checkpoint."
        )


def refuse_differences(found: list[Difference], place: str, *, accepted: bool) -> list[str]:
    """The differences that were accepted, to be told. Raises Refused when one is not, or must not be."""
    final = [one for one in found if not (one.acceptable and accepted)]
    if final:
        listed = "; ".join(one.text for one in final)
        more = ". --accept-change goes on nevertheless." if all(one.acceptable for one in final) else "."
        raise Refused(f"The checkpoint {place} does not fit what was asked: {listed}{more}")
    return [one.text for one in found]
