#!/usr/bin/env python3
"""Acceptance into the queue: Penstock beside Debian's Postfix, both tuned for throughput, in one run.

    bench/accept.py [--clients 20,100] [--delays 0,2] [--rounds 3] [--messages N] [--peers penstock,postfix]

4 KiB messages by SMTP while deliveries are held: the next hop takes connections and never greets. --delays: so many
milliseconds are added to every sync of either server (slowsync.so). Per peer: accepted messages per second, CPU time of
all its processes per message, its syncs per 1,000 messages, the answer to end-of-data (99 in 100 come within).
Demands: 12 times Postfix and at most 0.10 ms CPU; with 2 ms added 5 times at 20 clients and 8 times at 100, at most 60
syncs per 1,000 at 100 clients, answers within 3 sync times. Needs root. Rounds alternate between the peers.
"""
import argparse
import os
import statistics
import struct
import tempfile

import compare

KEEP = "MAIL_CONFIG MAIL_DEBUG MAIL_LOGTAG TZ LANG=C"


class SilentSink:
    """Takes connections and never says a word."""

    def __init__(self, build):
        self.sink = compare.Sink(build, "--greeting-delay", "100000000")
        self.port = self.sink.port

    def stop(self):
        self.sink.stop()


class SyncCounter:
    def __init__(self, path):
        self.path = path
        with open(path, "wb") as out:
            out.write(bytes(8))
        os.chmod(path, 0o666)

    def read(self):
        with open(self.path, "rb") as counter:
            return struct.unpack("<Q", counter.read(8))[0]


def preload(library, delay, counter):
    return (f"\nimport_environment = {KEEP} LD_PRELOAD={library} SLOWSYNC_US={int(delay * 1000)} "
            f"SLOWSYNC_COUNT={counter}\n")


def penstock(build, sink, delay, scratch):
    counter = SyncCounter(os.path.join(scratch, "syncs"))
    library = os.path.join(build, "bench", "slowsync.so")
    settings = preload(library, delay, counter.path) + "queue_log_segment_size = 64m\n"  # the default; init makes them small
    return compare.PenstockServer(build, sink.port, 50, settings), counter


def postfix(build, sink, delay, scratch):
    counter = SyncCounter(os.path.join(scratch, "syncs"))
    server = compare.PostfixServer(build, sink.port, 50, preload("/etc/slowsync.so", delay, "/etc/syncs"),
                                   (os.path.join(build, "bench", "slowsync.so"), counter.path))
    os.chmod(os.path.join(server.peer.dir, "etc", "syncs"), 0o666)
    counter.path = os.path.join(server.peer.dir, "etc", "syncs")
    return server, counter


def measure(make, build, clients, delay, messages):
    sink = SilentSink(build)
    with tempfile.TemporaryDirectory(prefix="pen-accept-") as scratch:
        os.chmod(scratch, 0o755)
        server, counter = make(build, sink, delay, scratch)
        try:
            compare.load(build, server.port, "-c", clients, "-n", max(messages // 20, clients), "-s", 4096)
            syncs, cpu = counter.read(), server.group.seconds()
            told = compare.load(build, server.port, "-c", clients, "-n", messages, "-s", 4096)
            figures = {"accepted/s": told["per_s"],
                       "cpu ms/message": (server.group.seconds() - cpu) * 1000 / messages,
                       "syncs/1000": (counter.read() - syncs) * 1000 / messages,
                       "answer p50 ms": told["dot_ms"]["p50"], "answer p99 ms": told["dot_ms"]["p99"]}
            return figures
        finally:
            server.stop()
            sink.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(compare.TOP, "build", "release"))
    parser.add_argument("--clients", default="20,100")
    parser.add_argument("--delays", default="0,2", help="milliseconds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=20000, help="of Penstock; Postfix gets a fifth")
    parser.add_argument("--peers", default="penstock,postfix")
    args = parser.parse_args()
    names = args.peers.split(",")
    for delay in map(float, args.delays.split(",")):
        for clients in map(int, args.clients.split(",")):
            runs = {name: [] for name in names}
            for _ in range(args.rounds):
                for name in names:
                    make, share = (penstock, 1) if name == "penstock" else (postfix, 5)
                    runs[name].append(measure(make, args.build, clients, delay, args.messages // share))
            print(f"\n{clients} clients, {delay:g} ms added to each sync: median (least - most) of {args.rounds}")
            medians = {}
            for name in names:
                for key in runs[name][0]:
                    values = [run[key] for run in runs[name]]
                    medians[name, key] = statistics.median(values)
                    print(f"  {name:9} {key:16} {medians[name, key]:10.2f} ({min(values):.2f} - {max(values):.2f})")
            if len(names) == 2:
                print(f"  times Postfix    {medians[names[0], 'accepted/s'] / medians[names[1], 'accepted/s']:10.1f}",
                      flush=True)


if __name__ == "__main__":
    main()
