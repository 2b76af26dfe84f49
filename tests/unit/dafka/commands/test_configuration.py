"""Settings from flags, environment and file: which wins, how each is written, and what is refused."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.commands.configuration import (
    ConfigurationError,
    load,
    load_settings,
    of_one_kind,
    with_doors_of_something,
    with_guarded_pages,
    with_known_gateways,
    with_known_listener,
)
from dafka.commands.mesh_options import GATEWAY_OPTIONS, NATIVE_OPTIONS, STORE_OPTIONS, TOWER_OPTIONS
from dafka.commands.options import (
    MAX_CLIENT_CONNECTIONS,
    OPTIONS,
    Option,
    flag_of,
    key_of,
    shown_default,
    variable_of,
)
from dafka.commands.parsing import parse_mesh_listen
from dafka.settings import (
    EPHEMERAL,
    GatewaySettings,
    MeshStoreSettings,
    NativeSettings,
    Settings,
    TowerSettings,
)
from gateway.front.limits import MAX_CONNECTIONS
from gateway.front.listeners import ListenerSpec
from gateway.security.protocol import SecurityProtocol
from mesh.protocol.endpoints import MeshListen, TowerAddress

HTTP = ListenerSpec("HTTP", "127.0.0.1", 8080)
FILE = Path("/run/token")

# name: a text, and the value it stands for
WRITTEN: dict[str, tuple[str, Any]] = {
    "listen": ("[::1]:0", (ListenerSpec("PLAINTEXT", "::1", 0),)),
    "tls_certificate": ("/run/cert.pem", Path("/run/cert.pem")),
    "tls_key": ("/run/key.pem", Path("/run/key.pem")),
    "tls_certificate_password_file": ("/run/password", Path("/run/password")),
    "tls_client_ca": ("/run/ca.pem", Path("/run/ca.pem")),
    "tls_client_auth": ("required", "required"),
    "tls_principal_rules": ("RULE:CN=(.*?),.*/$1/L,DEFAULT", "RULE:CN=(.*?),.*/$1/L,DEFAULT"),
    "tls_gateway_ca": ("/run/gateways.pem", Path("/run/gateways.pem")),
    "tls_ca_password_file": ("/run/password", Path("/run/password")),
    "sasl_enabled_mechanism": ("SCRAM-SHA-512", ("SCRAM-SHA-512",)),
    "oauth_keys": ("https://login.example/keys", "https://login.example/keys"),
    "oauth_audience": ("kafka", ("kafka",)),
    "oauth_issuer": ("login", "login"),
    "oauth_subject_claim": ("azp", "azp"),
    "oauth_clock_skew_seconds": ("5", 5),
    "audit": ("-", "-"),
    "audit_required": ("true", True),
    "data": ("/somewhere", Path("/somewhere")),
    "fsync": ("never", "never"),
    "fsync_interval_ms": ("5", 5),
    "partitions": ("7", 7),
    "topics": ("a:3,b", (("a", 3), ("b", 1))),
    "rack": ("zone-b", "zone-b"),
    "gateway_listener": ("INSIDE", "INSIDE"),
    "auto_create_topics": ("false", False),
    "relax_replication_factor": ("true", True),
    "trust_batches": ("true", True),
    "authorizer": ("acl", "acl"),
    "super_user": ("User:admin", ("User:admin",)),
    "connections_max_reauth_ms": ("3600000", 3_600_000),
    "quota_window_num": ("2", 2),
    "quota_window_size_seconds": ("60", 60),
    "controller_quota_window_num": ("1", 1),
    "controller_quota_window_size_seconds": ("30", 30),
    "delegation_token_secret_file": ("/run/secret", Path("/run/secret")),
    "delegation_token_max_lifetime_ms": ("60000", 60_000),
    "delegation_token_expiry_time_ms": ("30000", 30_000),
    "allow_everyone_if_no_acl_found": ("true", True),
    "admin_client_writes": ("true", True),
    "retention_check_interval_ms": ("500", 500),
    "compaction_backoff_ms": ("20", 20),
    "delete_delay_ms": ("0", 0),
    "group_initial_rebalance_delay_ms": ("0", 0),
    "group_min_session_timeout_ms": ("1000", 1000),
    "group_max_session_timeout_ms": ("60000", 60_000),
    "group_max_size": ("12", 12),
    "offsets_retention_minutes": ("60", 60),
    "fetch_session_slots": ("0", 0),
    "tail_cache_bytes": ("0", 0),
    "max_client_connections": ("10000", 10_000),
    "metrics": ("127.0.0.1:9100", ListenerSpec("METRICS", "127.0.0.1", 9100)),
    "metrics_token_file": ("/run/token", Path("/run/token")),
    "metrics_tls": ("true", True),
    "http": ("127.0.0.1:8080@dafka.example:80", ListenerSpec("HTTP", "127.0.0.1", 8080, "dafka.example", 80)),
    "http_token_file": ("/run/token", Path("/run/token")),
    "http_tls": ("true", True),
    "http_no_values": ("true", True),
    "http_data": ("true", True),
    "metrics_by_partition": ("true", True),
    "mesh_listen": ("127.0.0.1", MeshListen("127.0.0.1")),
    "mesh_keys": ("/etc/dafka/keys", Path("/etc/dafka/keys")),
    "insecure_mesh": ("true", True),
    "ephemeral": ("true", True),
    "ends_with": ("4711", 4711),
    "port_file": ("/run/bootstrap", Path("/run/bootstrap")),
    "gateways": ("3", 3),
    "stores": ("2", 2),
    "chaos": ("/run/chaos", Path("/run/chaos")),
    "rebuild_catalog": ("true", True),
    "accept_loss": ("true", True),
    "log_level": ("debug", "debug"),
    "log_format": ("json", "json"),
}
SWITCHES = [name for name, option in OPTIONS.items() if option.switch]

PLAIN = ListenerSpec("PLAINTEXT", "127.0.0.1", 0)
SASL = ListenerSpec("SASL_SSL", "127.0.0.1", 0, protocol=SecurityProtocol.SASL_SSL)


def flag_value(name: str, text: str) -> Any:
    """What the command line hands over for this text."""
    if name in SWITCHES:
        return text == "true"
    return (text,) if OPTIONS[name].repeatable else text


def refused(**arguments: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(arguments.pop("flags", {}), **({"environment": {}} | arguments))
    assert caught.value.exit_code == 2
    return str(caught.value)


def file_with(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "dafka.toml"
    file.write_text(text)
    return file


def test_every_setting_is_tested() -> None:
    assert list(OPTIONS) == list(WRITTEN)


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (Settings, OPTIONS),
        (GatewaySettings, GATEWAY_OPTIONS),
        (MeshStoreSettings, STORE_OPTIONS),
        (TowerSettings, TOWER_OPTIONS),
        (NativeSettings, NATIVE_OPTIONS),
    ],
)
def test_every_setting_has_an_option_that_can_be_given_the_default_that_is_shown(
    settings: type[Any], options: dict[str, Option]
) -> None:
    assert sorted(options) == sorted(field.name for field in dataclasses.fields(settings))
    defaults = settings()
    for name, option in options.items():
        shown: Any = shown_default(settings, name)
        if shown in {"off", "none"} and name not in SWITCHES and getattr(defaults, name) != shown:
            assert not getattr(defaults, name), name
        else:
            written = shown.split() if option.repeatable else shown
            assert option.parse(written) == getattr(defaults, name), name


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"stores": 3}, "--stores goes with --gateways"),
        ({"gateways": 3, "chaos": Path("/run/chaos")}, "--chaos is for one process"),
        ({"gateways": 2, "accept_loss": True}, "--accept-loss is for one process"),
        ({"gateways": 2, "mesh_listen": MeshListen("0.0.0.0")}, "--mesh-listen is for one process"),
        ({"gateways": 2, "mesh_keys": Path("/keys")}, "--mesh-keys is for one process"),
        ({"gateways": 2, "insecure_mesh": True}, "--insecure-mesh is for one process"),
        ({"mesh_keys": Path("/keys")}, "--mesh-keys goes with --mesh-listen"),
        ({"gateways": 2, "rebuild_catalog": True}, "--rebuild-catalog is for one process"),
    ],
)
def test_what_is_of_one_process_and_of_several_does_not_mix(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        of_one_kind(Settings(**wrong))
    assert of_one_kind(Settings(gateways=2, stores=3)).stores == 3


def test_gateways_ask_each_other_by_a_listener_that_is_there() -> None:
    inside, outside = ListenerSpec("INSIDE", "127.0.0.1", 0), ListenerSpec("PLAINTEXT", "127.0.0.1", 0)
    for name in ("", "INSIDE", "PLAINTEXT"):
        settings = Settings(listen=(outside, inside), gateway_listener=name)
        assert with_known_listener(settings) is settings
    with pytest.raises(ConfigurationError, match="--gateway-listener OTHER is none of --listen, which has"):
        with_known_listener(GatewaySettings(listen=(outside, inside), gateway_listener="OTHER"))


@pytest.mark.parametrize(
    ("settings", "fits"),
    [
        ({"authorizer": "none"}, True),
        ({}, False),
        ({"super_user": ("User:ANONYMOUS",)}, True),
        ({"listen": (PLAIN, SASL)}, False),
        ({"listen": (SASL, PLAIN)}, True),
        ({"listen": (PLAIN, SASL), "gateway_listener": "SASL_SSL"}, True),
    ],
)
def test_gateways_that_ask_each_other_are_known_where_that_matters(
    settings: dict[str, Any], fits: bool
) -> None:
    made = GatewaySettings(**{"authorizer": "acl"} | settings)
    assert with_known_gateways(made, is_alone=True) is made
    if fits:
        assert with_known_gateways(made, is_alone=False) is made
    else:
        with pytest.raises(ConfigurationError, match="by their listener PLAINTEXT, which is PLAINTEXT"):
            with_known_gateways(made, is_alone=False)


def test_without_anything_the_defaults_hold() -> None:
    assert load_settings({}, environment={"HOME": "/root", "PATH": "/bin"}) == Settings()
    assert load_settings(dict.fromkeys(OPTIONS) | {"listen": ()}, environment={}) == Settings()


@pytest.mark.parametrize("name", WRITTEN)
def test_each_setting_from_each_place(tmp_path: Path, name: str) -> None:
    text, value = WRITTEN[name]
    with_it = {"ephemeral": EPHEMERAL, "chaos": {"fetch_session_slots": 0}}.get(name, {})
    expected = dataclasses.replace(Settings(), **{name: value}, **with_it)
    assert expected != Settings(), "the value must not be the default"
    assert load_settings({name: flag_value(name, text)}, environment={}) == expected
    assert load_settings({}, environment={variable_of(name): text}) == expected
    for key in (key_of(name), name):
        assert load_settings({}, config=file_with(tmp_path, f'{key} = "{text}"'), environment={}) == expected


def test_one_client_may_have_all_connections_and_no_more() -> None:
    assert MAX_CLIENT_CONNECTIONS == MAX_CONNECTIONS


def test_flag_over_environment_over_file(tmp_path: Path) -> None:
    file = file_with(tmp_path, "partitions = 3\nfsync-interval-ms = 30\ntail-cache-bytes = 300\n")
    settings = load_settings(
        {"partitions": "1"},
        config=file,
        environment={"DAFKA_PARTITIONS": "2", "DAFKA_FSYNC_INTERVAL_MS": "20"},
    )
    assert (settings.partitions, settings.fsync_interval_ms, settings.tail_cache_bytes) == (1, 20, 300)


def test_a_switch_can_be_turned_off_again(tmp_path: Path) -> None:
    file = file_with(tmp_path, "auto-create-topics = false\n")
    assert load_settings({"auto_create_topics": True}, config=file, environment={}).auto_create_topics
    assert not load_settings({"auto_create_topics": None}, config=file, environment={}).auto_create_topics


def test_the_environment_can_name_the_file(tmp_path: Path) -> None:
    file = file_with(tmp_path, "partitions = 3")
    assert load_settings({}, environment={"DAFKA_CONFIG": str(file)}).partitions == 3
    other = tmp_path / "other.toml"
    other.write_text("partitions = 4")
    assert load_settings({}, config=other, environment={"DAFKA_CONFIG": str(file)}).partitions == 4


def test_several_listeners(tmp_path: Path) -> None:
    hosts = ["localhost", "::1"]
    for settings in (
        load_settings({"listen": ("localhost:1", "[::1]:2")}, environment={}),
        load_settings({}, environment={"DAFKA_LISTEN": "localhost:1 [::1]:2"}),
        load_settings({}, config=file_with(tmp_path, 'listen = ["localhost:1", "[::1]:2"]'), environment={}),
    ):
        assert [listener.host for listener in settings.listen] == hosts


def test_topics_without_a_number_get_the_default_number() -> None:
    settings = load_settings({"topics": "a, b:2 ,c", "partitions": "6"}, environment={})
    assert settings.topics == (("a", 6), ("b", 2), ("c", 6))
    assert load_settings({"topics": ""}, environment={}).topics == ()


def test_plain_toml_values(tmp_path: Path) -> None:
    file = file_with(
        tmp_path, 'partitions = 9\nauto_create_topics = false\ntopics = ["a:1", "b:2"]\nlisten = "[::1]:1"'
    )
    settings = load_settings({}, config=file, environment={})
    assert (settings.partitions, settings.auto_create_topics) == (9, False)
    assert settings.topics == (("a", 1), ("b", 2))
    assert settings.listen[0].host == "::1"


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("listen", "localhost", "has no port"),
        ("listen", "localhost:99999", "not a port"),
        ("listen", "127.0.0.1:9092@0.0.0.0:9092", "clients cannot connect"),
        ("data", "", "directory is needed"),
        ("fsync", "sometimes", "is none of always, interval, never"),
        ("fsync_interval_ms", "0", "0 is not between 1 and 3600000"),
        ("partitions", "1_000", "is not a whole number"),
        ("partitions", "٣", "is not a whole number"),
        ("partitions", "9" * 5000, "is not a whole number"),
        ("partitions", "10001", "10001 is not between 1 and 10000"),
        ("tail_cache_bytes", "-1", "-1 is not between 0"),
        ("max_client_connections", "10001", "10001 is not between 1 and 10000"),
        ("tail_cache_bytes", "64MiB", "is not a whole number"),
        ("topics", "a/b", "Topic name is invalid"),
        ("topics", "a:0", "0 is not between 1 and 10000"),
        ("topics", "a:", "is not a whole number"),
        ("topics", "a,b,a:2", "the topic a is named twice"),
        ("metrics", "9100", "has no port"),
        ("http", "127.0.0.1", "has no port"),
        ("http", "A=127.0.0.1:80", "has no name"),
        ("mesh_listen", "127.0.0.1:x", "not a port"),
        ("mesh_keys", "", "as 'dafka keys init' makes it"),
        ("mesh_listen", "a b", "not a host name"),
        ("log_level", "trace", "is none of debug, info, warning, error"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(tmp_path: Path, name: str, text: str, what: str) -> None:
    for message, place in (
        (refused(flags={name: flag_value(name, text)}), flag_of(name)),
        (refused(environment={variable_of(name): text}), variable_of(name)),
        (refused(config=file_with(tmp_path, f"{key_of(name)} = '{text}'")), f"{key_of(name)} in {tmp_path}"),
    ):
        if text == "a b" and place == variable_of("listen"):
            continue
        assert message.startswith(place)
        assert what in message
        assert len(message) < 300


def test_a_switch_in_the_environment_is_true_or_false() -> None:
    assert "'maybe' is neither true nor false" in refused(environment={"DAFKA_REBUILD_CATALOG": "maybe"})


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("partitons = 3", "sets partitons, which is no setting; did you mean partitions?"),
        ("colour = 3", "sets colour, which is no setting; docs/configuration.md lists them"),
        ("[standalone]\npartitions = 3", "sets standalone, which is no setting"),
        ("partitions = [1]", "a list of texts is needed"),
        ("partitions = 1.5", "partitions in"),
        ("partitions = {a = 1}", "N is needed"),
        ("data = 2020-01-01", "DIR is needed"),
        ('data = "a\\u0000b"', "directory is needed"),
        ("partitions = true", "'true' is not a whole number"),
        ("partitions =", "is not TOML"),
        ("a = " + "[" * 3000, "is not TOML"),
        ("# " + "x" * 1_100_000, "larger than 1048576 bytes"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, content: str, what: str) -> None:
    assert what in refused(config=file_with(tmp_path, content))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert "missing.toml cannot be read: No such file" in refused(config=tmp_path / "missing.toml")
    assert "cannot be read: Is a directory" in refused(config=tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"data = '\xe4'")
    assert "is not TOML" in refused(config=tmp_path / "latin.toml")


def test_an_unknown_variable_is_refused() -> None:
    assert refused(environment={"DAFKA_PARTITION": "3"}) == (
        "the environment sets DAFKA_PARTITION, which is no setting; did you mean DAFKA_PARTITIONS?"
    )


@pytest.mark.parametrize(
    "name",
    [
        "DAFKA_BOOTSTRAP",
        "DAFKA_TEST_ANYTHING",
        "DAFKA_CI_RUN",
        "DAFKA_PIPELINE_JARS",
        "DAFKA_SERVICE_HOST",
        "DAFKA_SERVICE_PORT",
        "DAFKA_SERVICE_PORT_KAFKA",
        "DAFKA_PORT",
        "DAFKA_PORT_9092_TCP",
        "DAFKA_PORT_9092_TCP_ADDR",
        "DAFKA_GATEWAY_SERVICE_HOST",
        "NOT_DAFKA_AT_ALL",
    ],
)
def test_variables_of_others_are_left_alone(name: str) -> None:
    assert load_settings({}, environment={name: "tcp://10.0.0.1:9092"}) == Settings()


@given(st.sampled_from(list(OPTIONS)), st.text(max_size=30))
def test_any_text_is_a_value_or_refused(name: str, text: str) -> None:
    try:
        load_settings({}, environment={variable_of(name): text})
    except ConfigurationError as error:
        message = str(error)
    else:
        return
    assert message.startswith(variable_of(name))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1", MeshListen("127.0.0.1", 0, 0)),
        ("localhost:5000", MeshListen("localhost", 5000, 5000)),
        ("10.0.0.7:5000-5010", MeshListen("10.0.0.7", 5000, 5010)),
        ("[::1]", MeshListen("::1", 0, 0)),
        ("[::1]:5000-5001", MeshListen("::1", 5000, 5001)),
        ("my-host", MeshListen("my-host", 0, 0)),
        ("my-host-2:7", MeshListen("my-host-2", 7, 7)),
    ],
)
def test_where_the_mesh_listens(text: str, expected: MeshListen) -> None:
    assert (
        load(GatewaySettings, GATEWAY_OPTIONS, {"mesh_listen": text}, environment={}).mesh_listen == expected
    )


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "localhost:5000", "10.0.0.7:5000-5010", "[::1]", "[::1]:5000-5001"]
)
def test_a_default_of_where_the_mesh_listens_is_shown_as_it_is_written(text: str) -> None:
    class Listening:
        mesh_listen = parse_mesh_listen(text)

    assert shown_default(Listening, "mesh_listen") == text


@pytest.mark.parametrize("text", ["h:0-5", "h:6-5", "h:1-70000", "::1:5", "h:1-", "h:-5"])
def test_where_the_mesh_cannot_listen(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--mesh-listen"):
        load(GatewaySettings, GATEWAY_OPTIONS, {"mesh_listen": text}, environment={})


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("tower-1",), [TowerAddress("tower-1", 5556, 5557)]),
        (("tower-1:1:2", "[fd00::1]:3:4"), [TowerAddress("tower-1", 1, 2), TowerAddress("fd00::1", 3, 4)]),
        (("[::1]",), [TowerAddress("::1", 5556, 5557)]),
    ],
)
def test_towers(texts: tuple[str, ...], expected: list[TowerAddress]) -> None:
    assert list(load(MeshStoreSettings, STORE_OPTIONS, {"tower": texts}, environment={}).tower) == expected


@pytest.mark.parametrize("text", ["h:1", "h:0:2", "h:1:0", "h:1:2:3", "h:x:2", "h:1:99999"])
def test_towers_that_are_none(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--tower"):
        load(MeshStoreSettings, STORE_OPTIONS, {"tower": (text,)}, environment={})


@pytest.mark.parametrize("text", ["0.0.0.0", "[::]", "*"])
def test_nobody_is_told_to_connect_to_all_addresses(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"mesh-advertise: others cannot connect to"):
        load(GatewaySettings, GATEWAY_OPTIONS, {"mesh_advertise": text}, environment={})


def test_an_advertised_host() -> None:
    settings = load(GatewaySettings, GATEWAY_OPTIONS, {"mesh_advertise": "store-0.store"}, environment={})
    assert settings.mesh_advertise == "store-0.store"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, None),
        ({"authorizer": "acl"}, None),
        ({"authorizer": "acl", "http": HTTP, "http_no_values": True}, None),
        ({"authorizer": "acl", "http": HTTP, "http_token_file": FILE}, None),
        ({"authorizer": "acl", "http": HTTP, "http_token_file": FILE, "http_data": True}, None),
        ({"http": HTTP, "http_data": True}, None),
        ({"authorizer": "acl", "http": HTTP}, "--http shows records .*--http-token-file.*--http-no-values"),
        ({"authorizer": "acl", "http": HTTP, "http_data": True}, "--http-data lets .*--http-token-file"),
        (
            {"authorizer": "acl", "http": HTTP, "http_data": True, "http_no_values": True},
            "--http-data lets .*--http-token-file",
        ),
    ],
)
@pytest.mark.parametrize("kind", [Settings, GatewaySettings])
def test_what_acls_deny_is_not_to_be_had_over_http(
    kind: Callable[..., Any], given: dict[str, Any], said: str | None
) -> None:
    settings = kind(**given)
    if said is None:
        assert with_guarded_pages(settings) is settings
        return
    with pytest.raises(ConfigurationError, match=said):
        with_guarded_pages(settings)


@pytest.mark.parametrize("kind", [Settings, GatewaySettings, MeshStoreSettings, TowerSettings])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"metrics_token_file": FILE}, "--metrics-token-file is for --metrics, which is not given"),
        ({"metrics_tls": True}, "--metrics-tls is for --metrics"),
        ({"http_token_file": FILE}, "--http-token-file is for --http, which is not given"),
        ({"http_tls": True}, "--http-tls is for --http"),
    ],
)
def test_what_protects_nothing_is_refused(kind: Callable[..., Any], given: dict[str, Any], said: str) -> None:
    if not all(hasattr(kind(), name) for name in given):
        return
    with pytest.raises(ConfigurationError, match=said):
        with_doors_of_something(kind(**given))
    door = next(iter(given)).partition("_")[0]
    settings = kind(**given, **{door: HTTP})
    assert with_doors_of_something(settings) is settings
