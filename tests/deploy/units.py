"""Units of systemd, as the parts that they start."""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path

from tests.deploy import few_rights, seccomp
from tests.deploy.parts import Check, Part

PROGRAM = "/opt/dafka/bin/dafka"
STATE = "/var/lib"


class Unit:
    """A unit file; directives that stand several times are not read."""

    def __init__(self, path: Path) -> None:
        parser = configparser.RawConfigParser(strict=False, delimiters=("=",))
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read_string(path.read_text())
        self.name = path.stem
        self.service = dict(parser["Service"])

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
        own = dict(entry.split("=", 1) for entry in service["Environment"].split())
        return Part(
            name=host,
            command=tuple(word.replace("${STATE_DIRECTORY}", state) for word in command),
            # The file comes after what stands in the unit, and wins.
            environment={"STATE_DIRECTORY": state, **own, **settings},
            volumes={state: host},
            names=(host,),
            grace_seconds=float(service["TimeoutStopSec"]),
            ready=Check(command=("dafka", "health")),
        )
