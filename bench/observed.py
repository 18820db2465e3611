#!/usr/bin/env python3
"""What it costs the mail that somebody looks: relay20 and relay100 of compare.py, with and without ten scrapes of
/metrics a second, the JSON log of all events, and a trace of all sessions that come in.

    bench/observed.py [--build DIR] [--only relay20,relay100] [--pairs N] [--windows N] [--with log,scrapes,trace]
    bench/observed.py --count smtpd --with trace [--only relay20]

Two instances, one that is watched and one that is not, relay at the same time, so that whatever else the machine does
meets both alike. Each window of half a second gives the ratio watched / alone of what a message costs. After --windows
of them both are thrown away and the next of --pairs pairs begins, for two instances differ a little in what they cost.
The figure is the median over all windows: 1.02 is 2 % more. Beside it stands an interval that has the true median in 95
of 100 cases (bootstrap over pairs and their windows), and the median of each pair. "--with nothing" looks at neither:
what it says is the error of the method. The demand is met where the whole interval of "mail ms" lies below 1.02, missed
where it lies above.

Processor time is that of the programs that carry mail (all but penapi and penevents), per message; that of the watchers
stands beside it. System calls per message are counted by perf in another two seconds of each pair. Needs root, and perf
for the calls. Loopback only.

--count PROGRAM: instead of all that, what one program does for a message, watched and alone: instructions, and misses
of the first caches in a simulation of the processor (valgrind's callgrind; the kernel's part is not in it). Nearly the
same each time, whatever else the machine does: it is for comparing two versions. With --profiles DIR the profiles stay
there, for callgrind_annotate.
"""
import argparse
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

import compare
from compare import PenstockServer, Sink, free_port
from counted import EVENTS, Counted

WATCHERS = ("penapi", "penevents")
SCRAPES = 10  # a second
WINDOW = 0.5  # seconds
WARM = 2
COUNTED = 2  # seconds of system calls
FEW, MORE = 500, 2500  # messages that are counted


def processor_time(group):
    """Seconds by program. Of a program that has ended nothing is counted: none does, while messages flow."""
    found = {}
    for pid in group.pids():
        try:
            with open(f"/proc/{pid}/comm") as f:
                name = f.read().strip()
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/schedstat") as f:
                    found[name] = found.get(name, 0) + int(f.read().split()[0]) / 1e9
        except OSError:
            pass
    return found


class Watched(PenstockServer):
    """An instance that is looked at while messages flow, in the ways of `ways`."""

    def __init__(self, build, sink, ways):
        self.ways, self.api, self.trace = ways, free_port(), None
        log = "\nevent_log_file = $data_directory/seen/events.json\nevent_log_rotate_size = 0\n"
        super().__init__(build, sink, 50, log if "log" in ways else "")

    def configure(self):
        os.makedirs(os.path.join(self.home, "data", "seen"), mode=0o777)
        os.chmod(os.path.join(self.home, "data", "seen"), 0o777)
        if "scrapes" in self.ways:
            with open(self.home + "/etc/master.cf", "a") as f:
                f.write(f"127.0.0.1:{self.api} inet n - n - - penapi\n")

    def scrape(self, ended, count):
        due = time.monotonic()
        while not ended.is_set():
            with urllib.request.urlopen(f"http://127.0.0.1:{self.api}/metrics", timeout=60) as answer:
                count.append(len(answer.read()))
            due = max(due + 1 / SCRAPES, time.monotonic())
            ended.wait(due - time.monotonic())

    def look(self):
        """Begins to look; returns what ends it, which returns how much was seen."""
        ended, scraped, seen = threading.Event(), [], os.path.join(self.home, "trace")
        scraper = threading.Thread(target=self.scrape, args=(ended, scraped), daemon=True)
        if "scrapes" in self.ways:
            scraper.start()
        if "trace" in self.ways:
            with open(seen, "wb") as out:
                trace = subprocess.Popen([self.bin + "/pentrace", "-c", self.home + "/etc", "in"], stdout=out,
                                         stderr=subprocess.DEVNULL)

        def end():
            ended.set()
            lines = 0
            if "trace" in self.ways:
                trace.terminate()
                trace.wait()
                with open(seen, "rb") as f:
                    lines = sum(1 for _ in f)
            if "scrapes" in self.ways:
                scraper.join()
            return {"scrapes": len(scraped), "lines": lines, "events": self.events()}
        return end

    def events(self):
        try:
            with open(os.path.join(self.home, "data", "seen", "events.json"), "rb") as f:
                return sum(1 for _ in f)
        except FileNotFoundError:
            return 0


