"""How long `ouzel --help` takes, started anew each time.

    python benchmarks/cli_bench.py [--passes 15] [--json F]

Exits with 1 where the median is above the bar.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

MOST_S = 0.5


def help_s() -> float:
    start = time.perf_counter()
    subprocess.run([Path(sys.executable).with_name("ouzel"), "--help"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    times = [help_s() for _ in range(options.passes)]
    result = {"median_s": statistics.median(times), "max_s": max(times), "bar_s": MOST_S}
    print("ouzel --help: " + ", ".join(f"{name} {value:.3f}" for name, value in result.items()))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(result["median_s"] > MOST_S)


if __name__ == "__main__":
    main()
