"""The keys of a process, from its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mesh.keys.directory import KeysRefused
from mesh.keys.keys import Keys
from mesh.keys.roles import Role

if TYPE_CHECKING:
    from dafka.settings import MeshSettings


def keys_of(settings: MeshSettings, role: Role) -> Keys | None:
    """The keys of a process of this role; None where there are none. Raises `KeysRefused`."""
    path = settings.mesh_keys
    if path is None:
        return None
    from mesh.zmq_trio import public_key_of  # loads ZeroMQ

    keys = Keys(path)
    own = keys.own
    if own.role is not role:
        raise KeysRefused(
            f"{path} has the key of a {own.role}, and this is a {role}: give --mesh-keys the directory of "
            f"one, made with 'dafka keys init DIR --name NAME --role {role}'"
        )
    if public_key_of(own.secret) != own.public:
        raise KeysRefused(
            f"the two keys in {path} do not belong together: put back the file that 'dafka keys init' made"
        )
    return keys


def store_name(name: str, keys: Keys | None) -> str:
    """What a store is called: with keys as its key, because others drop what it says under another name.
    Raises `KeysRefused`.
    """
    if keys is None:
        return name
    own = keys.own.name
    if name not in ("", own):
        raise KeysRefused(
            f"--name {name}, and {keys.path} has the key of {own}: a store has the name of its key, or the "
            f"others drop what it says. Leave --name out, say --name {own}, or make a key with that name"
        )
    return own
