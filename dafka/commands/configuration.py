"""Settings from the command line, the environment and a TOML file: the first of them that has one decides.

A misspelt setting would silently leave the default in force, so unknown keys and variables are errors
that name the nearest known one. Left alone are `DAFKA_TEST_...`, `DAFKA_CI_...`, what is
`dafka-pipeline`'s (`DAFKA_PIPELINE_...`), and what Kubernetes sets in every container beside a service called
dafka (`DAFKA_SERVICE_HOST`, `DAFKA_PORT_9092_TCP_ADDR` ...).
"""

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar

from dafka.commands.mesh_options import GATEWAY_OPTIONS, STORE_OPTIONS, TOWER_OPTIONS
from dafka.commands.options import OPTIONS, Option, flag_of, key_of, variable_of
from dafka.settings import EPHEMERAL, GatewaySettings, ServerSettings, Settings
from gateway.security.principal import ANONYMOUS

Made = TypeVar("Made")
Serving = TypeVar("Serving", Settings, GatewaySettings)
Server = TypeVar("Server", bound=ServerSettings)

CONFIG_VARIABLE: Final = "DAFKA_CONFIG"
BOOTSTRAP_VARIABLE: Final = "DAFKA_BOOTSTRAP"

OF_CLIENTS: Final = (
    "client_config",
    "security_protocol",
    "sasl_mechanism",
    "sasl_user",
    "sasl_password_file",
    "tls_ca",
    "tls_client_certificate",
    "tls_client_key",
)
"""Options of the commands that talk to a Kafka (`dafka.commands.decorators.SECURITY_OPTIONS`)."""

MAX_CONFIG_BYTES: Final = 1024 * 1024
"""A configuration has a few hundred bytes: a larger file was given by mistake, and is not read."""

