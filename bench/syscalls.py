#!/usr/bin/env python3
"""Counts the system calls on files in the steady state, by strace over all programs while mail is relayed.

    bench/syscalls.py [--messages 20000] [--large 400] [--dir DIR]

Messages of 4 KiB (20 clients), then --large messages of 1 MiB (4 clients); three times as many of each kind run first
and are not counted. Demand: no open, create, rename, unlink, truncate or fallocate per message: the remaining calls
go with segments and commits. 0.02 calls per message or more, of either kind, are an error. (The default numbers give
0.0002 and 0.005; far fewer messages give 0.0125, because segments are still being opened.) Needs strace.
"""
import argparse
import collections
import os
import re
import signal
import subprocess
import sys
import tempfile

import deep
from depth import turn

CALLS = (
    "open",
    "openat",
    "openat2",
    "creat",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "truncate",
    "ftruncate",
    "fallocate",
)
MOST = 0.02  # calls per message: above what a short run measures, below anything that goes with messages


def count(mx, work):
    """Returns the calls during work(): a Counter by name, and the files they named, without digits."""
    pids = sorted(pid for some in mx.pids().values() for pid in some)
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "trace")
        tracer = subprocess.Popen(
            [
                "strace",
                "-f",
                "-qq",
                "-e",
                "signal=none",
                "-e",
                "trace=" + ",".join("?" + c for c in CALLS),
                "-o",
                path,
                *(word for pid in pids for word in ("-p", str(pid))),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            # The kernel's word that strace is attached to all of them.
            while any("TracerPid:\t0\n" in open(f"/proc/{pid}/status", encoding="ascii").read() for pid in pids):
                if tracer.poll() is not None:
                    raise RuntimeError(f"strace: {tracer.stderr.read().strip()}")
            work()
        finally:
            if tracer.poll() is None:
                tracer.send_signal(signal.SIGINT)
            tracer.wait()
        calls, what = collections.Counter(), collections.Counter()
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if (found := re.match(r"\d+ +(\w+)\((.*)", line)) and found[1] in CALLS:
                    calls[found[1]] += 1
                    name = re.search(r'"([^"]*)"', found[2])
                    what[f"{found[1]} {re.sub('[0-9]+', 'N', os.path.basename(name[1])) if name else ''}".strip()] += 1
        return calls, what


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20000)
    parser.add_argument("--large", type=int, default=400)
    parser.add_argument("--dir", default="/var/tmp")
    args = parser.parse_args()
    print("| bytes | messages | calls | in 1,000 messages | which |\n| ---: | ---: | ---: | ---: | --- |")
    most = 0.0
    for size, messages, clients in ((4096, args.messages, 20), (1 << 20, args.large, 4)):
        sink = deep.Sink()
        try:
            with deep.Deep(0, sink, args.dir) as mx:
                mx.start()
                for _ in range(
                    3
                ):  # a disk that was busy at first took less, and the spool had fewer files than it needs
                    turn(mx, sink, messages, size, clients)
                calls, what = count(mx, lambda: turn(mx, sink, messages, size, clients))
                total = sum(calls.values())
                most = max(most, total / messages)
                which = ", ".join(f"{n} {name}" for name, n in what.most_common(8)) or "none"
                print(f"| {size} | {messages} | {total} | {1000 * total / messages:.1f} | {which} |", flush=True)
        finally:
            sink.stop()
    return 0 if most < MOST else 1


if __name__ == "__main__":
    sys.exit(main())
