"""Fail unless a wheel holds the project's packages, typed and licensed, and nothing else."""

import sys
import zipfile

PACKAGES = {"gateway", "mesh", "wireproto"}


def main(wheel: str) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    info = {top for top in tops if top.startswith("dafka_gateway-") and top.endswith(".dist-info")}
    if tops - info != PACKAGES or len(info) != 1:
        raise SystemExit(f"the wheel's top level is {sorted(tops)}")
    wanted = {f"{package}/{file}" for package in PACKAGES for file in ("__init__.py", "py.typed")}
    wanted |= {f"{info.pop()}/licenses/LICENSE"}
    if missing := wanted - set(names):
        raise SystemExit(f"the wheel lacks {sorted(missing)}")
    foreign = [name for name in names if "dist-info" not in name and not name.endswith((".py", "py.typed"))]
    if foreign:
        raise SystemExit(f"the wheel holds more than code: {foreign}")
    print(f"{wheel.rsplit('/', 1)[-1]}: {len(names)} files, {', '.join(sorted(PACKAGES))}")


if __name__ == "__main__":
    main(sys.argv[1])
