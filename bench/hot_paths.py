#!/usr/bin/env python3
"""What a message costs on the hot paths, in instructions, beside what hot_paths.txt has for it: so that no change makes
mail slower unseen.

    bench/hot_paths.py [--build DIR] [--only PATH,…] [--profiles DIR]
    bench/hot_paths.py --update

PATH       receive   smtpd takes a message of 4 KiB and hands it in
           queue     qmgr keeps it, schedules it, and forgets it when it is delivered
           send      smtp delivers it to a relay
           check     smtpd takes it, with tables of patterns for header and body

A path fails where it takes more than 3 % above its figure, and also where it takes 3 % less: then the figure is old,
and --update writes the file anew. Instructions are those of the program itself, as callgrind counts them; the
kernel's are not in it. The figure is the median of ROUNDS lives, of twice as many where these fail: a loop that
another thread wakes spins until that thread has left the call, which is up to 7 % of what it does. With --profiles
DIR the profiles stay there, for callgrind_annotate. The figures hold for the compiler that the file names; with
another one nothing is compared, and that is said. Needs root and valgrind. Loopback only.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys

import compare
from compare import PenstockServer, Sink
from counted import Counted

FIGURES = os.path.join(compare.HERE, "hot_paths.txt")
FEW, MORE = 300, 1300  # messages in a life
ROUNDS = 5
CONNECTIONS = 1  # how many of several connections have something at the same time is the machine's choice
BOUND = 0.03
TOOLS = ("instructions",)
# Path: the program, and what is in main.cf besides.
PATHS = {
    "receive": ("smtpd", ""),
    "queue": ("qmgr", ""),
    "send": ("smtp", ""),
    "check": ("smtpd", "header_checks = pcre:{dir}/patterns\nbody_checks = pcre:{dir}/patterns\n"),
}
PATTERNS = "".join(f"/^(Subject|From): .*word{n}\\b/ REJECT\n" for n in range(20))
HEAD = """# What a message of 4 KiB costs, measured by hot_paths.py --update: the instructions of the program.
"""


class Path(Counted):
    """An instance with the program of a path under a tool."""

    def __init__(self, build, sink, path, tool):
        program, self.settings = PATHS[path]
        self.count(build, program, tool)
        super().__init__(build, sink, 50)

    def configure(self):
        super().configure()
        with open(self.dir + "/patterns", "w") as f:
            f.write(PATTERNS)
        os.chmod(self.dir + "/patterns", 0o644)
        with open(self.home + "/etc/main.cf", "a") as f:
            f.write(self.settings.format(dir=self.dir))


def life(args, path, tool, messages):
    sink, server = Sink(args.build), None
    try:
        server = Path(args.build, sink.port, path, tool)
        compare.load(args.build, server.port, "-c", CONNECTIONS, "-n", messages, "-s", 4096)
        sink.wait(messages, 300)
        totals, profile = server.counts()
        if args.profiles:
            shutil.copy(profile, os.path.join(args.profiles, f"{path}-{tool}-{messages}"))
        return totals[tool]
    finally:
        if server:
            server.stop()
        sink.stop()


def measured(args, path, tool):
    """What the tool counts for a message, ROUNDS times."""
    return [(life(args, path, tool, MORE) - life(args, path, tool, FEW)) / (MORE - FEW) for _ in range(ROUNDS)]


def compiler(build):
    with open(os.path.join(build, "CMakeCache.txt")) as f:
        name = next(line.split("=", 1)[1].strip() for line in f if line.startswith("CMAKE_CXX_COMPILER:"))
    return subprocess.run([name, "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]


def read_figures():
    """The compiler, and by path what each tool gave."""
    made, figures = "", {}
    with open(FIGURES) as f:
        for line in f:
            if line.startswith("compiler "):
                made = line.split(" ", 1)[1].strip()
            elif line.strip() and not line.startswith("#"):
                path, *values = line.split()
                figures[path] = dict(zip(TOOLS, map(float, values)))
    return made, figures


def write_figures(made, figures):
    with open(FIGURES, "w") as f:
        f.write(f"{HEAD}compiler {made}\n\n# {'path':8} {'instructions':>12}\n")
        for path, of in figures.items():
            f.write(f"{path:10} {of['instructions']:12.0f}\n")


def verdict(now, allowed):
    ratio = now / allowed
    return ratio, "too much" if ratio > 1 + BOUND else "less than its figure: --update" if ratio < 1 - BOUND else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(compare.TOP, "build", "release"))
    parser.add_argument("--only", default=",".join(PATHS), help="paths, separated by commas")
    parser.add_argument("--update", action="store_true", help="write the figures anew")
    parser.add_argument("--profiles", metavar="DIR")
    args = parser.parse_args()
    paths = args.only.split(",")
    if unknown := [path for path in paths if path not in PATHS]:
        parser.error(f"no such path: {', '.join(unknown)}")
    if not shutil.which("valgrind"):
        sys.exit("hot_paths: valgrind is not installed")
    if reason := compare.peers.unavailable():
        sys.exit(f"hot_paths: {reason}")
    here = compiler(args.build)
    made, figures = read_figures() if os.path.exists(FIGURES) else ("", {})
    if args.update:
        figures = {path: of for path, of in figures.items() if made == here and path in PATHS}
    elif not figures:
        sys.exit("hot_paths: hot_paths.txt has no figures: --update")
    elif made != here:
        print(f"hot_paths: the figures are of {made}, the build is of {here}: nothing is compared")
        return
    wrong = []
    for path in paths:
        for tool in TOOLS:
            values = measured(args, path, tool)
            if args.update:
                figures.setdefault(path, {})[tool] = statistics.median(values)
            of = figures.get(path)
            ratio, word = verdict(statistics.median(values), of[tool]) if of else (1, "without a figure: --update")
            if of and word:
                values += measured(args, path, tool)
                ratio, word = verdict(statistics.median(values), of[tool])
            value, spread = statistics.median(values), f"({min(values):.0f} - {max(values):.0f})"
            print(f"  {path:8} {PATHS[path][0]:6} {tool:12} {value:10.1f}  {spread:20}  ratio {ratio:6.3f}  {word}"
                  .rstrip())
            wrong += [path] if word else []
        sys.stdout.flush()
    if args.update:
        write_figures(here, {path: figures[path] for path in PATHS if path in figures})
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
