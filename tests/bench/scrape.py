"""What a process of a mesh shows to Prometheus."""

import urllib.request

from tests.peers.mesh import GatewayProcess, StoreProcess
from tests.peers.ports import free_ports


class Metrics:
    """The metrics page of a process; made before the process is launched, or launched again."""

    def __init__(self, process: GatewayProcess | StoreProcess) -> None:
        self._address = f"127.0.0.1:{free_ports(1)[0]}"
        process.arguments += ["--metrics", self._address]

    def values(self) -> dict[str, float]:
        """Name, with its labels as they are written, -> value."""
        with urllib.request.urlopen(f"http://{self._address}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}
