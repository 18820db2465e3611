#!/usr/bin/env python3
"""Measures the queue tools on a deep queue: seconds, messages, and anonymous memory of qmgr and of the tool.

    bench/orders.py [--messages 1000000] [--parts look,act,expire] [--dir DIR]

look: lists a queue of deferred messages beside a next hop that takes mail; looks up one message by id (the first, the
middle and the last of the listing; the slowest counts), selects messages in dry runs, and flushes one message, one
site and all.
act: gives orders for one site and for ALL in the same queue, beside a next hop that takes connections and never
answers, while 20 more messages come in per second (the last line: the time within which 99 in 100 of them were
answered). Expired messages are on hold and stay; a notice in the queue, which would be more mail to act on, is an
error.
expire: expires deferred messages from the null sender, so that none is returned, beside a next hop that refuses
connections: the time until the order was carried out, and until each message had its last try and all were gone.
Demands: one message by id within a second, a million acted on in seconds, memory flat.
"""
import argparse
import json
import os
import socket
import subprocess
import threading
import time

import deep


def anonymous(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) / 1024
    except (OSError, StopIteration):
        return 0.0  # it has just ended


class Watched(threading.Thread):
    """Finds the most anonymous memory that some processes had while a tool ran."""

    def __init__(self, *pids):
        super().__init__(daemon=True)
        self.most, self.over = {pid: anonymous(pid) for pid in pids}, threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.05):
            for pid in self.most:
                self.most[pid] = max(self.most[pid], anonymous(pid))

    def end(self):
        self.over.set()
        self.join()
        return list(self.most.values())


