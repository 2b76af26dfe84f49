"""`dafka tower`: what introduces the nodes of a mesh to each other.

Order of a start: ports, those of metrics and health too -> signals -> the tower runs -> metrics and health ->
"ready". There is nothing to end in order: a signal stops it at once, and no link between nodes depends on it.
"""

import logging

import trio

from dafka.processes.doors import Doors
from dafka.processes.health import Health, serve_health
from dafka.processes.mesh_keys import keys_of
from dafka.processes.mesh_metrics import register_keys, register_tower
from dafka.processes.ready import say_tower_ready
from dafka.processes.signals import watch_signals
from dafka.settings import TowerSettings
from gateway.common.metrics import Metrics
from gateway.front.listener_sockets import ListenError, ListenerSocket, open_listeners
from gateway.front.listeners import join_host_port
from mesh.binding import check_exposure
from mesh.host_names import look_up
from mesh.keys.roles import Role
from mesh.links import Context
from mesh.tower.tower import Tower

logger = logging.getLogger(__name__)


def run(settings: TowerSettings) -> int:
    """Serve until a signal stops it; the exit code.

    Raises what has an `exit_code` and says what to do (ListenError, EndpointTaken, KeysRefused, MeshExposed),
    possibly in an exception group.
    """
    context = Context(keys_of(settings, Role.TOWER))
    try:
        trio.run(_main, settings, context)
    finally:
        context.close()
    return 0


async def _main(settings: TowerSettings, context: Context) -> None:
    host = await _address(settings.listen)
    check_exposure(host, has_keys=context.keys is not None, insecure=settings.insecure_mesh)
    doors = Doors(settings)
    tower = Tower(context, host, settings.port_in, settings.port_out)
    try:
        tower.bind()
        pages = await open_listeners([settings.metrics], "--metrics") if settings.metrics is not None else []
    except BaseException:
        tower.close()
        raise
    metrics, health = Metrics(with_clients=False), Health()
    register_tower(metrics, tower)
    register_keys(metrics, context)
    doors.register(metrics)
    async with trio.open_nursery() as nursery:
        await nursery.start(watch_signals, nursery.cancel_scope.cancel, doors.read_again)
        nursery.start_soon(doors.run)
        nursery.start_soon(context.run)
        await nursery.start(tower.run)
        if pages:
            await nursery.start(serve_health, pages, health, metrics, doors.metrics)
            logger.info("metrics and health are on %s://%s", doors.metrics.scheme, _shown(pages[0]))
        health.ready()
        say_tower_ready(settings.listen, tower.port_in, tower.port_out)


async def _address(host: str) -> str:
    """An address of the host, since ZeroMQ takes no names to bind. Raises ListenError."""
    try:
        return await look_up(host)
    except (OSError, UnicodeError) as error:
        raise ListenError(
            f"cannot listen on {host}: the host name has no address ({error}). Give an address of this "
            "machine, or 0.0.0.0 for all of them"
        ) from error


def _shown(page: ListenerSocket) -> str:
    return join_host_port(*page.socket.getsockname()[:2])
