"""From a setting's text to its value. A parser raises ValueError with a clause that says what is wrong."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from dafka.settings import TOWER_PORT_IN, TOWER_PORT_OUT
from gateway.catalog.etcd.address import EtcdAddress
from gateway.common.topic_names import invalid_topic_name
from gateway.front.key_set_address import check_address
from gateway.front.listeners import (
    WILDCARD_HOSTS,
    InvalidListener,
    ListenerSpec,
    parse_listener,
    split_host_port,
)
from gateway.security.principal import USER, parse_principal
from mesh.protocol.endpoints import MeshListen, TowerAddress

MAX_SUBJECT_BYTES: Final = 255
"""Of a subject of native records: what a string of Dafka's protocol holds."""

MAX_PARTITIONS: Final = 10_000
"""Partitions of one topic at most, as a setting: each costs memory and a segment, and a number above this
is more often a slip of the finger than a wish."""

_SWITCH: Final = {"true": True, "on": True, "yes": True, "1": True} | {
    "false": False,
    "off": False,
    "no": False,
    "0": False,
}


def parse_listeners(texts: Sequence[str]) -> tuple[ListenerSpec, ...]:
    """Every listener; at least one."""
    if not texts:
        raise ValueError("at least one listener is needed, for example 127.0.0.1:9092")
    return tuple(parse_listener(text) for text in texts)


def parse_directory(text: str) -> Path:
    """A path; not empty, which would be the current directory."""
    if not text or "\0" in text:
        raise ValueError("the path of a directory is needed, for example ./dafka-data")
    return Path(text)


def parse_file(text: str) -> Path:
    """The path of a file."""
    if not text or "\0" in text:
        raise ValueError("the path of a file is needed, for example ./dafka-port")
    return Path(text)


def parse_keys(text: str) -> Path:
    """The path of a directory of keys; not empty, which would be none to some."""
    if not text or "\0" in text:
        raise ValueError(
            "the path of a directory is needed, as 'dafka keys init' makes it, for example ./keys/store-1; a "
            "process without keys leaves this out"
        )
    return Path(text)


def parse_audit(text: str) -> str:
    """The path of a file; or "-"."""
    return text if text == "-" else str(parse_file(text))


def parse_key_set(text: str) -> str:
    """Where a set of keys is: a file or a URL."""
    return check_address(text)


