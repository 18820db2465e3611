#!/usr/bin/env python3
"""Measures how one tenant's flood delays the mail of another, on the running suite with real sockets.

    bench/tenants.py [--waiting 50000] [--senders 50] [--rate 10] [--seconds 20] [--reply MS] [--active N] [--dir DIR]

All mail is for one host, which takes MS milliseconds (100) for each reply and has --connections of them at most (20). A
neighbour sends one message every 1/rate s: first alone, then beside --waiting messages from --senders senders of
flood.example, all with tenant_identity = sender_domain, and all again without tenants, where turns go by sender. The
delay of a message counts from before its MAIL FROM to its arrival at the host. What is wanted of the neighbour is less
than half of what the host takes: with tenants nobody else's flood may delay it by more than a turn.
"""
import argparse
import sys
import tempfile

import deep
from tarpit import Others, flood, line


def measure(args, tenants):
    ledger = tempfile.NamedTemporaryFile(prefix="pen-ledger-", suffix=".txt")
    host = deep.Sink("--delay", str(args.reply), "--ledger", ledger.name, "--detail")
    settings = {"relay_domains": "good.example, tarpit.example", "relayhost": f"[127.0.0.1]:{host.port}",
                "smtp_destination_concurrency_limit": str(args.connections),
                "qmgr_message_active_limit": str(args.active)}
    if tenants:
        settings["tenant_identity"] = "sender_domain"
    with_ = "with" if tenants else "without"
    try:
        with deep.Deep(0, host, args.dir, settings=settings) as mx:
            mx.start()
            others = Neighbour(mx.port, host, ledger)
            others.measure("warm", args.rate, 3)
            line(f"{with_} tenants, alone", others.measure("alone", args.rate, args.seconds))
            flood(mx.port, args.waiting, args.senders, "flood.example")
            line(f"{with_} tenants, flood", others.measure("beside", args.rate, args.seconds))
            left = len(mx.queue())
            if left < args.waiting // 2:
                raise RuntimeError(f"only {left} messages of the flood were left: nothing was shown")
    finally:
        host.stop()


class Neighbour(Others):
    """The host takes the flood's mail as well: those that are waited for are known by their names."""

    def arrived(self, sent, before):
        with open(self.ledger.name) as lines:
            return sum(words[1] in sent for words in map(str.split, lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--waiting", type=int, default=50_000)
    parser.add_argument("--senders", type=int, default=50)
    parser.add_argument("--connections", type=int, default=20)
    parser.add_argument("--active", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--reply", type=float, default=100)
    parser.add_argument("--dir", default="/var/tmp")
    args = parser.parse_args()
    print(f"{'delay, ms':24} {'mean':>9} {'half':>9} {'99 %':>9} {'worst':>9}")
    for tenants in (True, False):
        measure(args, tenants)
    return 0


if __name__ == "__main__":
    sys.exit(main())