class WatchedCount(Counted, Watched):
    """The same with one program under valgrind."""

    def __init__(self, build, sink, ways, program):
        self.count(build, program, "caches")
        super().__init__(build, sink, ways)


def done(args, connections, ways, messages):
    """All that the program does in its life with so many messages."""
    sink, server = Sink(args.build), None
    try:
        server = WatchedCount(args.build, sink.port, ways, args.count)
        end = server.look()
        compare.load(args.build, server.port, "-c", connections, "-n", messages, "-s", 4096)
        sink.wait(messages, 300)
        totals, profile = server.counts()
        if "trace" in ways and end()["lines"] < 8 * messages:
            sys.exit("observed: too little was seen")
        if args.profiles:
            name = f"{args.count}-{'watched' if ways else 'alone'}-{messages}"
            shutil.copy(profile, os.path.join(args.profiles, name))
        return totals
    finally:
        if server:
            server.stop()
        sink.stop()


def count(args, connections, ways):
    """What the program does for a message: the difference between lives with few and with more of them."""
    def each(looked):
        few, more = (done(args, connections, looked, messages) for messages in (FEW, MORE))
        return {name: (more[name] - few[name]) / (MORE - FEW) for name in EVENTS}

    alone, watched = each(()), each(ways)
    for name in EVENTS:
        print(f"  {args.count} {name:13} alone {alone[name]:9.1f}  watched {watched[name]:9.1f}  "
              f"more {watched[name] - alone[name]:8.1f}  ratio {watched[name] / alone[name]:6.3f}")


class Side:
    """One of the two instances, its load and its sink."""

    def __init__(self, build, connections, ways):
        self.sink = Sink(build)
        self.server = Watched(build, self.sink.port, ways)
        self.load = subprocess.Popen([os.path.join(build, "bench/penload"), "--port", str(self.server.port), "-c",
                                      str(connections), "-n", "100000000", "-s", "4096"], stdout=subprocess.DEVNULL)

    def now(self):
        return time.monotonic(), self.sink.counts()["messages"], processor_time(self.server.group)

    def stop(self):
        self.load.terminate()
        if self.load.wait() != 0:
            sys.exit("observed: not every message was taken")
        self.server.stop()
        self.sink.stop()


def spent(before, after):
    (began, had, then), (ended, has, used) = before, after
    messages = max(1, has - had)
    each = {name: (used[name] - then.get(name, 0)) * 1000 / messages for name in used}
    watchers = sum(each.pop(name, 0) for name in WATCHERS)
    return {"relayed/s": messages / (ended - began), "mail ms": sum(each.values()), "watchers ms": watchers,
            **{f"{name} ms": ms for name, ms in sorted(each.items()) if ms > 0.005}}


def calls(sides):
    """System calls per message by program."""
    counters = ({}, {})
    for side, of in zip(sides, counters):
        programs = {}
        for pid in side.server.group.pids():
            with open(f"/proc/{pid}/comm") as f:
                programs.setdefault(f.read().strip(), []).append(str(pid))
        for name, pids in programs.items():
            of[name] = subprocess.Popen(["perf", "stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-I",
                                         str(COUNTED * 1000), "-p", ",".join(pids)], stderr=subprocess.PIPE, text=True)
    before = [side.sink.counts()["messages"] for side in sides]
    began = time.monotonic()
    found = [{name: counter.stderr.readline() for name, counter in of.items()} for of in counters]
    share = COUNTED / (time.monotonic() - began)
    messages = [(side.sink.counts()["messages"] - n) * share for side, n in zip(sides, before)]
    for of in counters:
        for counter in of.values():
            counter.send_signal(signal.SIGINT)
            counter.communicate()
    out = []
    for lines, n in zip(found, messages):
        numbers = {name: line.split(",")[1] for name, line in lines.items()}
        each = {name: int(text) / n if text.isdigit() else 0 for name, text in numbers.items()}  # "<not counted>"
        out.append({"mail calls": sum(c for name, c in each.items() if name not in WATCHERS),
                    **{f"{name} calls": c for name, c in sorted(each.items()) if c > 0.05}})
    return out


