"""The table, for people (Markdown) and for programs (JSON)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from harness.cell import FAIL, NOT_IN_CLIENT, PASS, Cell
from harness.folders import ClientFolder
from harness.scenarios import Scenario

SIGNS = {PASS: "pass", FAIL: "**fail**", NOT_IN_CLIENT: "-"}


@dataclass
class Report:
    """Cells by client and scenario: with us, and, where that failed, with Apache Kafka.

    `scenarios` are those that were run, by the client's name.
    """

    clients: Sequence[ClientFolder]
    scenarios: Mapping[str, tuple[Scenario, ...]]
    kafka_version: str
    ours: dict[tuple[str, str], Cell] = field(default_factory=dict)
    kafka: dict[tuple[str, str], Cell] = field(default_factory=dict)

    def lost(self) -> list[str]:
        """Cells that must pass and do not, a sentence each."""
        return [
            f"{client.name} {scenario.name}: {self.ours[client.name, scenario.name].outcome}"
            for client, scenario in self._pairs()
            if scenario.name in client.allowed and self.ours[client.name, scenario.name].outcome != PASS
        ]

    def gained(self) -> dict[str, list[str]]:
        """By client, scenarios that pass and are not in its allow-list yet."""
        found = {
            client.name: [
                scenario.name
                for scenario in self.scenarios[client.name]
                if scenario.name not in client.allowed
                and self.ours[client.name, scenario.name].outcome == PASS
            ]
            for client in self.clients
        }
        return {name: names for name, names in found.items() if names}

    def markdown(self) -> str:
        """A table of the clients that share their scenarios, and one of each that has its own.

        Scenarios down, clients across; a fail says what Apache Kafka does there.
        """
        together: dict[tuple[Scenario, ...], list[ClientFolder]] = {}
        for client in self.clients:
            together.setdefault(self.scenarios[client.name], []).append(client)
        return "\n\n".join(
            self._table(scenarios, clients) for scenarios, clients in together.items() if scenarios
        )

    def json(self) -> str:
        cells = [
            {
                "client": client.name,
                "title": client.title,
                "scenario": scenario.name,
                "allowed": scenario.name in client.allowed,
                "dafka": self.ours[client.name, scenario.name].as_json(),
                "kafka": cell.as_json() if (cell := self.kafka.get((client.name, scenario.name))) else None,
            }
            for client, scenario in self._pairs()
        ]
        when = datetime.now(UTC).isoformat(timespec="seconds")
        return json.dumps({"when": when, "kafka_version": self.kafka_version, "cells": cells}, indent=1)

    def failures(self) -> str:
        """What each failed cell said, here and with Kafka."""
        texts = []
        for key, cell in self.ours.items():
            if cell.outcome == FAIL:
                beside = self.kafka.get(key)
                theirs = f"Apache Kafka: {beside.outcome}\n{beside.words}\n" if beside else ""
                texts.append(f"--- {' '.join(key)}, {cell.seconds:g} s\n{cell.words}\n{theirs}")
        return "\n".join(texts)

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "compat.json").write_text(self.json() + "\n")
        (folder / "compat.md").write_text(self.markdown() + "\n")

    def _pairs(self) -> Iterator[tuple[ClientFolder, Scenario]]:
        return ((client, scenario) for client in self.clients for scenario in self.scenarios[client.name])

    def _table(self, scenarios: Sequence[Scenario], clients: Sequence[ClientFolder]) -> str:
        head = ["scenario", *(client.title for client in clients)]
        rows = [
            [scenario.shows, *(self._sign(client.name, scenario.name) for client in clients)]
            for scenario in scenarios
        ]
        return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])

    def _sign(self, client: str, scenario: str) -> str:
        sign = SIGNS[self.ours[client, scenario].outcome]
        beside = self.kafka.get((client, scenario))
        return f"{sign} (Kafka: {beside.outcome})" if beside else sign
