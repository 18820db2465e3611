#!/usr/bin/env python3
"""What a setting, or a change of the program, costs: workloads of compare.py with two builds, or two sets of settings,
in turns, so that what else the machine does meets both.

    bench/turns.py --second "confine_files = no; confine_system_calls = no"
    bench/turns.py --second-build ../before/build/release --only relay20,tls20 --rounds 20

For each figure: the medians of both, the median of second / first in a round, and the interval in which that median
lies with a probability of 95 % at least (order statistics; none with less than six rounds). Needs root. Loopback only.
"""
import argparse
import math
import os
import statistics
import sys

import compare
from compare import PenstockServer, peers


def interval(values):
    """Of the median: the ranks between which it lies in 95 of 100 cases, whatever the distribution."""
    n, below, rank = len(values), 0.0, 0
    while (below := below + math.comb(n, rank) / 2**n) <= 0.025:
        rank += 1
    return (sorted(values)[rank - 1], sorted(values)[n - rank]) if rank else None


def lines(settings):
    return "\n" + "".join(line.strip() + "\n" for line in settings.split(";") if line.strip())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(compare.TOP, "build", "release"))
    parser.add_argument("--second-build", help="that of the second, if it is another")
    parser.add_argument("--first", default="", help="lines of main.cf, separated by ;")
    parser.add_argument("--second", default="", help="the same for the second")
    parser.add_argument("--only", default="relay20,relay100,tls20", help="workloads of compare.py")
    parser.add_argument("--rounds", type=int, default=12)
    args = parser.parse_args()
    if args.second == args.first and not args.second_build:
        parser.error("the two are the same: give --second or --second-build")
    if reason := peers.unavailable():
        sys.exit(f"turns: {reason}")
    sides = (args.build, lines(args.first)), (args.second_build or args.build, lines(args.second))
    for workload in args.only.split(","):
        found = [], []
        for n in range(args.rounds):
            for i in (0, 1) if n % 2 == 0 else (1, 0):
                build, PenstockServer.further = sides[i]
                found[i].append(compare.WORKLOADS[workload](build, PenstockServer))
        print(f"\n{workload}: medians of {args.rounds} rounds")
        for key in found[0][0]:
            if not all(isinstance(r.get(key), (int, float)) and r[key] for side in found for r in side):
                continue
            first, second = (statistics.median(r[key] for r in side) for side in found)
            ratios = [b[key] / a[key] for a, b in zip(*found)]
            around = interval(ratios)
            print(f"  {key:20} first {first:10.3f}  second {second:10.3f}  ratio {statistics.median(ratios):6.3f}" +
                  (f" ({around[0]:.3f} - {around[1]:.3f})" if around else ""))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
