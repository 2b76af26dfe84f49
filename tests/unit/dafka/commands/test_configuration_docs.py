"""docs/configuration.md says what the code does: every setting, its flag, variable and default."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dafka.commands.configuration import load_settings
from dafka.commands.mesh_options import GATEWAY_OPTIONS, STORE_OPTIONS, TOWER_OPTIONS
from dafka.commands.options import OPTIONS, Option, flag_of, key_of, shown_default, variable_of
from dafka.settings import GatewaySettings, MeshStoreSettings, Settings, TowerSettings

TEXT = (Path(__file__).parents[4] / "docs" / "configuration.md").read_text()


TABLES: dict[str, tuple[type[Any], Mapping[str, Option]]] = {
    "standalone": (Settings, OPTIONS),
    "gateway": (GatewaySettings, GATEWAY_OPTIONS),
    "store": (MeshStoreSettings, STORE_OPTIONS),
    "tower": (TowerSettings, TOWER_OPTIONS),
}


@pytest.mark.parametrize("command", TABLES)
def test_the_tables_are_those_of_the_code(command: str) -> None:
    """After a change of a setting: paste the rows that this test expected."""
    rows = []
    settings, options = TABLES[command]
    for name, option in options.items():
        flags = f"`{flag_of(name)}`, `--no-{key_of(name)}`" if option.off else f"`{flag_of(name)}`"
        metavar = f" {option.metavar}".replace("|", r"\|").rstrip()
        if metavar:
            flags = flags[:-1] + metavar + "`"
        rows.append(f"| {flags} | `{variable_of(name)}` | {shown_default(settings, name)} |")
    head = rf"\| dafka {command} \| environment \| default \|\n\|---\|---\|---\|\n"
    table = re.search(rf"{head}((?:\|.*\n)+)", TEXT)
    assert table is not None
    assert table.group(1).splitlines() == rows


def test_every_setting_has_its_section_and_no_other_has() -> None:
    settings = {key_of(name) for _, options in TABLES.values() for name in options}
    assert sorted(re.findall(r"^### (.+)$", TEXT, re.MULTILINE)) == sorted(settings)


def test_no_section_is_empty() -> None:
    for section in re.split(r"^### ", TEXT, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        assert len(body.split("\n## ")[0].split()) > 5, title


def test_the_example_file_can_be_loaded(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    assert example is not None
    file = tmp_path / "dafka.toml"
    file.write_text(example.group(1))
    settings = load_settings({}, config=file, environment={})
    assert settings.data == Path("/var/lib/dafka")
    assert settings.topics == (("orders", 8), ("clicks", 4))
    assert [str(listener) for listener in settings.listen] == [
        "127.0.0.1:9092",
        "OUTSIDE=0.0.0.0:9094@kafka.example:9094",
    ]
    assert (settings.auto_create_topics, settings.log_format) == (False, "json")
