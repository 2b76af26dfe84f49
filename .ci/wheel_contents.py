"""Fail unless a wheel holds the files of the project's packages, all of them, its metadata, and nothing else.

Arguments: the wheel and the checkout it was built from.
"""

import subprocess
import sys
import zipfile

PACKAGES = ("dafka", "dafka_pipeline", "gateway", "mesh", "wireproto")


def main(wheel: str, checkout: str) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    metadata = {name for name in names if name.startswith("dafka_gateway-") and ".dist-info/" in name}
    listed = subprocess.run(
        ["git", "-C", checkout, "ls-files", *PACKAGES], capture_output=True, text=True, check=True
    )
    ours = set(listed.stdout.splitlines())
    if foreign := names - metadata - ours:
        raise SystemExit(f"the wheel holds what is not the project's: {sorted(foreign)}")
    if missing := ours - names:
        raise SystemExit(f"the wheel lacks {sorted(missing)}")
    if untyped := {f"{package}/py.typed" for package in PACKAGES} - names:
        raise SystemExit(f"the wheel lacks {sorted(untyped)}")
    if not any(name.endswith("/licenses/LICENSE") for name in metadata):
        raise SystemExit("the wheel lacks the licence")
    print(f"{wheel.rsplit('/', 1)[-1]}: {len(names)} files, packages {', '.join(PACKAGES)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
