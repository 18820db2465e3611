#!/usr/bin/env python3
"""A small run of the scheduling experiments: it is repeatable, and the schedulers differ as expected.

    smoke_test.py PENSCHEDULER_BENCH
"""
import os
import subprocess
import sys
import tempfile

FAILED = []


def run(tool, *arguments):
    return subprocess.run([tool, *arguments], stdout=subprocess.PIPE, text=True, check=True, timeout=300).stdout


def rows(text):
    """Scheduler -> figures of its row."""
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]
    return {c[0]: [float(x) for x in c[1:]] for c in cells if c[0] in ("fcfs", "equal", "slots", "penstock")}


def cells(text):
    """The rows of the table without its head."""
    return [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")][2:]


def claim_isolation(tool):
    only = ("--scheduler", "penstock")
    # At this size the envelope's cost is 1.5 to 3.5 %, by the seed.
    seeds = [cells(run(tool, "hostile", "--size", "0.1", "--seed", seed, *only)) for seed in "1234"]
    mean = [sum(float(rows[row][2]) for rows in seeds) / len(seeds) for row in range(3)]
    print("mean delay of others alone, beside an envelope, beside a sender:", mean)
    claim(mean[1] < 1.03 * mean[0], "an envelope costs others next to nothing")
    claim(mean[2] < 1.01 * mean[0], "a sender of many messages costs others nothing")
    # At full size: with a tenth of the workers, 30, the 20 connections of one destination would be most of them.
    tarpit = [(float(row[3]), float(row[4])) for row in cells(run(tool, "tarpit", "--size", "1", *only))][2:]
    # 20,000 messages and 1,000, which is less than the tarpit's connections could carry.
    for what, alone, beside in (("an", *tarpit[:2]), ("a small", *tarpit[2:])):
        print(f"others beside a tarpit that fills {what} active set, per second and mean delay:", alone, beside)
        claim(
            beside[0] > 0.99 * alone[0] and beside[1] < 1.01 * alone[1],
            f"a tarpit in {what} active set costs others little",
        )
    lost = [float(row[5].split()[0]) for row in cells(run(tool, "dead", "--size", "0.06", *only))]
    print("lost beside dead hosts, %:", lost)
    claim(max(lost) < 5, "unknown dead hosts cost live ones little")


def claim_six_seeds(tool):
    rows = [[float(x) for x in row] for row in cells(run(tool, "drains"))]
    print("with six seeds, 99 % of singles, nine tenths of the envelope:", [(row[3], row[6]) for row in rows])
    claim(len(rows) == 6 and max(row[3] for row in rows) < 3, "single messages do not wait")
    claim(max(row[6] for row in rows) < 22, "and the envelope does not stand still")


def claim_classes(tool):
    inside, outside = [[float(x) for x in row[2:8]] + [float(x) for x in row[9:]]
                       for row in cells(run(tool, "classes", "--size", "0.5"))[2:]]
    print("with session classes, inside and outside:", inside, outside)
    for name, row, limit in (("inside", inside, 8), ("outside", outside, 3)):
        messages, delivered, deferred, most, full = row[0], row[1], row[2], row[6], row[8]
        claim(most == limit, f"{name}: {limit} sessions at once, and never more")
        claim(
            delivered == messages and deferred == 0,
            f"{name}: what waits for its class is delivered, and nothing is deferred",
        )
        claim(full > 0, f"{name}: the class was full")


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
    claim_isolation(tool)
    claim_six_seeds(tool)
    claim_classes(tool)
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