def parse_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Several names."""
    return tuple(parse_name(text) for text in texts)


def parse_catalog(text: str) -> str:
    """The address of an etcd; or "sqlite"."""
    return text if text == "sqlite" else str(EtcdAddress.parse(text))


def parse_metrics(text: str) -> ListenerSpec:
    """HOST:PORT of the HTTP server."""
    host, port = split_host_port(text)
    return ListenerSpec("METRICS", host, port)


def parse_http(text: str) -> ListenerSpec:
    """HOST:PORT[@NAME:PORT] of the status page: where it is bound, and the name that browsers know it by."""
    if "=" in text:
        raise ValueError(
            "the status page's listener has no name; write HOST:PORT, for example 127.0.0.1:8080"
        )
    return replace(parse_listener(text), name="HTTP")


def parse_mesh_listen(text: str) -> MeshListen:
    """HOST[:PORT[-PORT]]: where the mesh binds; of several ports the first free one is taken, without one
    any.
    """
    rest, dash, last = text.rpartition("-")
    if dash and last.isdigit() and rest[-1:].isdigit() and ":" in rest:
        host, low = split_host_port(rest)
        high = parse_port(last)
        if not 1 <= low <= high:
            raise ValueError(f"{low}-{high} is not a range of ports")
        return MeshListen(host, low, high)
    host, port = _host_with_port(text)
    return MeshListen(host, port, port)


def _host_with_port(text: str) -> tuple[str, int]:
    """HOST or HOST:PORT; 0 without a port."""
    try:
        return split_host_port(text)
    except InvalidListener:
        if ":" in text.rpartition("]")[2]:
            raise
        return split_host_port(f"{text}:0")


def parse_towers(texts: Sequence[str]) -> tuple[TowerAddress, ...]:
    """Every tower, HOST[:IN:OUT]; at least one."""
    if not texts:
        raise ValueError("at least one tower is needed, for example 127.0.0.1:5556:5557")
    return tuple(_parse_tower(text) for text in texts)


def _parse_tower(text: str) -> TowerAddress:
    ports = text.rpartition("]")[2].count(":")
    if ports == 0:
        host, _ = split_host_port(f"{text}:0")
        return TowerAddress(host, TOWER_PORT_IN, TOWER_PORT_OUT)
    if ports != 2:
        raise ValueError(f"{text[:64]!r} is not HOST or HOST:IN:OUT; an IPv6 address is written in brackets")
    rest, _, out = text.rpartition(":")
    host, port_in = split_host_port(rest)
    port_out = parse_port(out)
    if not port_in:
        raise ValueError("the port of a tower is 1 to 65535")
    return TowerAddress(host, port_in, port_out)


def parse_subject(text: str) -> str:
    """What native producers publish under."""
    if not 1 <= len(text.encode(errors="surrogatepass")) <= MAX_SUBJECT_BYTES or not text.isprintable():
        raise ValueError(f"{text[:32]!r} is no subject: 1 to 255 bytes of printable text are")
    return text


def parse_host(text: str) -> str:
    """A host name or address, without a port."""
    host, _ = split_host_port(f"{text}:0")
    return host


def parse_advertised_host(text: str) -> str:
    """A host name or address by which others can reach this one; not one that means all of its addresses."""
    host = parse_host(text)
    if host in WILDCARD_HOSTS:
        raise ValueError(
            f"others cannot connect to {text!r}; give a host name or address by which they reach this machine"
        )
    return host


def parse_name(text: str) -> str:
    """A name for people: printable, without spaces, 1 to 64 characters."""
    if not 1 <= len(text) <= 64 or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"{text[:32]!r} is not a name of 1 to 64 printable characters without spaces")
    return text


def parse_principals(texts: Sequence[str]) -> tuple[str, ...]:
    """Whom nothing is denied, each `User:NAME`."""
    principals = [parse_principal(text) for text in texts]
    for one in principals:
        if one.type != USER:
            raise ValueError(f"{str(one)!r} is of a kind that no client has: write it as {USER}:{one.name}")
    return tuple(map(str, principals))


def parse_principal_rules(text: str) -> str:
    """Rules by which certificates name principals, as they are written."""
    from gateway.front.principal_rules import PrincipalRules  # loads RE2, which --help has no need of

    PrincipalRules(text)
    return text


def parse_port(text: str) -> int:
    """A port, 1 to 65535."""
    return parse_number(1, 65535)(text)


def parse_topics(text: str) -> tuple[tuple[str, int | None], ...]:
    """NAME[:PARTITIONS],... ; partitions None: the default number of them."""
    topics: dict[str, int | None] = {}
    for item in filter(None, (item.strip() for item in text.split(","))):
        name, colon, partitions = item.partition(":")
        if why := invalid_topic_name(name):
            raise ValueError(why)
        if name in topics:
            raise ValueError(f"the topic {name} is named twice")
        topics[name] = parse_number(1, MAX_PARTITIONS)(partitions) if colon else None
    return tuple(topics.items())


def parse_number(least: int, most: int) -> Callable[[str], int]:
    """A parser of whole numbers from `least` to `most`."""

    def parse(text: str) -> int:
        digits = text.removeprefix("-")
        # int() of a long text takes quadratic time, and allows underscores and other alphabets' digits.
        if len(text) > 20 or not (digits.isascii() and digits.isdigit()):
            raise ValueError(f"{text[:32]!r} is not a whole number")
        if not least <= int(text) <= most:
            raise ValueError(f"{text} is not between {least} and {most}")
        return int(text)

    return parse


def parse_choice(choices: Sequence[str]) -> Callable[[str], str]:
    """A parser of one of some words."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text[:32]!r} is none of {', '.join(choices)}")
        return text

    return parse


def parse_choices(choices: Sequence[str]) -> Callable[[Sequence[str]], tuple[str, ...]]:
    """Some of a few words."""
    parse = parse_choice(choices)

    def parse_all(texts: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(parse(text) for text in texts))

    return parse_all


def parse_switch(text: str) -> bool:
    """True or false, on or off, yes or no, 1 or 0."""
    if text.lower() not in _SWITCH:
        raise ValueError(f"{text[:32]!r} is neither true nor false")
    return _SWITCH[text.lower()]
