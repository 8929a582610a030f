"""Run the benchmarks: python bench/run.py [NAME …], each script of this folder by its name without `.py`, or all.

They run one after another, as nothing else may run beside them. Results belong into docs/benchmarks.md.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """The number of scripts that failed."""
    names = sys.argv[1:] or sorted(path.stem for path in HERE.glob("*.py") if path != Path(__file__))
    failed = 0
    for name in names:
        print(f"\n## {name}\n", flush=True)
        failed += subprocess.run([sys.executable, str(HERE / f"{name}.py")], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