def measure(args, connections, ways):
    """Windows of each pair, and counts of system calls: (alone, watched) each."""
    pairs, counted = [], []
    for n in range(args.pairs):
        # Which of the two is the older one makes a difference: so it changes.
        made = [Side(args.build, connections, ways if i == n % 2 else ()) for i in (0, 1)]
        sides = (made[1], made[0]) if n % 2 == 0 else tuple(made)
        try:
            end = sides[1].server.look()
            time.sleep(WARM)
            windows, last, begun = [], [side.now() for side in sides], sides[1].sink.counts()["messages"]
            for _ in range(args.windows):
                time.sleep(WINDOW)
                now = [side.now() for side in sides]
                windows.append(tuple(spent(b, a) for b, a in zip(last, now)))
                last = now
            messages = sides[1].sink.counts()["messages"] - begun
            if shutil.which("perf"):
                counted.append(calls(sides))
            seen = end()
        finally:
            for side in sides:
                side.stop()
        # Each message is received, delivered and removed, and has eight lines and more.
        if "log" in ways and seen["events"] < 3 * messages or "trace" in ways and seen["lines"] < 8 * messages:
            sys.exit(f"observed: too little was seen of {messages} messages: {seen}")
        print(f"  ({messages} messages, {seen})", file=sys.stderr)
        pairs.append(windows)
    return pairs, counted


def interval(pairs, draws=1000):
    """Of the median of all windows, 95 %. Pairs are drawn, and windows of each: those of one pair are alike."""
    chance = random.Random(1)
    pairs = [windows for windows in pairs if windows]
    medians = sorted(statistics.median(r for windows in chance.choices(pairs, k=len(pairs))
                                       for r in chance.choices(windows, k=len(windows))) for _ in range(draws))
    return medians[draws // 40], medians[-draws // 40 - 1]


def show(pairs):
    windows = [w for pair in pairs for w in pair]
    for key in windows[-1][1]:
        theirs, ours = (statistics.median(w[i].get(key, 0) for w in windows) for i in (0, 1))
        ratios = [[ours[key] / alone[key] for alone, ours in pair if alone.get(key) and key in ours] for pair in pairs]
        line = f"  {key:18} alone {theirs:9.3f}  watched {ours:9.3f}"
        if every := [r for of in ratios for r in of]:
            line += "  ratio {:6.3f} ({:.3f} to {:.3f})".format(statistics.median(every), *interval(ratios))
            line += "  pairs " + " ".join(f"{statistics.median(of):.3f}" for of in ratios if of)
        print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(compare.TOP, "build", "release"))
    parser.add_argument("--only", default="relay20,relay100")
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--windows", type=int, default=60)
    parser.add_argument("--with", dest="ways", default="log,scrapes,trace")
    parser.add_argument("--count", metavar="PROGRAM")
    parser.add_argument("--profiles", metavar="DIR")
    args = parser.parse_args()
    ways = tuple(w for w in args.ways.split(",") if w != "nothing")
    for workload in args.only.split(","):
        connections = int(re.fullmatch(r"relay(\d+)", workload).group(1))
        if args.count:
            print(f"\n{workload}, {', '.join(ways)}: a message")
            count(args, connections, ways)
            continue
        pairs, counted = measure(args, connections, ways)
        print(f"\n{workload}, {args.ways}: {args.pairs} pairs of instances, {args.windows} windows each")
        show(pairs)
        if counted:
            show([counted])
        sys.stdout.flush()


if __name__ == "__main__":
    main()
