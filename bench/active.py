#!/usr/bin/env python3
"""Measures the memory of qmgr's active set, and how long a start searches for spool files without an owner.

    bench/active.py [--messages 20000] [--parts memory,orphans] [--dir DIR]

memory: flushes the deferred messages to a next hop that never answers, and prints qmgr's anonymous memory at rest,
with the active set full, and after all were deleted. orphans: restarts with one message whose body is in the spool
beside the deferred ones, and prints qmgr's report of the pass, its CPU time and what it read.
"""
import argparse
import os
import re
import smtplib
import time

import deep
from orders import Silent, anonymous

ACTIVE = 20000  # qmgr_message_active_limit


def memory(messages, directory):
    with deep.Deep(messages, Silent(), directory) as mx:
        mx.start()
        qmgr, wanted = mx.pids()["qmgr"][0], min(messages, ACTIVE)
        rest = anonymous(qmgr)
        mx.tool("penqueue", "-f", check=True)
        end = time.monotonic() + 300
        while mx.log().count("(queue active)") < wanted and time.monotonic() < end:
            time.sleep(0.3)
        time.sleep(1)
        full = anonymous(qmgr)
        mx.tool("pensuper", "-d", "ALL", check=True, timeout=600)
        left = anonymous(qmgr)
        for _ in range(30):  # once a second qmgr checks whether it has memory to give back
            time.sleep(0.5)
            left = min(left, anonymous(qmgr))
        print(
            f"{rest:.1f} MiB at rest, {full:.1f} with {wanted} active "
            f"({(full - rest) * (1 << 20) / wanted:.0f} bytes each), {left:.1f} after all were deleted",
            flush=True,
        )


def orphans(messages, directory):
    with deep.Deep(messages, Silent(), directory) as mx:
        mx.start()
        with smtplib.SMTP("127.0.0.1", mx.port) as client:
            client.sendmail("a@bench.example", ["b@sink.example"], b"Subject: large\r\n\r\n" + b"y" * 70000 + b"\r\n")
        mx.stop()
        mx.start()
        qmgr = mx.pids()["qmgr"][0]
        while not (said := re.findall(r"spool: (.* looked through .*)", mx.log())):
            time.sleep(0.5)
        with open(f"/proc/{qmgr}/stat") as stat, open(f"/proc/{qmgr}/io") as io:
            cpu = sum(map(int, stat.read().split(") ")[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
            read = int(io.readline().split()[1]) >> 20
        print(f"{said[-1]}; {cpu:.1f} s of CPU, {read} MiB read, {anonymous(qmgr):.1f} MiB of memory", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=ACTIVE)
    parser.add_argument("--parts", default="memory,orphans")
    parser.add_argument("--dir", default="/var/tmp")
    args = parser.parse_args()
    for part in args.parts.split(","):
        {"memory": memory, "orphans": orphans}[part](args.messages, args.dir)


if __name__ == "__main__":
    main()
