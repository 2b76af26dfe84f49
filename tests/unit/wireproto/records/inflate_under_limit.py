"""Run as a process of its own: inflate what comes on stdin under RLIMIT_AS, and report as JSON what it cost.

Arguments: codec, output limit in bytes, and the bytes of address space allowed beyond what is used so far.
"""

import json
import resource
import sys
from pathlib import Path

from wireproto.records.compression import Codec, compress, decompress
from wireproto.records.errors import InvalidBatch


def status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def main() -> None:
    codec, limit, headroom = (int(argument) for argument in sys.argv[1:])
    data = sys.stdin.buffer.read()
    for warm in Codec:  # the libraries' own first-time allocations
        decompress(warm, compress(warm, b"warm" * 100), 1000)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts here
    resident, space = status_bytes("VmRSS"), status_bytes("VmSize") + headroom
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    size, code = 0, ""
    try:
        size = len(decompress(codec, data, limit))
    except InvalidBatch as error:
        code = error.code.name
    print(json.dumps({"size": size, "code": code, "resident": status_bytes("VmHWM") - resident}))


if __name__ == "__main__":
    main()
