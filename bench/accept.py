#!/usr/bin/env python3
"""Compares acceptance into the queue by Penstock and by Debian's Postfix, both tuned for throughput, in one run.

    bench/accept.py [--clients 20,100] [--delays 0,2] [--rounds 3] [--messages N] [--peers penstock,postfix,none]

4 KiB messages come by SMTP while deliveries are held: the next hop takes connections and never greets. --delays:
milliseconds added to every sync of both servers (slowsync.so). Figures for each peer: accepted messages per second;
CPU time of all its processes per message; syncs per 1,000 messages and their duration; the time of the answer to
end-of-data that 99 in 100 do not exceed, in milliseconds and in multiples of such a sync.
Demands: 12 times Postfix's rate with at most 0.10 ms CPU; with 2 ms added, 5 times at 20 clients and 8 times at 100,
at most 60 syncs per 1,000 at 100 clients, and answers within 3 sync times. Needs root. Rounds alternate between the
peers.

"none" is the ceiling: the same client with a sink that stores nothing. "paced" is Penstock once more, at a multiple
of Postfix's rate that is no less than the demanded one: it shows how long an answer takes at that rate, without a
queue before a busy processor.

During a load --warm MIB of the machine's free memory are kept warm: written, freed, and with one page in each MiB
kept, so that a virtual machine does not return them to its host. Where the host takes free memory away, the first use
of a page costs 13 to 30 us, several times as much as writing it, and a server would be measured by what ran before
it.
"""
import argparse
import contextlib
import mmap
import os
import statistics
import struct
import subprocess
import tempfile

import compare

KEEP = "MAIL_CONFIG MAIL_DEBUG MAIL_LOGTAG TZ LANG=C"


class SilentSink:
    """Takes connections and never sends anything."""

    def __init__(self, build):
        self.sink = compare.Sink(build, "--greeting-delay", "100000000")
        self.port = self.sink.port

    def stop(self):
        self.sink.stop()


class SyncCounter:
    def __init__(self, path):
        self.path = path
        with open(path, "wb") as out:
            out.write(bytes(24))
        os.chmod(path, 0o666)

    def read(self):
        """The number of syncs so far, and the seconds that they took in all."""
        with open(self.path, "rb") as counter:
            syncs, _, nanoseconds = struct.unpack("<QQQ", counter.read(24))
            return syncs, nanoseconds / 1e9


def preload(library, delay, counter):
    return (f"\nimport_environment = {KEEP} LD_PRELOAD={library} SLOWSYNC_US={int(delay * 1000)} "
            f"SLOWSYNC_COUNT={counter}\n")


def penstock(build, sink, delay, scratch):
    counter = SyncCounter(os.path.join(scratch, "syncs"))
    library = os.path.join(build, "bench", "slowsync.so")
    settings = (
        preload(library, delay, counter.path) + "queue_log_segment_size = 64m\n"
    )  # the default; init makes them small
    return compare.PenstockServer(build, sink.port, 50, settings), counter


def postfix(build, sink, delay, scratch):
    counter = SyncCounter(os.path.join(scratch, "syncs"))
    server = compare.PostfixServer(build, sink.port, 50, preload("/etc/slowsync.so", delay, "/etc/syncs"),
                                   (os.path.join(build, "bench", "slowsync.so"), counter.path))
    os.chmod(os.path.join(server.peer.dir, "etc", "syncs"), 0o666)
    counter.path = os.path.join(server.peer.dir, "etc", "syncs")
    return server, counter


ASKED = {(20, 0): 12, (100, 0): 12, (20, 2): 5, (100, 2): 8}  # times Postfix, by clients and milliseconds added
# Cases with a limit for syncs: at 8 times Postfix's rate so few messages wait at once that each is better served by a
# sync of its own (kFew in lib/queue/queue_log/commit.cc).
PACE = ASKED | {(100, 2): 10}
MIB = 2**20