class Bench:
    def __init__(self, mx):
        self.mx, self.qmgr = mx, mx.pids()["qmgr"][0]
        print(f"{'':48} {'messages':>9} {'s':>8} {'qmgr MiB':>9} {'tool MiB':>9}")
        self.line("at rest", "", 0, [anonymous(self.qmgr), 0])

    def line(self, what, count, seconds, memory):
        print(f"{what:48} {count!s:>9} {seconds:8.2f} {memory[0]:9.1f} {memory[1]:9.1f}", flush=True)

    def tool(self, *words, lines=None, shown=None):
        """Runs a tool and reads its output, `lines` lines at most. Returns the ids and the tool's last words."""
        began = time.monotonic()
        tool = subprocess.Popen([os.path.join(deep.BUILD, "bin", words[0]), "-c", self.mx.etc, *words[1:]],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        watched, count, ids = Watched(self.qmgr, tool.pid), 0, []
        for line in tool.stdout:
            count += line[0] not in " -\n"  # of a listing for people: the first line of each message
            if line[0] == "{" and count % 100 == 1:
                ids.append(json.loads(line)["queue_id"])
            if count == lines:
                break
        tool.stdout.close()
        said = tool.stderr.read()
        if tool.wait() > 0:
            raise SystemExit(f"{' '.join(words)}: exit {tool.returncode}: {said}")
        if shown is not False:
            told = said.split(": ")[-1].split()[0] if " message" in said else count
            self.line(shown or " ".join(words), told, time.monotonic() - began, watched.end())
        return ids, time.monotonic() - began, watched

    def longest(self, shown, commands):
        runs = [self.tool(*words, shown=False)[1:] for words in commands]
        memory = [max(m) for m in zip(*(watched.end() for _, watched in runs))]
        self.line(shown, 1, max(seconds for seconds, _ in runs), memory)

    def delivered(self, shown, sink, wanted, *words):
        before, began = sink.count(), time.monotonic()
        watched = Watched(self.qmgr, os.getpid())
        self.mx.tool(*words, check=True, timeout=600)
        told = time.monotonic() - began
        while sink.count() < before + wanted and time.monotonic() < began + 120:
            time.sleep(0.002)
        self.line(f"{shown}: the tool", "", told, [watched.end()[0], 0])
        self.line(
            f"{shown}: {wanted} arrived", sink.count() - before, time.monotonic() - began, [anonymous(self.qmgr), 0]
        )


def look(messages, directory):
    sink = deep.Sink()
    try:
        with deep.Deep(messages, sink, directory) as mx:
            mx.start()
            bench = Bench(mx)
            bench.tool("penqueue", "-p")
            ids = bench.tool("penqueue", "-j")[0]
            bench.tool("penqueue", "-p", lines=1, shown="penqueue -p | head -1")
            three = [ids[0], ids[len(ids) // 2], ids[-1]]
            bench.longest("penqueue -j ID", [("penqueue", "-j", i) for i in three])
            bench.longest("pencat ID", [("pencat", i) for i in three])
            bench.longest("pensuper -n -d ID", [("pensuper", "-n", "-d", i) for i in three])
            bench.longest("pensuper -h ID", [("pensuper", "-h", i) for i in three])
            bench.longest("pensuper -H ID", [("pensuper", "-H", i) for i in three])
            for choice in (["--domain", "d7.far.example"], ["--recipient", "user8@d8.far.example"],
                           ["--sender", "@load.example", "--older", "1m"], ["--reply", "refused"]):
                bench.tool("pensuper", "-n", "-d", "ALL", *choice)
            bench.delivered("penqueue -i ID", sink, 1, "penqueue", "-i", ids[len(ids) // 3])
            bench.delivered("penqueue -s SITE", sink, messages // 1000, "penqueue", "-s", "d7.far.example")
            bench.delivered("pensuper -e ALL --domain SITE", sink, messages // 1000, "pensuper", "-e", "ALL",
                            "--domain", "d10.far.example")
            bench.delivered("penqueue -f", sink, 1, "penqueue", "-f")
    finally:
        sink.stop()


class Silent:
    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self.port = self.socket.getsockname()[1]


def act(messages, directory):
    # No try ends while this runs, so that the result of the orders does not depend on their duration.
    with deep.Deep(messages, Silent(), directory, settings={"smtp_helo_timeout": "1h"}) as mx:
        mx.start()
        bench = Bench(mx)
        load = mx.load("-c", 4, "-n", 1000000, "-s", 4096, "--rate", 20)
        for order in ("-h", "-H"):
            bench.tool("pensuper", order, "ALL", "--domain", "d9.far.example")
        for order in ("-h", "-H", "-r", "-h", "-e", "-d"):
            bench.tool("pensuper", order, "ALL")
            if order == "-e" and mx.tool("pensuper", "-n", "-d", "ALL", "--sender", "<>", check=True).stdout:
                raise AssertionError("messages were returned while the orders ran")
            if order == "-H" and (left := mx.tool("pensuper", "-n", "-H", "ALL", check=True).stdout.count("\n")) > 1:
                raise AssertionError(f"{left - 1} messages are still on hold")
        load.terminate()
        told = json.loads(load.communicate()[0].splitlines()[-1])
        print(f"other mail meanwhile: {told['per_s']} a second taken, {told['refused']} refused; the answer to "
              f"end-of-data, ms: {told['dot_ms']['p50']:.0f}, 99 in 100 within {told['dot_ms']['p99']:.0f}")


class Refusing:
    def __init__(self):
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))  # nobody listens
        self.port = self.socket.getsockname()[1]


def expire(messages, directory):
    with deep.Deep(messages, Refusing(), directory, sender="") as mx:
        mx.start()
        bench, began = Bench(mx), time.monotonic()
        watched = Watched(bench.qmgr)
        bench.tool("pensuper", "-e", "ALL", shown="pensuper -e ALL, no sender")
        while bench.tool("penqueue", "-j", lines=1, shown=False)[0]:
            if time.monotonic() > began + 600:
                raise TimeoutError("expired messages are still in the queue")
            time.sleep(0.05)
        bench.line(
            "pensuper -e ALL, no sender: until all were gone", messages, time.monotonic() - began, [watched.end()[0], 0]
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1000000)
    parser.add_argument("--parts", default="look,act,expire")
    parser.add_argument("--dir", default="/var/tmp")
    args = parser.parse_args()
    for part in args.parts.split(","):
        {"look": look, "act": act, "expire": expire}[part](args.messages, args.dir)


if __name__ == "__main__":
    main()