_KUBERNETES: Final = re.compile(
    r"DAFKA_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
# `dafka-pipeline` has options of its own in the environment, often in the same shell.
_OF_OTHERS: Final = ("DAFKA_TEST_", "DAFKA_CI_", "DAFKA_PIPELINE_")


class ConfigurationError(Exception):
    """A setting cannot be used. The message says which, where it was set, and what to write instead."""

    exit_code = 2


def load_settings(
    flags: Mapping[str, Any], *, config: Path | None = None, environment: Mapping[str, str] = os.environ
) -> Settings:
    """The settings of `dafka standalone`; as `load`."""
    return with_partitions(load(_made, OPTIONS, flags, config=config, environment=environment))


def of_one_kind(settings: Settings) -> Settings:
    """Raises ConfigurationError: something of one process is asked of several, or the other way round."""
    if not settings.gateways:
        if settings.stores:
            raise ConfigurationError("--stores goes with --gateways: one process has one store")
        if settings.mesh_keys is not None and settings.mesh_listen is None:
            raise ConfigurationError(
                "--mesh-keys goes with --mesh-listen: the mesh stays in the process without"
            )
        return settings
    of_one = ("chaos", "mesh_listen", "mesh_keys", "insecure_mesh", "rebuild_catalog", "accept_loss")
    if given := [flag_of(name) for name in of_one if getattr(settings, name)]:
        raise ConfigurationError(f"{given[0]} is for one process: it does not go with --gateways")
    return settings


def _made(**values: Any) -> Settings:
    """Settings of what was set; what keeps nothing has other defaults. Raises ConfigurationError."""
    if "chaos" in values:
        # Each Fetch names its topics then, so that faults can be narrowed to one.
        values["fetch_session_slots"] = 0
    if not values.get("ephemeral"):
        return Settings(**values)
    if "data" in values:
        raise ConfigurationError("--ephemeral keeps no data: leave --data (and DAFKA_DATA) out")
    return Settings(**{**EPHEMERAL, **values})


def with_partitions(settings: Serving) -> Serving:
    """Topics to create without a number of partitions get the default one."""
    topics = tuple((name, partitions or settings.partitions) for name, partitions in settings.topics)
    return dataclasses.replace(settings, topics=topics)


def with_known_listener(settings: Serving) -> Serving:
    """Raises ConfigurationError: other gateways are to be asked by a listener that this one does not have."""
    name = settings.gateway_listener
    names = [one.name for one in settings.listen]
    if name and name not in names:
        raise ConfigurationError(
            f"--gateway-listener {name} is none of --listen, which has {', '.join(names)}: each gateway "
            "listens where the others ask it"
        )
    return settings


def with_known_gateways(settings: Serving, *, is_alone: bool) -> Serving:
    """`is_alone`: there are no other gateways. Raises ConfigurationError: gateways ask each other over a
    listener where nobody knows that they are gateways, and who is not known may not do what they have to.
    """
    asked = settings.gateway_listener or settings.listen[0].name
    protocol = next(one.protocol for one in settings.listen if one.name == asked)
    if (
        is_alone
        or settings.authorizer == "none"
        or protocol.has_sasl
        or protocol.has_tls
        or str(ANONYMOUS) in settings.super_user
    ):
        return settings
    raise ConfigurationError(
        f"gateways that share a catalog ask each other by their listener {asked}, which is {protocol.value}, "
        "and --authorizer denies them there what they need: have --gateway-listener name one with SASL, "
        "where they know each other by their catalog"
    )


def with_guarded_pages(settings: Serving) -> Serving:
    """Raises ConfigurationError: what ACLs deny to a Kafka client could be had, or done, over HTTP."""
    if settings.authorizer == "none" or settings.http is None or settings.http_token_file is not None:
        return settings
    if settings.http_data:
        raise ConfigurationError(
            "--http-data lets whoever reaches --http append and read records, whatever --authorizer acl "
            "allows: give --http-token-file FILE, so that only who has the token may, or leave it out"
        )
    if not settings.http_no_values:
        raise ConfigurationError(
            "--http shows records to whoever reaches it, whatever --authorizer acl allows: give "
            "--http-token-file FILE, so that only who has the token sees them, or --http-no-values"
        )
    return settings


def with_doors_of_something(settings: Server) -> Server:
    """Raises ConfigurationError: a token or TLS is set for what is not served, and protects nothing then."""
    for name in ("metrics", "http"):
        for kind in ("token_file", "tls"):
            if getattr(settings, f"{name}_{kind}", None) and getattr(settings, name) is None:
                raise ConfigurationError(
                    f"{flag_of(f'{name}_{kind}')} is for {flag_of(name)}, which is not given"
                )
    return settings


def with_one_catalog(settings: GatewaySettings) -> GatewaySettings:
    """Raises ConfigurationError: it has another number than 1, and shares its catalog with nobody."""
    if settings.catalog == "sqlite" and settings.gateway_id != 1:
        raise ConfigurationError(
            f"--gateway-id {settings.gateway_id} is for gateways that share a catalog in an etcd: give "
            "--catalog, or leave it out"
        )
    names = [one.name for one in settings.listen]
    doubled = {name for name in names if names.count(name) > 1}
    if settings.catalog != "sqlite" and doubled:
        raise ConfigurationError(
            f"two of --listen are called {min(doubled)}: gateways that share a catalog tell clients each "
            "other's addresses by the names of their listeners. Name them, as in INSIDE=10.0.0.1:9092"
        )
    return settings


def load(
    make: Callable[..., Made],
    options: Mapping[str, Option],
    flags: Mapping[str, Any],
    *,
    config: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Made:
    """The settings of this process, of those in `options`: `make(**values)` of what was set.

    `flags` has, by the settings' names, texts (tuples of them where repeatable) or booleans; None or an
    empty tuple for a flag that was not given. Without `config`, the file is the one that `DAFKA_CONFIG`
    names, if it is set.

    Raises:
        ConfigurationError: See the class.
    """
    check_environment(environment)
    if config is None and environment.get(CONFIG_VARIABLE):
        config = Path(environment[CONFIG_VARIABLE])
    file = _read_file(config, options) if config is not None else {}
    values: dict[str, Any] = {}
    for name, option in options.items():
        if flags.get(name) not in (None, ()):
            values[name] = _parse(option, flags[name], flag_of(name))
        elif variable_of(name) in environment:
            text = environment[variable_of(name)]
            values[name] = _parse(option, text.split() if option.repeatable else text, variable_of(name))
        elif name in file:
            values[name] = _parse(option, file[name], f"{key_of(name)} in {config}")
    return make(**values)


def check_environment(environment: Mapping[str, str]) -> None:
    """Refuses a `DAFKA_...` variable that is no setting.

    Raises:
        ConfigurationError: There is one.
    """
    tables = (OPTIONS, GATEWAY_OPTIONS, STORE_OPTIONS, TOWER_OPTIONS)
    known = [variable_of(name) for name in dict.fromkeys(chain(*tables))]
    known += [CONFIG_VARIABLE, BOOTSTRAP_VARIABLE, *map(variable_of, OF_CLIENTS)]
    for variable in sorted(environment):
        if not variable.startswith("DAFKA_") or variable in known or variable.startswith(_OF_OTHERS):
            continue
        if not _KUBERNETES.fullmatch(variable):
            raise ConfigurationError(
                f"the environment sets {variable}, which is no setting{_nearest(variable, known)}"
            )


def _read_file(path: Path, options: Mapping[str, Option]) -> dict[str, Any]:
    """The file's values as `_parse` takes them, by the settings' names."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_CONFIG_BYTES + 1)
        if len(content) > MAX_CONFIG_BYTES:
            raise ConfigurationError(
                f"{path} is larger than {MAX_CONFIG_BYTES} bytes: it is no configuration"
            )
        import tomllib  # not loaded where there is no file

        table = tomllib.loads(content.decode())
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise ConfigurationError(f"the configuration {path} cannot be read: {reason}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"the configuration {path} is not TOML: {error}") from error
    known = {key_of(name): name for name in options}
    values = {}
    for key, value in table.items():
        name = known.get(key.replace("_", "-"))
        if name is None:
            raise ConfigurationError(f"{path} sets {key}, which is no setting{_nearest(key, known)}")
        values[name] = _text(options[name], value, f"{key} in {path}")
    return values


def _text(option: Option, value: Any, where: str) -> Any:
    """A TOML value as the text that a flag would have: a number or a boolean may be written plainly."""
    if isinstance(value, list):
        if not all(isinstance(item, str) for item in value):
            raise ConfigurationError(f"{where}: a list of texts is needed")
        return value if option.repeatable else ",".join(value)
    if isinstance(value, dict | float) or not isinstance(value, str | int | bool):
        raise ConfigurationError(f"{where}: {option.metavar or 'true or false'} is needed")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return [text] if option.repeatable else text


def _parse(option: Option, value: Any, where: str) -> Any:
    if isinstance(value, bool):
        return value  # a switch on the command line
    try:
        return option.parse(value)
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from error


def _nearest(word: str, known: Iterable[str]) -> str:
    import difflib  # it is for who has made a mistake

    near = difflib.get_close_matches(word.lower(), [name.lower() for name in known], n=1, cutoff=0.6)
    by_lower = {name.lower(): name for name in known}
    return f"; did you mean {by_lower[near[0]]}?" if near else "; docs/configuration.md lists them"
