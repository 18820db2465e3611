#!/usr/bin/env python3
"""Measures the time from kill -9 of everything under full load to flowing mail, by the depth of the queue.

    bench/restart.py [--depths 10000,100000,1000000] [--rounds 5] [--dir DIR] [--logs many|single]

In each round 20 clients send 4 KiB messages as fast as they can for three seconds; then everything is killed (master
first), `penstock start` is called and the clock runs: until a new client has its 220 and its 250, and until the sink
has a first message (a message that was on its way, or the new one). Demands: 250 within 200 ms, a delivery within 500
ms, and neither grows with the depth. --logs: the form in which the backlog is stored.
"""
import argparse
import re
import statistics
import subprocess
import threading
import time

import deep


def one_round(mx, sink, port):
    load = mx.load("-c", 20, "-n", 1000000, "-s", 4096)
    time.sleep(3)
    mx.kill_all()
    load.kill()
    load.wait()
    before = sink.count()
    while (now := sink.count()) != before:  # waits for what was in the sockets' buffers
        before = now
        time.sleep(0.05)
    result = {}
    began = time.monotonic()

    def watch():
        while sink.count() == before and time.monotonic() < began + 60:
            time.sleep(0.002)
        result["delivery"] = time.monotonic() - began

    watcher = threading.Thread(target=watch)
    watcher.start()
    starter = subprocess.Popen([deep.BUILD + "/bin/penstock", "-c", mx.etc, "start"], stdout=subprocess.DEVNULL)
    greeted, taken = deep.send_one(port, began + 60)
    watcher.join()
    starter.wait()
    result["220"], result["250"] = greeted - began, taken - began
    recovered = re.findall(r"queue recovered: .*", mx.log())[-1]
    result["MiB read"] = int(re.search(r"(\d+) bytes read", recovered).group(1)) / 2**20
    result["in work"] = int(re.search(r"(\d+) messages in work", recovered).group(1))
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depths", default="10000,100000,1000000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", default="/var/tmp", help="where the instances are made")
    parser.add_argument("--logs", default="many", choices=("many", "single"))
    args = parser.parse_args()
    print(f"milliseconds from the start: median (most) of {args.rounds} rounds\n"
          f"{'deferred':>9} {'220':>15} {'250':>15} {'delivery':>15} {'MiB read':>9} {'in work':>8}")
    for depth in map(int, args.depths.split(",")):
        sink = deep.Sink()
        try:
            with deep.Deep(depth, sink, args.dir, logs=args.logs) as mx:
                mx.start()
                rounds = [one_round(mx, sink, mx.port) for _ in range(args.rounds)]
        finally:
            sink.stop()
        cells = [f"{statistics.median(r[k] for r in rounds) * 1000:6.0f} ({max(r[k] for r in rounds) * 1000:6.0f})"
                 for k in ("220", "250", "delivery")]
        print(f"{depth:9} {cells[0]:>15} {cells[1]:>15} {cells[2]:>15} "
              f"{statistics.median(r['MiB read'] for r in rounds):9.1f} "
              f"{statistics.median(r['in work'] for r in rounds):8.0f}", flush=True)


if __name__ == "__main__":
    main()
