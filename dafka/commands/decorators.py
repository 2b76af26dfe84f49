"""Click's options, made from the table of settings."""

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from dafka.commands.client_security import (
    DEFAULT_MECHANISM,
    MECHANISMS,
    PROTOCOLS,
    Bootstrap,
    ClientSecurity,
    client_security,
)
from dafka.commands.configuration import BOOTSTRAP_VARIABLE, CONFIG_VARIABLE, load_settings
from dafka.commands.logs import set_up_logs
from dafka.commands.options import OPTIONS, Option, flag_of, key_of, shown_default, variable_of
from dafka.settings import GatewaySettings, Settings

Function = TypeVar("Function", bound=Callable[..., Any])

LOCAL_BOOTSTRAP = str(Settings().listen[0])
"""HOST:PORT of a gateway on this machine that listens where it does by default."""

LOG_OPTIONS = {name: OPTIONS[name] for name in ("log_level", "log_format")}


def setting_options(settings: type[Any], options: Mapping[str, Option]) -> Callable[[Function], Function]:
    """The flags of these settings, with the defaults that `settings` has; `load` takes their values."""

    def decorate(function: Function) -> Function:
        for name, option in reversed([*options.items()]):
            flags = f"{flag_of(name)}/--no-{flag_of(name)[2:]}" if option.off else flag_of(name)
            text: dict[str, Any] = {"metavar": option.metavar, "multiple": option.repeatable}
            function = click.option(
                flags,
                name,
                default=None,
                help=f"{option.help}  [default: {shown_default(settings, name)}]",
                **({"is_flag": True} if option.switch else text),
            )(function)
        return function

    return decorate


def set_elsewhere(name: str, value: str) -> str:
    """What ends the help of a process that serves: where its settings may stand, with one as an example."""
    return (
        f"Each option can also be set by the environment ({flag_of(name)} as {variable_of(name)}) or by a "
        f"key of the --config file ({key_of(name)} = {value}). The command line wins, then the environment, "
        "then the file."
    )


config_option = click.option(
    "--config",
    metavar="FILE",
    envvar=CONFIG_VARIABLE,
    type=click.Path(path_type=Path),
    help="TOML file of settings; its keys are the flags' names without the dashes in front.",
)


_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)

SECURITY_OPTIONS: dict[str, dict[str, Any]] = {
    "client_config": {
        "metavar": "FILE",
        "type": _FILE,
        "help": "Kafka's client.properties: what the options below say is read from it, too.",
    },
    "security_protocol": {
        "type": click.Choice(PROTOCOLS),
        "help": "How the server is talked to.  [default: PLAINTEXT]",
    },
    "sasl_mechanism": {
        "type": click.Choice(MECHANISMS),
        "help": f"How it is told who comes.  [default: {DEFAULT_MECHANISM}]",
    },
    "sasl_user": {"metavar": "NAME", "help": "Who comes."},
    "sasl_password_file": {
        "metavar": "FILE",
        "type": _FILE,
        "help": "File with that user's password and nothing else.",
    },
    "tls_ca": {
        "metavar": "FILE",
        "type": _FILE,
        "help": "Certificates (PEM) that the server's is signed by.  [default: this machine's]",
    },
    "tls_client_certificate": {
        "metavar": "FILE",
        "type": _FILE,
        "help": "A certificate (PEM) to show, where the server asks for one.",
    },
    "tls_client_key": {
        "metavar": "FILE",
        "type": _FILE,
        "help": "Its key (PEM), if that is in another file.",
    },
}
"""What all commands take that talk to a Kafka; each has a variable, as settings have."""


def security_options(function: Function) -> Function:
    """`SECURITY_OPTIONS`, which the function gets as one argument, `security` (ClientSecurity)."""

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name) for name in SECURITY_OPTIONS}
        return function(*args, security=client_security(given), **kwargs)

    for name, how in reversed([*SECURITY_OPTIONS.items()]):
        wrapped = click.option(flag_of(name), name, envvar=variable_of(name), **how)(wrapped)
    return wrapped  # type: ignore[return-value]  # it takes other arguments


def bootstrap_option(function: Function) -> Function:
    """`--bootstrap`, for commands that talk to a running gateway, and how they do that: a Bootstrap."""

    @security_options
    @wraps(function)
    def wrapped(*args: Any, bootstrap: str, security: ClientSecurity, **kwargs: Any) -> Any:
        return function(*args, bootstrap=Bootstrap(bootstrap, security), **kwargs)

    return click.option(
        "--bootstrap",
        metavar="HOST:PORT",
        envvar=BOOTSTRAP_VARIABLE,
        default=LOCAL_BOOTSTRAP,
        show_default=True,
        help=f"Where the gateway, or any Kafka, listens; also ${BOOTSTRAP_VARIABLE}.",
    )(wrapped)  # type: ignore[return-value]  # it takes other arguments


gateway_data_option = click.option(
    "--data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=GatewaySettings().data,
    show_default=True,
    help="Data directory of the running gateway: it is asked through a socket there.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")


def log_options(function: Function) -> Function:
    """`--log-level` and `--log-format` for a command without other settings, applied before it runs."""

    def wrapped(*args: Any, log_level: str | None, log_format: str | None, **kwargs: Any) -> Any:
        settings = load_settings({"log_level": log_level, "log_format": log_format})
        set_up_logs(settings.log_level, settings.log_format)
        return function(*args, **kwargs)

    wrapped.__name__, wrapped.__doc__ = function.__name__, function.__doc__
    # Click keeps the options of the decorators below on the function that they decorated.
    wrapped.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    return setting_options(Settings, LOG_OPTIONS)(wrapped)  # type: ignore[return-value]
