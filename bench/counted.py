"""One program of an instance under a tool that counts what it does: for observed.py and hot_paths.py.

Callgrind (valgrind) counts the instructions of the program's own code: nearly the same each time, whatever else the
machine does. What a message costs is the difference between a life with few and one with more messages: what start and
end cost falls out.
"""
import os
import re
import signal
import subprocess
import sys
import time

from compare import PenstockServer

# callgrind's names: instructions; misses when code is fetched, and data read or written
EVENTS = {"instructions": ("Ir",), "code misses": ("I1mr",), "data misses": ("D1mr", "D1mw")}
CALLGRIND = "valgrind -q --tool=callgrind {caches} --callgrind-out-file={out}/%p"


class Counted(PenstockServer):
    """An instance with one program under a tool. Who derives says which, before the instance is made."""

    def count(self, build, program, tool):
        """`tool`: "instructions", or "caches", with misses of the first caches as well."""
        self.build, self.program, self.tool = os.path.abspath(build), program, tool

    def configure(self):
        """A folder of programs in which this one is a script that starts the tool; nothing is confined."""
        super().configure()
        programs = os.path.join(self.build, "libexec", "penstock")
        own, self.out = os.path.join(self.dir, "programs"), os.path.join(self.dir, "counts")
        os.makedirs(self.out)
        os.chmod(self.out, 0o777)
        os.makedirs(own)
        for name in os.listdir(programs):
            os.symlink(os.path.join(programs, name), os.path.join(own, name))
        os.remove(os.path.join(own, self.program))
        # valgrind cannot read the debugging information of clang 19; the names of functions stay
        os.makedirs(os.path.join(own, "plain"))
        plain = os.path.join(own, "plain", self.program)
        subprocess.run(["objcopy", "--strip-debug", os.path.join(programs, self.program), plain], check=True)
        tool = CALLGRIND.format(out=self.out, caches="--cache-sim=yes" if self.tool == "caches" else "")
        with open(os.path.join(own, self.program), "w", opener=lambda path, flags: os.open(path, flags, 0o755)) as f:
            f.write(f"#!/bin/sh\nexec {tool} {plain} \"$@\"\n")
        with open(self.home + "/etc/main.cf", "a") as f:
            f.write(f"daemon_directory = {own}\nconfine_system_calls = no\nconfine_files = no\nconfine_limits = no\n")

    def pid(self):
        """The oldest process of the program: what it forks has its command line too."""
        for pid in sorted(self.group.pids()):
            with open(f"/proc/{pid}/cmdline") as f:
                words = f.read().split("\0")
            if "valgrind" in words[0] and any(word.endswith("/" + self.program) for word in words):
                return pid
        sys.exit(f"counted: {self.program} does not run under its tool")

    def counts(self):
        """Ends the program. Returns what it did in its life, by name, and the file that says it in full."""
        pid = self.pid()
        profile = os.path.join(self.out, str(pid))
        os.chmod(profile, 0o666)  # it was made before the program had its account
        os.kill(pid, signal.SIGTERM)
        while os.path.exists(f"/proc/{pid}") or os.path.getsize(profile) == 0:
            time.sleep(0.1)
        with open(profile) as f:
            text = f.read()
        names = re.search(r"^events: (.*)", text, re.M)[1].split()
        totals = dict(zip(names, map(int, re.search(r"^totals: (.*)", text, re.M)[1].split())))
        return {name: sum(totals[part] for part in parts) for name, parts in EVENTS.items()
                if all(part in totals for part in parts)}, profile