@contextlib.contextmanager
def warm_memory(mebibytes):
    """Makes this much free memory (at most half of all that is free) cheap for the kernel to hand out."""
    with open("/proc/meminfo") as facts:
        available = next(int(line.split()[1]) // 1024 for line in facts if line.startswith("MemAvailable:"))
    mebibytes = min(mebibytes, available // 2)
    if mebibytes < 1:
        yield
        return
    with mmap.mmap(-1, mebibytes * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        piece = bytes([1]) * MIB
        for _ in range(mebibytes):
            memory.write(piece)
        for at in range(0, mebibytes * MIB, MIB):
            memory.madvise(mmap.MADV_DONTNEED, at + mmap.PAGESIZE, MIB - mmap.PAGESIZE)
        yield


def ceiling(build, clients, messages, mebibytes):
    """Measures the client alone, with a sink that answers at once."""
    sink = compare.Sink(build)
    try:
        compare.load(build, sink.port, "-c", clients, "-n", max(messages // 20, clients), "-s", 4096)
        with warm_memory(mebibytes):
            told = compare.load(build, sink.port, "-c", clients, "-n", messages, "-s", 4096)
        return {"accepted/s": told["per_s"], "answer p50 ms": told["dot_ms"]["p50"],
                "answer p99 ms": told["dot_ms"]["p99"]}
    finally:
        sink.stop()


def measure(make, build, clients, delay, messages, mebibytes, *pace):
    sink = SilentSink(build)
    with tempfile.TemporaryDirectory(prefix="pen-accept-") as scratch:
        os.chmod(scratch, 0o755)
        server, counter = make(build, sink, delay, scratch)
        try:
            compare.load(build, server.port, "-c", clients, "-n", max(messages // 20, clients), "-s", 4096)
            with warm_memory(mebibytes):
                before, cpu = counter.read(), server.group.seconds()
                told = compare.load(build, server.port, "-c", clients, "-n", messages, "-s", 4096, *pace)
                after, cpu = counter.read(), server.group.seconds() - cpu
            syncs = after[0] - before[0]
            if syncs == 0:
                raise AssertionError("slowsync.so counted no sync")
            sync_ms = (after[1] - before[1]) * 1000 / syncs
            return {"accepted/s": told["per_s"],
                    "cpu ms/message": cpu * 1000 / messages, "syncs/1000": syncs * 1000 / messages, "sync ms": sync_ms,
                    "answer p50 ms": told["dot_ms"]["p50"], "answer p99 ms": told["dot_ms"]["p99"],
                    "answer p99 syncs": told["dot_ms"]["p99"] / sync_ms}
        finally:
            server.stop()
            sink.stop()


def bare_loop(build, group, delay):
    """Measures the disk's limit, one sync after the other: messages/s that a bare loop appends and syncs in
    groups."""
    with tempfile.TemporaryDirectory(prefix="pen-bare-", dir="/var/tmp") as scratch:
        environment = {
            **os.environ,
            "LD_PRELOAD": os.path.join(build, "bench", "slowsync.so"),
            "SLOWSYNC_US": str(int(delay * 1000)),
        }
        told = subprocess.run(
            [
                os.path.join(build, "bench", "queue_bench"),
                "writer",
                scratch,
                "-n",
                str(100 * group),
                "--groups",
                str(group),
            ],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        return float(told.splitlines()[-1].split()[3])


def report(name, runs):
    """Prints the medians of the runs and returns them."""
    medians = {}
    for key in runs[0]:
        values = [run[key] for run in runs]
        medians[key] = statistics.median(values)
        places = 3 if key.startswith("cpu") else 2
        print(
            f"  {name:9} {key:16} {medians[key]:10.{places}f} ({min(values):.{places}f} - {max(values):.{places}f})",
            flush=True,
        )
    return medians


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(compare.TOP, "build", "release"))
    parser.add_argument("--clients", default="20,100")
    parser.add_argument("--delays", default="0,2", help="milliseconds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=20000, help="of Penstock; Postfix gets a fifth")
    parser.add_argument("--peers", default="penstock,postfix,none")
    parser.add_argument(
        "--warm", type=int, default=1024, metavar="MIB", help="free memory to keep warm (1024; 0: none)"
    )
    args = parser.parse_args()
    run = {
        "penstock": lambda clients, delay, *pace:
            measure(penstock, args.build, clients, delay, args.messages, args.warm, *pace),
        "postfix": lambda clients, delay: measure(postfix, args.build, clients, delay, args.messages // 5, args.warm),
        "none": lambda clients, delay: ceiling(args.build, clients, args.messages, args.warm),
    }
    names = args.peers.split(",")
    rows = []
    for delay in map(float, args.delays.split(",")):
        for clients in map(int, args.clients.split(",")):
            runs = {name: [] for name in names}
            for _ in range(args.rounds):
                for name in names:
                    runs[name].append(run[name](clients, delay))
            print(f"\n{clients} clients, {delay:g} ms added to each sync: median (least - most) of {args.rounds}")
            figures = {name: report(name, runs[name]) for name in names}
            rate = {name: figures[name]["accepted/s"] for name in names}
            if "none" in names and "penstock" in names:
                print(f"  part of the ceiling {rate['penstock'] / rate['none']:10.2f}")
            if "postfix" not in names or "penstock" not in names:
                continue
            print(f"  times Postfix    {rate['penstock'] / rate['postfix']:10.1f}", flush=True)
            if asked := ASKED.get((clients, delay)):
                times = PACE[clients, delay]
                pace = ("--rate", round(times * rate["postfix"]))
                print(f"  paced: {times} times Postfix, {pace[1]} messages/s")
                paced = report("paced", [run["penstock"](clients, delay, *pace) for _ in range(args.rounds)])
                ours, theirs = figures["penstock"], figures["postfix"]
                group = max(1, round(1000 / ours["syncs/1000"]))
                rows.append(
                    [
                        clients,
                        "as is" if delay == 0 else f"+{delay:g} ms",
                        f"{rate['penstock']:,.0f}",
                        f"{rate['postfix']:,.0f}",
                        f"{rate['penstock'] / rate['postfix']:.1f}",
                        asked,
                        f"{ours['cpu ms/message']:.3f} / {theirs['cpu ms/message']:.3f}",
                        f"{ours['syncs/1000']:.0f}",
                        f"{ours['answer p50 ms']:.1f} / {ours['answer p99 ms']:.1f} ({ours['answer p99 syncs']:.1f})",
                        f"{times}: {paced['accepted/s']:,.0f}, {paced['syncs/1000']:.0f}, "
                        f"{paced['answer p99 ms']:.1f} ({paced['answer p99 syncs']:.1f})",
                        f"{bare_loop(args.build, group, delay):,.0f} ({group})",
                        f"{rate['none']:,.0f}" if "none" in rate else "",
                    ]
                )
    if rows:
        print(
            "\n| clients | sync | Penstock, msg/s | Postfix, msg/s | times | asked "
            "| CPU ms per message, Penstock / Postfix | Penstock's syncs per 1,000 | answer p50 / p99, ms (syncs) "
            "| paced, times: msg/s, syncs per 1,000, p99 (syncs) | bare loop, msg/s (group) | ceiling, msg/s |\n"
            "| ---: | --- | ---: | ---: | ---: | ---: | --- | ---: | --- | --- | --- | ---: |"
        )
        for row in rows:
            print("| " + " | ".join(map(str, row)) + " |")


if __name__ == "__main__":
    main()
