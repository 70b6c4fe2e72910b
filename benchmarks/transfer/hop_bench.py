"""How long a record takes from put to get between two processes: the ring against a SOCK_SEQPACKET pair.

The reader sleeps in `poll` when a record comes, as a stage does, so the figure includes its waking up; the copy into
the ring or socket is in it too. The two ways take turns in short passes, because a machine's speed changes while one
measures it.

    python benchmarks/transfer/hop_bench.py [--passes 10] [--records 200] [--pause-ms 2] [--json F]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path

from ouzel.transfer import PacketPipe, RecordWriter, Ring

SIZES = {"800 B": 800, "96 kB": 96_000}
WAYS = ("ring", "seqpacket")


def hops_ms(way: str, size: int, records: int, pause_s: float) -> list[float]:
    """Put → get of each record in ms, the first tenth left out as a warm-up."""
    pipe = Ring.create(1 << 20) if way == "ring" else PacketPipe.create(size)
    writer, reader = pipe.writer(), pipe.reader()
    child = os.fork()
    if child == 0:
        write(writer, bytes(size), records, pause_s)
        os._exit(0)
    hops: list[float] = []
    while len(hops) < records:
        if record := reader.get():
            hops.append((time.monotonic_ns() - record.put_ns) / 1e6)
        elif not reader.wait_data(10):
            raise SystemExit(f"{way}: no record in 10 s")
    os.waitpid(child, 0)
    for end in (writer, reader, pipe):
        end.close()
    return hops[records // 10 :]


def write(writer: RecordWriter, payload: bytes, records: int, pause_s: float) -> None:
    for sequence in range(records):
        time.sleep(pause_s)
        while not writer.put(0, 0, sequence, payload):
            writer.wait_space(10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--records", type=int, default=200)
    parser.add_argument("--pause-ms", type=float, default=2.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    hops: dict[tuple[str, str], list[float]] = {(way, size): [] for size in SIZES for way in WAYS}
    for _ in range(options.passes):
        for (way, size), measured in hops.items():
            measured += hops_ms(way, SIZES[size], options.records, options.pause_ms / 1000)

    print(f"{'put → get, ms':24}{'median':>9}{'p90':>9}{'max':>9}")
    result: dict[str, dict[str, dict[str, float]]] = {way: {} for way in WAYS}
    for (way, size), measured in hops.items():
        row = {
            "median_ms": statistics.median(measured),
            "p90_ms": statistics.quantiles(measured, n=10)[-1],
            "max_ms": max(measured),
        }
        result[way][size] = row
        print(f"{way + ', ' + size:24}" + "".join(f"{value:9.4f}" for value in row.values()))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
