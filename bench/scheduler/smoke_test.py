#!/usr/bin/env python3
"""A small run of the scheduling experiments: repeatable, and the schedulers differ in the way they are known to.

    smoke_test.py PENSCHEDULER_BENCH
"""
import os
import subprocess
import sys
import tempfile

FAILED = []


def run(tool, *arguments):
    return subprocess.run([tool, *arguments], stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout


def rows(text):
    """Scheduler -> figures of its row."""
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]
    return {c[0]: [float(x) for x in c[1:]] for c in cells if c[0] in ("fcfs", "equal", "slots", "penstock")}


def claim(good, what):
    print("%-6s %s" % ("ok" if good else "FAILED", what))
    if not good:
        FAILED.append(what)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip())
        return 2
    tool = sys.argv[1]
    with tempfile.TemporaryDirectory() as plots:
        first = run(tool, "drain", "--size", "0.05", "--plots", plots)
        drawn = {name: open(os.path.join(plots, name), encoding="ascii").read() for name in os.listdir(plots)}
        second = run(tool, "drain", "--size", "0.05", "--plots", plots)
        again = {name: open(os.path.join(plots, name), encoding="ascii").read() for name in os.listdir(plots)}
    claim(first == second and drawn == again and len(drawn) == 3, "the same seed gives the same table and plots")
    claim(run(tool, "drain", "--size", "0.05", "--seed", "2") != first, "another seed gives others")
    figures = rows(first)
    p99 = {name: row[2] for name, row in figures.items()}
    ninety = {name: row[5] for name, row in figures.items()}
    print("p99 of singles:", p99, "envelope delivered:", ninety)
    claim(p99["penstock"] * 5 < p99["fcfs"], "single messages wait behind an envelope served as first come")
    claim(ninety["penstock"] * 5 < ninety["equal"], "an envelope with its equal share of a loaded system crawls")
    claim(p99["penstock"] < 4, "Penstock's single messages do not wait")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
