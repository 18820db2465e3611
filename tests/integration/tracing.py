"""pentrace beside an instance: what it prints, line by line.

Use:     with Trace(mx, "in", "--client", "127.0.0.1") as trace:     follows from here on
             trace.wait(r"< QUIT")     a line that fits, or what came instead
             trace.lines
"""
import os
import re
import subprocess
import threading

from instance import BIN
from suspended import resume, suspend
from waiting import eventually


class Trace:
    def __init__(self, mx, *words, services=1):
        self.process = subprocess.Popen([os.path.join(BIN, "pentrace"), "-c", mx.etc, *words], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, errors="replace")
        self.lines, self.notes = [], []
        self.threads = [threading.Thread(target=self._read, args=(stream, into), daemon=True)
                        for stream, into in ((self.process.stdout, self.lines), (self.process.stderr, self.notes))]
        for thread in self.threads:
            thread.start()
        self.follows(services)

    def _read(self, stream, into):
        with stream:
            for line in stream:
                into.append(line.rstrip("\n"))

    def follows(self, services=1):
        """Waits until so many services have said that they are followed, in all."""
        eventually(lambda: sum(n.endswith(": following") for n in self.notes) >= services,
                   lambda: f"{services} services are followed: {self.notes}")

    def text(self):
        return "\n".join(self.lines)

    def wait(self, pattern):
        return eventually(lambda: re.search(pattern, self.text(), re.M), lambda: f"{pattern} in\n{self.text()}")

    def dialogue(self):
        """The lines without time, service and session."""
        return [" ".join(line.split(" ")[4:]) for line in self.lines]

    def pause(self):
        suspend(self.process.pid)

    def go_on(self):
        resume(self.process.pid)

    def ends(self):
        """Waits for its own end. Returns the exit status."""
        status = self.process.wait(60)
        for thread in self.threads:
            thread.join(60)
        return status

    def close(self):
        if self.process.poll() is None:
            self.process.kill()  # a process that is stopped ends too
        self.ends()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
