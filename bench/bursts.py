#!/usr/bin/env python3
"""Measures bursts to a route of several hosts, alone and beside steady mail, over a path with a real round-trip time,
beside Postfix.

    bench/bursts.py beside|alone [--build DIR] [--peers penstock,postfix] [--rows N,…]

beside  mail comes at a steady rate for 20 s; then 300 or 1,000 messages more: how many connections are opened for them
        and how long they take. The hosts take 71 ms at the end of data; 20 connections to each, 1,000 in all.
alone   20, 60, 300 and 3,000 messages at once to one host that takes 0, 10 or 100 ms for each reply, over a path of 0
        or 100 ms: first a host that nobody knows, then the same again when all connections are closed. Connections,
        messages of each, seconds until the last has arrived.

The hosts are in a network namespace of their own. The path between is two tunnels and a process that hands each packet
on when its time has come, so that connecting and TLS cost their round trips. Needs root and ip of Debian's iproute2.
docs/scheduler.md has the figures of a run.
"""
import argparse
import collections
import contextlib
import fcntl
import multiprocessing
import os
import select
import struct
import subprocess
import sys
import tempfile
import time

import compare
from compare import TOP, Certificate, PenstockServer, PostfixServer, Sink, load
from dns import Dns

sys.path.insert(0, os.path.join(TOP, "tests", "integration"))
import own_network  # noqa: E402

# hosts, round-trip time in ms, TLS, steady messages per second, messages of the burst
BESIDE = [(1, 94, False, 20, 300), (2, 94, False, 0, 300), (2, 94, False, 5, 300), (2, 94, False, 20, 300),
          (2, 30, True, 20, 300), (1, 30, True, 40, 1000), (5, 30, True, 40, 1000), (1, 94, False, 40, 1000),
          (5, 94, False, 40, 1000)]
