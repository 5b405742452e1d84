"""Be one worker in this process: `python -m maestro_workers.worker --project ROOT`."""

from __future__ import annotations

import argparse
import os
import secrets
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace

from maestro_state import Maestro
from maestro_state.errors import MaestroError
from maestro_state.local.logs import configure_logs
from maestro_state.local.process import keep_memory, keep_private
from maestro_workers import jobs
from maestro_workers.guard import Guard
from maestro_workers.pool.channel import Channel
from maestro_workers.profile import Profile
from maestro_workers.rq_adapter.client import addresses
from maestro_workers.rq_adapter.worker import RunWorker
from maestro_workers.run import Workshop

#: Bytes of freed memory that a worker keeps: the pieces of a fast run's output come and go by the megabyte.
KEPT_BYTES = 32 << 20


def work(
    root: str,
    *,
    burst: bool = False,
    client_name: str | None = None,
    channel: Channel | None = None,
    profile: Profile | None = None,
) -> int:
    """Work in this process until told to stop; with `burst`, until nothing waits. Returns the exit status.

    With a `profile` it takes the runs that need no more than that.
    """
    keep_private()  # the tools are this user's too, and the address of the server has its password
    with Maestro(root) as maestro:
        settings, root = maestro.settings, str(maestro.project.root)
        routed = maestro.server.terms.keys.routed(profile.queue) if profile is not None else None
    configure_logs(settings.log_level)
    keep_memory(KEPT_BYTES)
    state_url, address = addresses(root, settings)
    address = replace(address, client_name=client_name or address.client_name)
    workshop = Workshop(root, state_url, client_name, Guard(alone=True), channel, profile)
    jobs.equip(workshop)
    # RQ names its connection after the worker: the stack's own must be known by it.
    # Whose environments it can get is part of its name: workers of other machines leave those runs to it.
    mark = channel.holder if channel is not None else secrets.token_hex(3)
    name = f"{client_name or settings.namespace}@{socket.gethostname()}-{os.getpid()}-{mark}"
    grace_s = settings.stop_grace_seconds
    worker = RunWorker(
        settings.namespace, workshop, address, name=name, grace_s=grace_s, channel=channel, routed=routed
    )
    worker.work(burst=burst, logging_level="WARNING")
    # RQ's worker also comes back from what it did not expect; whoever keeps it running must know the difference.
    return 0 if burst or worker.is_stopping else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Work for the project named on the command line."""
    parser = argparse.ArgumentParser(prog="maestro_workers.worker", description="Carry out runs.")
    parser.add_argument("--project", required=True, help="root folder of the project")
    parser.add_argument("--burst", action="store_true", help="exit when nothing waits")
    options = parser.parse_args(arguments)
    try:
        return work(options.project, burst=options.burst)
    except MaestroError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
