"""Look every version that is pinned up in a list of known vulnerabilities, by pip-audit.

Arguments: the constraints, and what else pip-audit is told. Exit code 0: all were looked up, and nothing is
known of them. 1: something is known. 2: some were not looked up, so nothing is said about them; pip-audit
alone ends with 0 where the list of PyPI answers that it has none of the packages, as mirrors do.
"""

import json
import subprocess
import sys

ELSEWHERE = (
    "Nothing is said about them. Run this where https://pypi.org, or with AUDIT_ARGS='-s osv'"
    " https://api.osv.dev, can be reached: a mirror of packages alone has no such list."
)


def main(constraints: str, *options: str) -> int:
    command = [sys.executable, "-m", "pip_audit", "--requirement", constraints, "--no-deps", "--disable-pip"]
    done = subprocess.run(
        [*command, "--format", "json", "--progress-spinner", "off", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except ValueError:
        last = done.stderr.strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
        print(f"The list of known vulnerabilities cannot be read: {last[0]}\n{ELSEWHERE}", file=sys.stderr)
        return 2
    known = [(one, flaw) for one in packages for flaw in one.get("vulns", ())]
    for one, flaw in known:
        fixed = ", ".join(flaw["fix_versions"]) or "no version yet"
        print(f"{one['name']} {one['version']}: {flaw['id']}, fixed in {fixed}: {flaw['description'][:200]}")
    if skipped := [one["name"] for one in packages if "skip_reason" in one]:
        some = ", ".join(skipped[:5])
        print(f"{len(skipped)} of {len(packages)} packages are not in the list: {some} ...", file=sys.stderr)
        print(ELSEWHERE, file=sys.stderr)
        return 1 if known else 2
    print(f"{len(packages)} packages looked up, {len(known)} known vulnerabilities")
    return 1 if known else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