ALONE = [(n, reply, rtt) for n in (20, 60, 300, 3000) for rtt in (0, 100) for reply in (0, 10, 100)]
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454ca, 0x0001, 0x1000  # linux/if_tun.h
OURS, THEIRS = "10.77.0.1", "10.77.0.{}"


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def tunnel(name):
    """An interface of ours whose packets are read and written here."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return device


def hand_on(near, far, delay):
    """Each packet of one end to the other, delay seconds later, for ever."""
    on_the_way = {near: collections.deque(), far: collections.deque()}
    other = {near: far, far: near}
    while True:
        soonest = min((packets[0][0] for packets in on_the_way.values() if packets), default=None)
        ready, _, _ = select.select([near, far], [], [],
                                    None if soonest is None else max(0, soonest - time.monotonic()))
        for end in ready:
            with contextlib.suppress(BlockingIOError):
                for _ in range(64):
                    on_the_way[end].append((time.monotonic() + delay, os.read(end, 65536)))
        for end, packets in on_the_way.items():
            while packets and packets[0][0] <= time.monotonic():
                os.write(other[end], packets.popleft()[1])


class Path:
    """Another network, and the way there."""

    def __init__(self, hosts, rtt):
        self.addresses = [THEIRS.format(n + 2) for n in range(hosts)]
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"],
                                       stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.inside = ["nsenter", "-t", str(self.holder.pid), "--net"]
        near, far = tunnel("near"), tunnel("far")
        run("ip", "link", "set", "far", "netns", str(self.holder.pid))
        run("ip", "address", "add", OURS + "/16", "dev", "near")
        for address in self.addresses:
            run(*self.inside, "ip", "address", "add", address + "/16", "dev", "far")
        for inside, name in (([], "near"), (self.inside, "far"), (self.inside, "lo")):
            run(*inside, "ip", "link", "set", name, "up", "txqueuelen", "10000")
        self.carrier = multiprocessing.get_context("fork").Process(target=hand_on, args=(near, far, rtt / 2000),
                                                                   daemon=True)
        self.carrier.start()
        os.close(near)
        os.close(far)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.carrier.kill()  # the interfaces go with it
        self.carrier.join()
        self.holder.kill()
        self.holder.wait()


class FarSink(Sink):
    """On all addresses of the path's far end; arrivals() has the time of each message."""

    def __init__(self, build, path, *options):
        self.ledger = tempfile.NamedTemporaryFile(prefix="pen-sink-")
        self.process = subprocess.Popen(
            [*path.inside, os.path.join(build, "bench/pensink"), "--host", "0.0.0.0", "--port", "0", "--quickack",
             "--chunking", "--one-by-one", "--detail", "--ledger", self.ledger.name, *map(str, options)],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.port = int(self.process.stdout.readline().split()[1])

    def arrivals(self, prefix):
        with open(self.ledger.name) as lines:
            return [float(words[4]) for words in map(str.split, lines) if words[1].startswith(prefix + ".")]

    def last_of(self, prefix, count, seconds):
        end = time.monotonic() + seconds
        while len(arrived := self.arrivals(prefix)) < count:
            if time.monotonic() > end:
                return None
            time.sleep(0.05)
        return max(arrived)


@contextlib.contextmanager
def route(args, server_type, path, tls, *delays):
    """A server whose relay is the hosts of the path."""
    certificate = Certificate() if tls else None
    offers = ["--tls-cert", certificate.cert, "--tls-key", certificate.key] if tls else []
    sink = FarSink(args.build, path, *offers, *delays)
    settings = f"\nrelayhost = [relay.example]:{sink.port}\ninitial_destination_concurrency = 5\n"
    with Dns({("relay.example", "A"): path.addresses}) as dns:
        if server_type is PenstockServer:
            server = server_type(args.build, sink.port, 20,
                                 settings + "default_process_limit = 1000\n"
                                 f"dns_resolver_addresses = 127.0.0.1:{dns.port}\n", tls=certificate)
        else:
            server = server_type(args.build, sink.port, 20, settings + "smtp_host_lookup = native\n"
                                 "smtp_dns_support_level = disabled\n"
                                 f"smtp_connection_cache_destinations = [relay.example]:{sink.port}\n", tls=certificate,
                                 hosts="".join(f"{a} relay.example\n" for a in path.addresses))
        try:
            yield server, sink
        finally:
            server.stop()
            sink.stop()


def beside(args, server_type, hosts, rtt, tls, rate, burst):
    with Path(hosts, rtt) as path, route(args, server_type, path, tls, "--dot-delay", 71) as (server, sink):
        steady = None
        if rate:
            steady = subprocess.Popen([os.path.join(args.build, "bench/penload"), "--port", str(server.port), "-c", "4",
                                       "-n", str(rate * 600), "--rate", str(rate), "--id", "steady"],
                                      stdout=subprocess.DEVNULL)
        time.sleep(20 if rate else 1)
        before, began = sink.counts()["connections"], time.monotonic()
        load(args.build, server.port, "-c", 20, "-n", burst, "-s", 4096, "--id", "burst")
        last = sink.last_of("burst", burst, 400)
        opened = sink.counts()["connections"] - before
        if steady:
            steady.terminate()
            steady.wait()
        done = f"{last - began:8.1f}" if last else "over 400"
        print(f"{server_type.name:9} {hosts:5} {rtt:4} ms {'TLS' if tls else '':3} {rate:5}/s {burst:6} {opened:7} "
              f"{done} s", flush=True)


def alone(args, server_type, count, reply, rtt):
    with Path(1, rtt) as path, route(args, server_type, path, False, "--delay", reply) as (server, sink):
        for known in (False, True) if server_type is PenstockServer else (False,):
            while sink.counts().get("live", 0) > 0:  # its connections idle for two seconds
                time.sleep(0.1)
            before, prefix = sink.counts()["connections"], "known" if known else "new"
            began = time.monotonic()
            load(args.build, server.port, "-c", 20, "-n", count, "-s", 4096, "--id", prefix)
            last = sink.last_of(prefix, count, 400)
            opened = sink.counts()["connections"] - before
            print(f"{server_type.name:9} {count:5} {reply:5} ms {rtt:4} ms {prefix:6} {opened:4} {count / opened:7.1f} "
                  f"{last - began:7.2f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("beside", "alone"))
    parser.add_argument("--build", default=os.path.join(TOP, "build", "release"))
    parser.add_argument("--peers", default="penstock,postfix")
    parser.add_argument("--rows", help="their numbers, from 0 on")
    args = parser.parse_args()
    own_network.enter()
    rows = {"beside": BESIDE, "alone": ALONE}[args.what]
    print("server    hosts    RTT     beside  burst  opened  done after" if args.what == "beside" else
          "server    burst    reply     RTT host   connections, messages of each, seconds")
    for number in map(int, args.rows.split(",")) if args.rows else range(len(rows)):
        for name in args.peers.split(","):
            {"beside": beside, "alone": alone}[args.what](args, compare.SERVERS[name], *rows[number])
    return 0


if __name__ == "__main__":
    sys.exit(main())
