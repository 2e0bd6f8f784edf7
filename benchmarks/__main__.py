"""`make bench`: every measurement of a minute or less, one after the other.

python -m benchmarks [NAME ...]
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys

NAMES = ("contact", "query", "node", "top", "memory_network")


def main() -> int:
    """Run the named measurements, all without a name; fails if one of them did."""
    chosen = sys.argv[1:] or NAMES
    unknown = [name for name in chosen if name not in NAMES]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    print(f"# {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    failed = 0
    for name in chosen:
        print(f"\n## {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}"]
        failed += subprocess.run(command, env=environment, check=False).returncode != 0
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
