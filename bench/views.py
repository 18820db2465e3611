#!/usr/bin/env python3
"""What the views of penapi cost beside a deep queue: how long each takes, and the memory of penapi and qmgr.

    bench/views.py [--depths 1000,1000000] [--dir DIR] [--rounds N]

Each view is asked N times, one after the other (the median and the longest are shown), then all at once by ten clients
while mail is relayed. A view must not grow with the queue; what goes through the whole queue (the survey behind
/metrics and the overview) does so in the background.
"""
import argparse
import json
import statistics
import sys
import threading
import time
import urllib.request

import deep

VIEWS = ("/metrics", "/metrics?compat=postfix", "/api/v1/overview", "/api/v1/history?range=hour",
         "/api/v1/queue?limit=100", "/api/v1/queue?limit=100&offset=10000",
         "/api/v1/queue?limit=100&recipient=nobody@nowhere.example",
         "/api/v1/trouble", "/api/v1/destinations?limit=100", "/api/v1/events?limit=100", "/api/v1/sessions")


class Viewed(deep.Deep):
    def __init__(self, depth, sink, directory):
        super().__init__(depth, sink, directory)
        self.api = deep.free_port()
        self.service(f"127.0.0.1:{self.api}", "inet n - n - - penapi")

    def service(self, name, line):
        with open(self.etc + "/master.cf", "a") as out:
            out.write(f"{name} {line}\n")

    def view(self, path):
        """Returns (seconds, bytes)."""
        began = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.api}{path}", timeout=120) as answer:
            size = len(answer.read())
        return time.monotonic() - began, size

    def memory(self, program):
        total = 0
        for pid in self.pids().get(program, []):
            with open(f"/proc/{pid}/smaps_rollup") as lines:
                total += sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))
        return total / 1024


def look(depth, directory, rounds):
    sink = deep.Sink()
    try:
        with Viewed(depth, sink, directory) as mx:
            mx.start()
            deadline = time.monotonic() + 300
            while True:  # the first survey: penapi serves, and knows the queue
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{mx.api}/api/v1/overview", timeout=60) as answer:
                        if json.load(answer).get("queue", {}).get("deferred", {}).get("messages") == depth:
                            break
                except OSError:
                    pass
                if time.monotonic() > deadline:
                    sys.exit("views: the queue was never surveyed")
                time.sleep(0.1)
            print(f"\n{depth} deferred (filled in {mx.filled_in:.0f} s): median and longest of {rounds}, ms; bytes")
            for path in VIEWS:
                took = [mx.view(path) for _ in range(rounds)]
                times = [1000 * t for t, _ in took]
                print(f"  {path:64} {statistics.median(times):9.1f} {max(times):9.1f} {took[-1][1]:9}", flush=True)
            ended, failed = threading.Event(), []

            def ask():
                while not ended.is_set():
                    for path in VIEWS:
                        try:
                            mx.view(path)
                        except OSError as error:
                            failed.append(f"{path}: {error}")
            threads = [threading.Thread(target=ask) for _ in range(10)]
            for thread in threads:
                thread.start()
            peak, until = {"penapi": 0, "qmgr": 0}, time.monotonic() + 20
            while time.monotonic() < until:
                for name in peak:
                    peak[name] = max(peak[name], mx.memory(name))
                time.sleep(0.1)
            ended.set()
            for thread in threads:
                thread.join()
            print("  ten clients at once, most anonymous memory: " +
                  ", ".join(f"{k} {v:.1f} MiB" for k, v in peak.items())
                  + f"; {len(failed)} failed {failed[:1]}", flush=True)
    finally:
        sink.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depths", default="1000,1000000")
    parser.add_argument("--dir", default="/var/tmp")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    for depth in map(int, args.depths.split(",")):
        look(depth, args.dir, args.rounds)


if __name__ == "__main__":
    main()
