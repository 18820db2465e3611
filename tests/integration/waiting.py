"""Bounded waits for events elsewhere."""
import fcntl
import os
import random
import socket
import tempfile
import time

_slower = 1  # a sanitizer build takes this many times as long


def slow_down(factor):
    """Multiplies every bound of eventually()."""
    global _slower
    _slower = factor


def eventually(check, what, seconds=30.0):
    """Calls check() until it returns something true, and returns that. Fails with `what` after so many seconds."""
    seconds *= _slower
    end = time.monotonic() + seconds
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"after {seconds:g} s still not: {what() if callable(what) else what}")
        time.sleep(0.02)


class _Ports:
    """The ports given to this process: each stays its own until the process ends, even if nobody listens there,
    because tests run side by side and reopen ports. A port is a locked byte of one file."""

    def __init__(self):
        self.mine = set()
        path = os.path.join(tempfile.gettempdir(), f"pen-test-ports-{os.getuid()}")
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def take(self, port):
        """False: another process has the port, or this one already."""
        if port in self.mine:
            return False
        try:
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError:
            return False
        self.mine.add(port)
        return True


_ports = _Ports()


def free_port(kind=socket.SOCK_STREAM):
    """Returns a loopback port that nobody uses now, that no other test gets before this process ends, and that the
    kernel assigns to no connection."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        first = int(file.read().split()[0])
    low, high = (10000, first) if first > 12000 else (first, 65536)
    for _ in range(1000):
        port = random.randrange(low, high)
        with socket.socket(socket.AF_INET, kind) as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        if _ports.take(port):
            return port
    raise AssertionError("no port is free")


def answers(port, host="127.0.0.1"):
    """Whether something accepts connections there."""
    try:
        socket.create_connection((host, port), timeout=2).close()
        return True
    except OSError:
        return False
