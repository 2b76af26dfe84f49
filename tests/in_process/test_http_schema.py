"""The OpenAPI document is kept by the server: whatever it allows, and whatever it does not, is asked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import trio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

from tests.in_process.pages import with_pages

PATIENCE_SECONDS = 120
EXAMPLES = 15
KNOWN = {"topic": "orders", "partition": "0"}
CHECKS = [not_a_server_error, content_type_conformance, status_code_conformance]


def exercise(url: str) -> Counter[tuple[str, int]]:
    """Ask every operation; the methods and statuses that there were."""
    schema = schemathesis.openapi.from_url(f"{url}/api/v1/openapi.json")
    asked: Counter[tuple[str, int]] = Counter()
    found: Any
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path.endswith("/events"):
            continue

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(), known=st.booleans())
        def ask(case: Any, known: bool) -> None:
            if known:  # hardly any other topic is there
                for name in case.path_parameters or ():
                    case.path_parameters[name] = KNOWN.get(name, "0")
            if (case.query or {}).get("block") == "true":
                return
            response = case.call_and_validate(checks=CHECKS, timeout=20)
            asked[case.method.upper(), response.status_code] += 1

        ask()
    return asked


def test_the_server_keeps_its_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            options: dict[str, Any] = {"topics": (("orders", 1),), "http_data": True}
            async with with_pages(tmp_path, monkeypatch, **options) as pages:
                asked = await trio.to_thread.run_sync(exercise, f"http://127.0.0.1:{pages.port}")
                print(asked)
                assert asked["GET", 200]
                assert asked["POST", 201]

    trio.run(main)
