"""`python -m ouzel.stages DESCRIPTOR SERVER`: a stage's process, started by the supervisor and by nobody else."""

from __future__ import annotations

import logging
import os
import select
import sys

from ouzel.stages.channel import Channel
from ouzel.stages.messages import Setup
from ouzel.stages.process import die_with_server, settle
from ouzel.stages.run import run_stage


def main(descriptor: int, server: int) -> int:
    """Serve the channel over an inherited descriptor; the exit code."""
    channel = Channel.attach(descriptor)
    die_with_server(channel, server)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    setup = _setup(channel)
    settle(setup.nice, setup.cpus)
    return 0 if run_stage(channel, setup) else 1


def _setup(channel: Channel) -> Setup:
    poller = select.poll()
    poller.register(channel, select.POLLIN)
    while (received := channel.receive()) is None:
        poller.poll()
    if not isinstance(received.message, Setup):
        raise SystemExit(f"expected a setup, found {received.message!r}")
    return received.message


if __name__ == "__main__":
    code = main(*map(int, sys.argv[1:]))
    logging.shutdown()
    # All is said and written. Taking an interpreter with torch or vLLM in it apart takes seconds, and ends the same.
    os._exit(code)
