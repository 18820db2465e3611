#!/usr/bin/env python3
"""Measures what a deep queue costs other mail: memory and rate, by the number of deferred messages.

    bench/depth.py [--depths 0,1000000,5000000] [--size 600] [--messages 20000] [--dir DIR] [--logs many|single]

For each depth: the anonymous memory of all programs, at rest and at its peak while 20 clients send 4 KiB messages as
fast as they can, and how many messages per second reach the sink (median of three turns). Demands: memory within 64
MiB of that of an empty queue, and the same rate. 5,000,000 messages of 600 bytes take about 4 GiB of disk.
"""
import argparse
import json
import statistics
import threading
import time

import deep


class Peak(threading.Thread):
    def __init__(self, mx):
        super().__init__(daemon=True)
        self.mx, self.most, self.over = mx, 0, threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.1):
            self.most = max(self.most, self.mx.anonymous_mib())

    def end(self):
        self.over.set()
        self.join()
        return self.most


def turn(mx, sink, messages, size=4096, clients=20):
    """Sends messages through to the sink; returns how many were accepted and relayed per second."""
    before, began = sink.count(), time.monotonic()
    load = mx.load("-c", clients, "-n", messages, "-s", size)
    told = json.loads(load.communicate()[0].splitlines()[-1])
    accepted = time.monotonic() - began
    while sink.count() < before + messages:
        time.sleep(0.005)
        if time.monotonic() > began + 120:
            raise TimeoutError(f"the sink has {sink.count() - before} of {messages}: {told}")
    return messages / accepted, messages / (time.monotonic() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depths", default="0,1000000,5000000")
    parser.add_argument("--size", type=int, default=600)
    parser.add_argument("--messages", type=int, default=20000)
    parser.add_argument("--dir", default="/var/tmp")
    parser.add_argument("--logs", default="many", choices=("many", "single"))
    args = parser.parse_args()
    print(f"{'deferred':>9} {'filled in':>10} {'at rest MiB':>12} {'peak MiB':>9} {'accepted/s':>11} {'relayed/s':>10}")
    for depth in map(int, args.depths.split(",")):
        sink = deep.Sink()
        try:
            with deep.Deep(depth, sink, args.dir, size=args.size, logs=args.logs) as mx:
                mx.start()
                turn(mx, sink, args.messages // 10)
                rest = mx.anonymous_mib()
                peak = Peak(mx)
                turns = [turn(mx, sink, args.messages) for _ in range(3)]
                print(f"{depth:9} {mx.filled_in:8.0f} s {rest:12.1f} {peak.end():9.1f} "
                      f"{statistics.median(t[0] for t in turns):11.0f} "
                      f"{statistics.median(t[1] for t in turns):10.0f}", flush=True)
        finally:
            sink.stop()


if __name__ == "__main__":
    main()
