#!/usr/bin/env python3
"""Zombies at a port where clients are tested before they are served, beside Postfix's postscreen:
  bench/triage.py [--zombies 10000] [--rounds 1]
alone      a client that is known, nothing else: milliseconds from its connection to the answer to its message
waiting    all zombies at once wait for a greeting that does not come; memory of the mail system for each of them, and
           the known client meanwhile
flood      as many that talk too early and are dropped, 500 at once: how many a second, processor time of the mail
           system for each; and the known client while 2,000 a second come
Every zombie has an address of its own, 127.a.b.c; nothing is asked of DNS lists. Demands of the project: a zombie costs
at most 100 us of processor time, and 10,000 at once do not slow a good client. Needs root. Loopback only.
"""
import argparse
import os
import resource
import select
import socket
import statistics
import sys
import threading
import time

from compare import TOP, PenstockServer, PostfixServer, Sink
from filters import speak

sys.path.insert(0, os.path.join(TOP, "tests", "integration"))
import peers  # noqa: E402

RATE = 2000  # what both can serve
SETTINGS = """
postscreen_access_list = permit_mynetworks
postscreen_greet_wait = 100s
postscreen_greet_action = drop
postscreen_dnsbl_sites =
postscreen_cache_map =
postscreen_pre_queue_limit = 30000
postscreen_client_connection_count_limit = 0
smtpd_client_connection_count_limit = 0
"""
NETWORKS = "mynetworks = 127.0.0.0/24\n"  # all but zombies


def lines(port):
    return f"127.0.0.1:{port} inet n - n - 1 postscreen\nsmtpd pass - - n - 200 smtpd"


def address(n):
    return f"127.{1 + (n >> 16)}.{n >> 8 & 255}.{n & 255}"


def penstock(build, sink):
    server = PenstockServer(build, sink, 50, SETTINGS + NETWORKS)
    file = os.path.join(server.home, "etc/master.cf")
    with open(file) as text:
        services = [line for line in text.read().splitlines() if not line.split()[:2] == [str(server.port), "inet"]]
    with open(file, "w") as out:
        out.write("\n".join(services) + "\n" + lines(server.port) + "\n")
    server.reload()
    return server


def postfix(build, sink):
    return PostfixServer(build, sink, 50, SETTINGS + NETWORKS, services=lines)


class Known(threading.Thread):
    """A client that sends messages, one after the other, until it is stopped."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.waits, self.over = port, [], threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.02):
            began = time.monotonic()
            speak(self.port, "127.0.0.1")
            self.waits.append((time.monotonic() - began) * 1000)

    def end(self, name):
        self.over.set()
        self.join()
        waits = sorted(self.waits)
        return {f"known client, {name}, ms": waits[len(waits) // 2],
                f"the same, 99 %, {name}": waits[-1 - len(waits) // 100]}


def connected(port, n):
    zombie = socket.socket()
    zombie.setblocking(False)
    zombie.bind((address(n), 0))
    try:
        zombie.connect(("127.0.0.1", port))
    except BlockingIOError:
        pass
    return zombie


def waiting(server, count):
    """All of them: each has its teaser before the next batch comes."""
    zombies, poll = [], select.epoll()
    while len(zombies) < count:
        batch = [connected(server.port, len(zombies) + n) for n in range(min(200, count - len(zombies)))]
        left = {zombie.fileno(): zombie for zombie in batch}
        for fd in left:
            poll.register(fd, select.EPOLLIN)
        while left:
            for fd, _ in poll.poll(30):
                poll.unregister(fd)
                if not left.pop(fd).recv(200).startswith(b"220-"):
                    raise RuntimeError("a zombie was not teased")
        zombies += batch
    return zombies


def flood(port, count, at_once=500, rate=0):
    """rate: of connections a second at most; 0: as fast as they are served."""
    began, poll, left, begun, ended = time.monotonic(), select.epoll(), {}, 0, 0
    while ended < count:
        while begun < count and len(left) < at_once:
            if rate and begun > (time.monotonic() - began) * rate:
                break
            zombie = connected(port, begun)
            left[zombie.fileno()] = zombie
            poll.register(zombie, select.EPOLLOUT)
            begun += 1
        for fd, event in poll.poll(0.001 if rate else 30):
            zombie = left[fd]
            try:
                if event & select.EPOLLOUT:
                    zombie.send(b"EHLO zombie\r\n")
                    poll.modify(fd, select.EPOLLIN)
                elif not zombie.recv(1000):
                    raise ConnectionError
            except ConnectionError:
                del left[fd]
                zombie.close()
                ended += 1
    return count / (time.monotonic() - began)


def measure(build, make, count):
    sink = Sink(build)
    server = make(build, sink.port)
    try:
        peers.wait_port(server.port)
        for _ in range(20):
            speak(server.port, "127.0.0.1")
        known = Known(server.port)
        time.sleep(5)
        figures = known.end("alone")
        before, cpu = server.group.anonymous(), server.group.seconds()
        zombies = waiting(server, count)
        figures["KiB for each that waits"] = (server.group.anonymous() - before) / 1024 / count
        figures["us CPU until it waits"] = (server.group.seconds() - cpu) * 1e6 / count
        known = Known(server.port)
        time.sleep(5)
        figures |= known.end("all wait")
        for zombie in zombies:
            zombie.close()
        time.sleep(1)
        cpu = server.group.seconds()
        figures["zombies/s"] = flood(server.port, count)
        figures["us CPU for each zombie"] = (server.group.seconds() - cpu) * 1e6 / count
        known = Known(server.port)
        flood(server.port, count, rate=RATE)
        figures |= known.end("flood")
        return figures
    finally:
        server.stop()
        sink.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(TOP, "build", "release"))
    parser.add_argument("--zombies", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    if reason := peers.unavailable():
        sys.exit(f"triage: {reason}")
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most < args.zombies + 1000:
        sys.exit(f"triage: {most} files may be open, that is too few")
    found = {name: [] for name in ("penstock", "postfix")}
    for _ in range(args.rounds):
        for name, make in (("penstock", penstock), ("postfix", postfix)):
            found[name].append(measure(args.build, make, args.zombies))
    for key in found["penstock"][0]:
        ours, theirs = (statistics.median(r[key] for r in found[name]) for name in ("penstock", "postfix"))
        print(f"{key:28} penstock {ours:10.2f}  postfix {theirs:10.2f}")


if __name__ == "__main__":
    main()
