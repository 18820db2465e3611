"""penload and pensink of bench/: the load generator, and the sink that keeps a ledger."""
import json
import os
import subprocess
import tempfile

from instance import BIN, TOP

BENCH = os.path.join(os.path.dirname(BIN), "bench")


def missing_tools():
    gone = [t for t in ("penload", "pensink") if not os.path.exists(os.path.join(BENCH, t))]
    return "not built: " + ", ".join(gone) if gone else None


class Sink:
    """A pensink on a port of its own; `options` are its arguments."""

    def __init__(self, *options):
        self.folder = tempfile.TemporaryDirectory(prefix="pen-sink-")
        self.ledger = os.path.join(self.folder.name, "took")
        self.process = subprocess.Popen([os.path.join(BENCH, "pensink"), "--port", "0", "--ledger", self.ledger,
                                         *options], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])

    def stop(self):
        """Ends it; returns its counts."""
        self.process.terminate()
        return json.loads(self.process.communicate(timeout=30)[0].splitlines()[-1])

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.stop()
        self.folder.cleanup()


class Load:
    """A penload that runs at once; `options` are its arguments."""

    def __init__(self, port, *options):
        self.folder = tempfile.TemporaryDirectory(prefix="pen-load-")
        self.ledger = os.path.join(self.folder.name, "sent")
        self.process = subprocess.Popen([os.path.join(BENCH, "penload"), "--port", str(port), "--ledger", self.ledger,
                                         *options], stdout=subprocess.PIPE, text=True)

    def running(self):
        return self.process.poll() is None

    def wait(self, seconds=120):
        """Waits for its end; returns (exit status, figures)."""
        out = self.process.communicate(timeout=seconds)[0]
        return self.process.returncode, json.loads(out)

    def stop(self, seconds=120):
        """Lets it finish its messages and begin no new ones; returns (exit status, figures)."""
        self.process.terminate()
        return self.wait(seconds)

    def close(self):
        if self.running():
            self.process.kill()
            self.process.communicate()
        self.folder.cleanup()

    __enter__ = lambda self: self

    def __exit__(self, *exc):
        self.close()


def compare(load, sink):
    """Returns (whether the ledgers agree, the comparison)."""
    done = subprocess.run([os.path.join(TOP, "bench", "ledger-compare"), load.ledger, sink.ledger],
                          capture_output=True, text=True)
    return done.returncode == 0, json.loads(done.stdout)
