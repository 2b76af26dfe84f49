"""Units of systemd, as the parts that they start."""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path

from tests.deploy import few_rights, seccomp
from tests.deploy.parts import Check, Part

PROGRAM = "/opt/dafka/bin/dafka"
STATE = "/var/lib"
CREDENTIALS = "/run/credentials"
OVERRIDING = "EnvironmentFile=/etc/dafka/"
"""Of a drop-in: a file that has to be there, read after that of the unit. It is beside the drop-in here."""


class Unit:
    """A unit file, and a drop-in; of others than these, directives that stand several times are not read:
    Environment and LoadCredential.
    """

    def __init__(self, path: Path, drop_in: Path | None = None) -> None:
        parser = configparser.RawConfigParser(strict=False, delimiters=("=",))
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read_string(path.read_text())
        self.name = path.stem
        self.service = dict(parser["Service"])
        lines = [line for file in (path, drop_in) if file for line in file.read_text().splitlines()]
        self.environment = dict(
            entry.split("=", 1)
            for line in lines
            if line.startswith("Environment=")
            for entry in line.removeprefix("Environment=").split()
        )
        self.credentials: dict[str, str] = dict(
            line.removeprefix("LoadCredential=").split(":", 1)
            for line in lines
            if line.startswith("LoadCredential=")
        )
        """Name -> the file that it is a copy of."""
        self.last_word: dict[str, str] = {}
        """What the drop-in's own environment file says."""
        for line in lines:
            if drop_in is not None and line.startswith(OVERRIDING):
                self.last_word |= _variables(drop_in.with_name(line.removeprefix(OVERRIDING)))

    def few_rights(self) -> list[str]:
        """What gives a command as few rights as it says, in front of it."""
        on = ("DynamicUser", "MemoryDenyWriteExecute", "NoNewPrivileges", "PrivateTmp", "RestrictNamespaces")
        wanted = {"CapabilityBoundingSet": "", "ProtectSystem": "strict", "UMask": "0077"}
        wanted |= dict.fromkeys(on, "yes")
        assert {key: self.service.get(key) for key in wanted} == wanted
        filters = seccomp.of_unit(
            self.service["SystemCallFilter"],
            self.service["RestrictAddressFamilies"],
            self.service["SystemCallErrorNumber"],
        )
        return few_rights.command(filters)

    def part(self, host: str, settings: Mapping[str, str]) -> Part:
        """On a machine of that name, with an environment file of these settings."""
        service, state = self.service, f"{STATE}/{self.service['StateDirectory']}"
        program, *command = service["ExecStart"].split()
        assert program == PROGRAM
        credentials = f"{CREDENTIALS}/{self.name}.service"
        own = {name: text.replace("%d", credentials) for name, text in self.environment.items()}
        if self.credentials:
            own["CREDENTIALS_DIRECTORY"] = credentials
        return Part(
            name=host,
            command=tuple(word.replace("${STATE_DIRECTORY}", state) for word in command),
            # A file wins over what stands in the unit and in its drop-ins, and a later file over an earlier.
            environment={"STATE_DIRECTORY": state, **own, **settings, **self.last_word},
            volumes={state: host} | ({credentials: f"{host}-credentials"} if self.credentials else {}),
            names=(host,),
            grace_seconds=float(service["TimeoutStopSec"]),
            ready=Check(command=("dafka", "health")),
        )


def _variables(path: Path) -> dict[str, str]:
    """Those of an environment file."""
    lines = path.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
