"""docs/authorization.md: which right each request takes, found out by asking a gateway.

`python -m tests.docs.authorization_page` writes the page; a test compares it with what is there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest
import trio

from gateway.common.handlers import Api
from gateway.front.registry import load_apis
from gateway.security.acls import ResourceType
from tests.docs.authorization.findings import Finding, findings
from tests.docs.authorization.recording import Question
from tests.docs.authorization.requests import requests
from tests.docs.authorization.scene import scene
from tests.docs.constants_page import ROOT

PAGE: Final = ROOT / "docs" / "authorization.md"

HEAD: Final = """# Which rights a request takes

With `--authorizer acl` ([configuration.md](configuration.md)) each request is checked as Apache Kafka 4.3 does it.
The table is made from the code (`python -m tests.docs.authorization_page`): a gateway is asked every API in every
version, each right is denied in turn, and what comes of it is written down. A test keeps page and code equal.

- **Right**: the operation, and on what. *Any topic*: it is enough to have it on some topic.
- **Or instead**: whoever has this is not asked for the right.
- **Without it**: the error that is answered; *each*: for what it is about, a topic, partition, group or resource,
  else for the whole request. *Less is told*: what may not be seen is not in the answer, without an error.
- Where they are allowed, READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS.
- What is named twice, has no name or is otherwise no proper request may be told so before any right is asked for.

| API | versions | right | or instead | without it |
|---|---|---|---|---|
"""  # noqa: E501 - the page's own lines

NOTHING: Final = "These take no right:"

RESOURCES: Final = {
    ResourceType.TOPIC: "the topic",
    ResourceType.GROUP: "the group",
    ResourceType.CLUSTER: "the cluster",
    ResourceType.TRANSACTIONAL_ID: "the transactional id",
    ResourceType.DELEGATION_TOKEN: "the token",
    ResourceType.USER: "the user",
}

Found = dict[Finding, list[int]]
"""The versions in which it is so."""


async def found_by_asking(data: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Found]:
    """By the names of APIs, in the order of their keys."""
    by_api: dict[str, Found] = {}
    async with scene(data, monkeypatch) as made:
        for api in load_apis().all():
            found: Found = by_api.setdefault(api.name, {})
            for version, make in requests(made, api):
                for finding in await findings(made.asking(make)):
                    versions = found.setdefault(finding, [])
                    if version not in versions:
                        versions.append(version)
    return by_api


def page(by_api: Mapping[str, Found]) -> str:
    """The page's text."""
    apis = {api.name: api for api in load_apis().all()}
    rows = [row for name, found in by_api.items() for row in _rows(apis[name], found)]
    free = "".join(f"- {name}\n" for name, found in by_api.items() if not found)
    return f"{HEAD}{''.join(rows)}\n{NOTHING}\n\n{free}"


def _rows(api: Api, found: Found) -> Iterable[str]:
    for finding, versions in found.items():
        in_all = len(versions) == api.max_version - api.min_version + 1
        yield (
            f"| {api.name} | {'' if in_all else _runs(versions)} | {_right(finding.question)} | "
            f"{', '.join(map(_right, finding.unless))} | {_otherwise(finding)} |\n"
        )


def _right(question: Question) -> str:
    where = "any topic" if question.anywhere else RESOURCES[question.resource_type]
    what = "each operation" if question.operation is None else question.operation.name
    return f"{what} on {where}"


def _otherwise(finding: Finding) -> str:
    if not finding.errors:
        return "less is told"
    errors = ", ".join(error.name for error in finding.errors)
    return errors if finding.as_a_whole else f"{errors}, each"


def _runs(numbers: Sequence[int]) -> str:
    """`0-3, 6` of 0, 1, 2, 3, 6."""
    runs = []
    for _, run in groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        runs.append(str(members[0]) if len(members) == 1 else f"{members[0]}-{members[-1]}")
    return ", ".join(runs)


def written() -> str:
    """The page as the code has it now."""
    with tempfile.TemporaryDirectory() as data, pytest.MonkeyPatch.context() as monkeypatch:
        return page(trio.run(found_by_asking, Path(data), monkeypatch))


if __name__ == "__main__":
    PAGE.write_text(written())
