"""Whether the event loop stays free: /health, asked by another process while four streams run.

    python benchmarks/tts/health_bench.py [--probes 1000] [--streams 4] [--json F]

The streams speak back to back for as long as the probes take, each as an mp3, so that encoding runs too.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import statistics
import time
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

from stream_latency_bench import own_server

TEXT = "Nobody on the platform had an umbrella, so everybody waited under the old clock."


def stream(url: str) -> None:
    """Speak until the parent ends this process."""
    body = json.dumps({"input": TEXT, "voice": "alloy", "response_format": "mp3"}).encode()
    while True:
        with urlopen(f"{url}/v1/audio/speech", body, timeout=60) as reply:
            reply.read()


def probe(url: str, count: int) -> list[float]:
    """Milliseconds of `count` requests for /health over one connection, 5 ms apart."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
    took = []
    for _ in range(count):
        begin = time.perf_counter()
        connection.request("GET", "/health")
        reply = connection.getresponse()
        reply.read()
        if reply.status != 200:
            raise SystemExit(f"/health answered {reply.status}")
        took.append(1000 * (time.perf_counter() - begin))
        time.sleep(0.005)
    return sorted(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--probes", type=int, default=1000)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--voice", help="voice of the server that is started")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with own_server(options.voice, []) as (url, _):
        spawn = multiprocessing.get_context("spawn")
        speaking = [spawn.Process(target=stream, args=(url,), daemon=True) for _ in range(options.streams)]
        for process in speaking:
            process.start()
        time.sleep(2)
        took = probe(url, options.probes)
        for process in speaking:
            process.terminate()
            process.join()
    figures = {
        "probes": len(took),
        "streams": options.streams,
        "p50_ms": round(statistics.median(took), 2),
        "p99_ms": round(took[int(0.99 * len(took))], 2),
        "max_ms": round(took[-1], 2),
    }
    print(json.dumps(figures, indent=1))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
