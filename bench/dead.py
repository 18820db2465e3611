#!/usr/bin/env python3
"""Measures what dead hosts cost the mail for live ones, on the running suite with real sockets.

    bench/dead.py [--messages 100000] [--hosts 50] [--workers 100] [--rounds 3] [--reply MS] [--dir DIR]

The mail is for 1,000 domains on --hosts hosts, three in ten of them dead: the kernel drops connections to them, as a
firewall does. Live hosts take MS milliseconds (40) for each reply, so that the workers limit the throughput and not
the processors. All messages are taken in first and wait behind defer_transports; the clock runs from the flush that
releases them until the live hosts have their mail.

    alone     only the mail for the live seven tenths
    dead      the same, and three sevenths as much for dead hosts

Demand: live hosts lose at most 5 % of their throughput (docs/scheduler-simulation.md has the same in virtual time).
"""
import argparse
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import deep

DOMAINS = 1000


@contextlib.contextmanager
def dead_hosts(addresses):
    """Returns a port on which these addresses drop every connection, because their backlog of one is full."""
    with contextlib.ExitStack() as held:
        port = deep.free_port()
        for address in addresses:
            listener = held.enter_context(socket.socket())
            listener.bind((address, port))
            listener.listen(0)
            for _ in range(2):  # what the kernel takes for a backlog of 0
                filler = held.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex((address, port))
        yield port


def table(directory, hosts, live_port, dead_port):
    """Domains d0 to d699 on the live hosts 127.0.1.x, d700 to d999 on the dead ones 127.0.2.x."""
    live = hosts * 7 // 10
    path = os.path.join(directory, "hosts.txt")
    with open(path, "w", encoding="ascii") as out:
        for domain in range(DOMAINS):
            if domain < DOMAINS * 7 // 10:
                out.write(f"d{domain}.load.example smtp:[127.0.1.{domain % live + 1}]:{live_port}\n")
            else:
                out.write(f"d{domain}.load.example smtp:[127.0.2.{domain % (hosts - live) + 1}]:{dead_port}\n")
    os.chmod(path, 0o644)
    return path


def measure(args, dead):
    """Returns how many messages for live hosts were delivered per second."""
    live_messages = args.messages * 7 // 10
    with tempfile.TemporaryDirectory(prefix="pen-hosts-") as scratch, \
            dead_hosts([f"127.0.2.{i + 1}" for i in range(args.hosts * 3 // 10)]) as dead_port:
        os.chmod(scratch, 0o755)
        sink = deep.Sink("--host", "0.0.0.0", "--delay", str(args.reply))
        settings = {
            "relay_domains": "load.example",
            "relayhost": "",
            "parent_domain_matches_subdomains": "relay_domains",
            "defer_transports": "smtp",
            "transport_maps": "texthash:" + table(scratch, args.hosts, sink.port, dead_port),
        }
        try:
            with deep.Deep(0, sink, args.dir, settings=settings) as mx:
                mx.set_services({"smtp": f"unix - - n - {args.workers} smtp"})
                mx.start()
                domains, count = (DOMAINS, args.messages) if dead else (DOMAINS * 7 // 10, live_messages)
                subprocess.run(
                    [
                        deep.bench("penload"),
                        "--port",
                        str(mx.port),
                        "-c",
                        "20",
                        "-n",
                        str(count),
                        "-s",
                        "4096",
                        "--domains",
                        str(domains),
                    ],
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
                end = time.monotonic() + 300
                while sum(e["queue_name"] == "deferred" for e in mx.queue()) < count:
                    if time.monotonic() > end:
                        raise TimeoutError("not all messages were deferred")
                    time.sleep(0.2)
                began = time.monotonic()
                mx.flush()
                end = began + 600
                while (taken := sink.count()) < live_messages:
                    if time.monotonic() > end:
                        raise TimeoutError(f"only {taken} of {live_messages} messages for live hosts arrived")
                    time.sleep(0.01)
                return live_messages / (time.monotonic() - began)
        finally:
            sink.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reply", type=float, default=40)
    parser.add_argument("--dir", default="/var/tmp")
    args = parser.parse_args()
    lost = []
    for number in range(args.rounds):
        alone, beside = measure(args, False), measure(args, True)
        lost.append(100 * (1 - beside / alone))
        print(
            f"round {number + 1}: live mail {alone:.0f}/s alone, {beside:.0f}/s beside dead hosts: "
            f"{lost[-1]:.1f} % lost",
            flush=True,
        )
    print(
        f"live mail lost beside dead hosts: {statistics.median(lost):.1f} % in the middle of {args.rounds} rounds "
        f"({min(lost):.1f} to {max(lost):.1f})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
