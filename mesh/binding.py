"""Binding a node's publisher to a TCP address that people gave."""

import logging
import socket

from mesh.host_names import preferred
from mesh.inside import EndpointTaken
from mesh.links import Publisher
from mesh.protocol.endpoints import MeshListen, is_loopback

logger = logging.getLogger(__name__)


class MeshExposed(Exception):
    """Without keys others could reach the mesh; the text says where, and what to do."""

    exit_code = 2


def bind_tcp(publisher: Publisher, listen: MeshListen, *, has_keys: bool, insecure: bool) -> int:
    """Bind to the first free port of a range (0: any), where the mesh may listen (`check_exposure`); the
    port.

    Raises `MeshExposed`, and `EndpointTaken` with what to do.
    """
    address = bound_address(listen.host)
    check_exposure(address, has_keys=has_keys, insecure=insecure)
    last_error = ""
    for port in range(listen.first_port, listen.last_port + 1):
        try:
            endpoint = publisher.bind(f"tcp://{address}:{port or '*'}")
        except EndpointTaken as error:
            last_error = str(error)
        else:
            logger.info("the mesh listens on tcp://%s:%s", address, endpoint.rpartition(":")[2])
            return int(endpoint.rpartition(":")[2])
    if listen.first_port != listen.last_port:
        last_error += f" (nor to any port from {listen.first_port} on)"
    raise EndpointTaken(f"{last_error}; give --mesh-listen another port, or a range of them")


def check_exposure(address: str, *, has_keys: bool, insecure: bool) -> None:
    """Before the mesh is bound there: without keys only this machine reaches it, unless it is to be insecure,
    and that is said. `address` is the one that is bound then: a name could lead elsewhere at each look-up.
    Raises `MeshExposed`.
    """
    if has_keys or is_loopback(address.strip("[]")):
        return
    if not insecure:
        raise MeshExposed(
            f"the mesh would listen on {address} without keys, and whoever reaches it could read, write and "
            "delete everything. Give each node keys (dafka keys init; --mesh-keys DIR), or bind it to "
            "127.0.0.1, or say --insecure-mesh where a network keeps everybody else away"
        )
    logger.warning(
        "--insecure-mesh: the mesh listens on %s without keys, and whoever reaches it may read, write and "
        "delete everything",
        address,
    )


def bound_address(host: str) -> str:
    """The address of a host name or address as ZeroMQ binds it, which looks up no names: in brackets, if it
    is one of IPv6. Raises `EndpointTaken`.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise EndpointTaken(f"cannot bind the mesh to {host}: {error}") from None
    address = preferred(found)
    return f"[{address}]" if ":" in address else address
