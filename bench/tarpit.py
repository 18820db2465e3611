#!/usr/bin/env python3
"""Measures how a tarpit with many waiting messages delays the mail of others, on the running suite with real
sockets.

    bench/tarpit.py [--waiting 50000] [--senders 1] [--rate 100] [--seconds 30] [--rounds 3] [--reply MS] [--active N]
                    [--dir DIR]

Sends single messages for a host that takes MS milliseconds (25) for each reply, one every 1/rate s: first alone; then
beside --waiting messages, of --senders senders, for a tarpit that takes 20 s for each reply; then alone again, after
the tarpit's mail was deleted: what differs from the first part is the machine's doing. With the usual active set of
20,000 messages (--active), 50,000 fill it more than twice. The delay of a message counts from before its MAIL FROM to
its arrival at the host. Demand: the mean beside the tarpit is less than 1 % above the mean alone, which is that of
the runs before and after (docs/scheduler-simulation.md has the same in virtual time).
"""
import argparse
import statistics
import subprocess
import sys
import tempfile
import time

import deep
from client import Client

TARPIT_REPLY = 20_000  # ms
BODY = b"Subject: measured\r\nX-Load-Id: %s\r\n\r\nhello\r\n"


class Others:
    """Sends at a steady rate over one connection and notes the times; the sink's ledger has the arrivals."""

    def __init__(self, port, sink, ledger):
        self.client, self.sink, self.ledger = Client(port), sink, ledger

    def measure(self, name, rate, seconds):
        """Returns the delays in milliseconds."""
        before = self.sink.count()
        begun, sent = time.monotonic(), {}
        for i in range(int(rate * seconds)):
            time.sleep(max(0.0, begun + i / rate - time.monotonic()))
            id_ = f"{name}.{i}"
            sent[id_] = time.monotonic()
            self.client.send("ada@sender.example", [f"v{i}@good.example"], BODY % id_.encode())
        end = time.monotonic() + 120
        while (arrived := self.arrived(sent, before)) < len(sent):
            if time.monotonic() > end:
                raise TimeoutError(f"only {arrived} of {len(sent)} messages of others arrived")
            time.sleep(0.1)
        with open(self.ledger.name) as lines:
            took = {words[1]: float(words[4]) for words in map(str.split, lines) if words[1] in sent}
        return [1000 * (took[id_] - at) for id_, at in sent.items()]

    def arrived(self, sent, before):
        return self.sink.count() - before


def flood(port, count, senders, domain="sender.example"):
    """Queues messages for the tarpit, an equal part from each sender."""
    for sender in range(senders):
        part = count * (sender + 1) // senders - count * sender // senders
        subprocess.run(
            [
                deep.bench("penload"),
                "--port",
                str(port),
                "-c",
                "20",
                "-n",
                str(part),
                "-s",
                "1000",
                "--domain",
                "tarpit.example",
                "--from",
                f"bulk{sender}@{domain}",
                "--id",
                f"s{sender}",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )


def drop_flood(mx):
    """Deletes the messages that wait for the tarpit; those on its connections end with them."""
    mx.tool("pendest", "suspend", "tarpit.example", "measured", check=True)
    mx.tool("pensuper", "-d", "ALL", check=True, timeout=600)
    end = time.monotonic() + 120
    while len(mx.queue()) > 1000:
        if time.monotonic() > end:
            raise TimeoutError(f"{len(mx.queue())} messages are left")
        time.sleep(0.5)


def line(what, delays):
    ordered = sorted(delays)
    print(
        f"{what:24} {statistics.mean(delays):9.2f} {statistics.median(delays):9.2f} "
        f"{ordered[len(ordered) * 99 // 100]:9.2f} {ordered[-1]:9.2f}",
        flush=True,
    )


def one_round(number, args):
    ledger = tempfile.NamedTemporaryFile(prefix="pen-ledger-", suffix=".txt")
    good = deep.Sink("--delay", str(args.reply), "--ledger", ledger.name, "--detail")
    tarpit = deep.Sink("--delay", str(TARPIT_REPLY))
    settings = {"relay_domains": "good.example, tarpit.example",
                "transport_maps": "inline:{ " + ", ".join(
                    f"{{ {domain} = smtp:[127.0.0.1]:{sink.port} }}"
                    for domain, sink in (("good.example", good), ("tarpit.example", tarpit))) + " }",
                "qmgr_message_active_limit": str(args.active)}
    try:
        with deep.Deep(0, good, args.dir, settings=settings) as mx:
            mx.start()
            others = Others(mx.port, good, ledger)
            others.measure(f"warm{number}", args.rate, 3)
            alone = others.measure(f"alone{number}", args.rate, args.seconds)
            flood(mx.port, args.waiting, args.senders)
            beside = others.measure(f"beside{number}", args.rate, args.seconds)
            if tarpit.count() > args.waiting // 100:
                raise RuntimeError("the tarpit took mail: nothing was shown")
            drop_flood(mx)
            again = others.measure(f"again{number}", args.rate, args.seconds)
            line(f"round {number}, alone", alone)
            line(f"round {number}, beside the tarpit", beside)
            line(f"round {number}, alone again", again)
            return statistics.mean(alone), statistics.mean(beside), statistics.mean(again)
    finally:
        good.stop()
        tarpit.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--waiting", type=int, default=50_000)
    parser.add_argument("--senders", type=int, default=1)
    parser.add_argument("--active", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reply", type=float, default=25)
    parser.add_argument("--dir", default="/var/tmp")
    args = parser.parse_args()
    print(f"{'delay, ms':24} {'mean':>9} {'half':>9} {'99 %':>9} {'worst':>9}")
    rounds = [one_round(number + 1, args) for number in range(args.rounds)]
    drift = [100 * (again / alone - 1) for alone, _, again in rounds]
    more = [100 * (2 * beside / (alone + again) - 1) for alone, beside, again in rounds]
    print(f"drift of the machine, alone after against alone before: {statistics.median(drift):+.2f} % "
          f"({min(drift):+.2f} to {max(drift):+.2f})")
    print(f"more delay beside {args.waiting} messages for a tarpit: {statistics.median(more):+.2f} % in the middle of "
          f"{args.rounds} rounds ({min(more):+.2f} to {max(more):+.2f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
