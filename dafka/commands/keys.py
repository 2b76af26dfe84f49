"""`dafka keys`: who is on a mesh, by keys in files."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from dafka.commands.decorators import json_option
from dafka.commands.exits import CommandFailed
from dafka.commands.tables import print_json, print_table
from mesh.keys import directory
from mesh.keys.certificate import BadCertificate, Certificate, checked_name, checked_subjects
from mesh.keys.directory import OWN
from mesh.keys.roles import Role

HELP = """Make the keys of a mesh, and say who is on it.

Each process has a directory: its own key, and the certificates of all that it is to know. The secret key
never leaves the directory that it was made in; certificates (own.key) are public. A process that runs follows
its directory: who is added is let in, and who is removed is nobody any more, without a restart.

\b
Two nodes that know each other, and a tower:
  dafka keys init ./keys/tower-1 --name tower-1 --role tower
  dafka keys init ./keys/store-1 --name store-1 --role store
  dafka keys init ./keys/gateway-1 --name gateway-1 --role gateway
  for n in tower-1 store-1 gateway-1; do dafka keys add ./keys/$n ./keys/*/own.key; done
\b
  dafka tower --mesh-keys ./keys/tower-1
  dafka store --mesh-keys ./keys/store-1 --data ./store-1
  dafka gateway --mesh-keys ./keys/gateway-1 --data ./gateway-1
"""

_directory = click.argument("directory_", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))


@click.group(help=HELP, short_help="Make the keys of a mesh, and say who is on it.")
def keys() -> None:
    """A group."""


@keys.command(
    name="init",
    short_help="Make a process's key.",
    help="Make DIR with a new key: own.key_secret, which nobody but its owner may read, and own.key, the "
    "certificate for the others. To rotate keys, make one of the same name in another directory.",
)
@_directory
@click.option("--name", required=True, metavar="NAME", help="What the others call it.")
@click.option(
    "--role",
    required=True,
    type=click.Choice([role.value for role in Role]),
    help="What it may do. 'producer' and 'reader' are native ones: dafka produce, dafka consume.",
)
@click.option(
    "--subject",
    "subjects",
    multiple=True,
    metavar="SUBJECT",
    help="What a producer may publish; may be given several times. One that ends with * is a prefix.",
)
def init(directory_: Path, name: str, role: str, subjects: Sequence[str]) -> None:
    """Make them."""
    from mesh.zmq_trio import new_key_pair  # loads ZeroMQ

    try:
        if any(subject != "".join(subject.split()) for subject in subjects):
            raise BadCertificate("a subject with spaces cannot be written into a certificate")
        allowed = checked_subjects(Role(role), " ".join(subjects))
        made = Certificate(checked_name(name), Role(role), "", allowed)
    except BadCertificate as error:
        raise CommandFailed(f"no key was made: {error}") from None
    public, secret = new_key_pair()
    directory.make(directory_, replace(made, public=public, secret=secret))
    click.echo(
        f"{directory_}: the key of {name}, a {role}. Its certificate for the others is {directory_ / OWN}"
    )


@keys.command(
    name="add",
    short_help="Let others onto the mesh.",
    help="Have the process whose keys are in DIR know these certificates: the files own.key of others, or "
    "directories that have one. A file with a secret key is taken without the secret.",
)
@_directory
@click.argument("files", metavar="CERTIFICATE...", nargs=-1, required=True, type=click.Path(path_type=Path))
def add(directory_: Path, files: Sequence[Path]) -> None:
    """Add them."""
    directory.check_has_key(directory_)
    found = [_certificate(file / OWN if file.is_dir() else file) for file in files]
    known = set(directory.sorted_members(directory_)[0].values())
    for one in found:
        directory.add(directory_, one)
        what = "known already" if one in known else "added"
        click.echo(f"{one.name}, a {one.role} ({one.short_key}): {what} in {directory_}")


@keys.command(
    name="list",
    short_help="Show who is on the mesh.",
    help="Show whose key is in DIR, and whom it knows. KEY tells several keys of one name apart.",
)
@_directory
@json_option
def list_command(directory_: Path, as_json: bool) -> None:
    """List them."""
    own = directory.read_own(directory_)
    members = sorted(directory.read_members(directory_).values(), key=lambda one: (one.name, one.short_key))
    if as_json:
        print_json({"own": _shown(own), "members": [_shown(one) for one in members]})
        return
    click.echo(f"{directory_} has the key of {own.name}, a {own.role} ({own.short_key})")
    rows = [(one.name, one.role, " ".join(one.subjects) or "-", one.short_key, one.public) for one in members]
    print_table(("NAME", "ROLE", "SUBJECTS", "KEY", "PUBLIC KEY"), rows)


@keys.command(
    name="remove",
    short_help="Take somebody off the mesh.",
    help="Have the process whose keys are in DIR know NAME no more, or only one key of it. Within a second "
    "or two what comes from there counts no more, and its links are cut. Others know it as before: remove it "
    "everywhere.",
)
@_directory
@click.argument("name", metavar="NAME")
@click.option("--key", default="", metavar="KEY", help="Of several keys of it, the one that begins so.")
def remove(directory_: Path, name: str, key: str) -> None:
    """Remove it."""
    directory.check_has_key(directory_)
    for file in directory.remove(directory_, name, key):
        click.echo(f"{file} is removed")


def _certificate(file: Path) -> Certificate:
    try:
        return directory.read_member(file)
    except (OSError, BadCertificate) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise CommandFailed(
            f"{file}: {why}. Give files that 'dafka keys init' made; nothing was added"
        ) from None


def _shown(one: Certificate) -> dict[str, object]:
    return {
        "name": one.name,
        "role": one.role,
        "subjects": list(one.subjects),
        "key": one.short_key,
        "public_key": one.public,
    }
