#!/usr/bin/env python3
"""What filters, policy servers and DNS lists cost the mail system itself, beside Postfix with the same ones:
  bench/filters.py [--only plain,null,opendkim,signing,policy,lists,latency] [--rounds 1]
plain      nothing is asked
null       a filter (milter) that answers every step and lets everything pass
opendkim   OpenDKIM signs (Debian's, unpacked by ./check)
signing    OpenDKIM signs for Postfix, Penstock signs itself with OpenDKIM's file of options; here OpenDKIM's processor
           time counts
policy     a policy server is asked about each recipient
lists      each message comes from another client, which five DNS lists are asked about (rbldnsd behind unbound)
latency    how long the answer to a message takes, with none, one and five filters that take 50 ms each
Processor time is that of the mail system alone, without filters, servers, clients and sink; the clients are penload's,
for `lists` of this program. Rounds alternate between the two. Needs root. Loopback only.
"""
import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import compare
from compare import HERE, TOP, PenstockServer, PostfixServer, Sink, free_port, relay

sys.path.insert(0, os.path.join(TOP, "tests", "integration"))
import dkim_peers  # noqa: E402
import dns_lists  # noqa: E402
import peers  # noqa: E402

LISTS = {f"list{n}.example": ("ip4set", ["192.0.2.1 :127.0.0.2:listed"]) for n in range(5)}
MESSAGE = b"From: <s@load.example>\r\nSubject: x\r\n\r\n" + (b"x" * 70 + b"\r\n") * 55 + b".\r\n"


class Helper:
    """A program beside the mail system, ready when it says so or listens."""

    def __init__(self, *command, port=None, env=None):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
        if port:
            peers.wait_port(port)
        elif self.process.stdout.readline() != b"ready\n":
            raise RuntimeError(f"{command[1]} did not start")

    def stop(self):
        self.process.kill()
        self.process.wait()


class Filters:
    def __init__(self, count, delay=0):
        self.ports = [free_port() for _ in range(count)]
        self.helpers = [Helper(sys.executable, os.path.join(HERE, "nullmilter.py"), str(port), str(delay))
                        for port in self.ports]

    def settings(self):
        names = ", ".join(f"inet:127.0.0.1:{port}" for port in self.ports)
        return f"\nmilter_default_action = tempfail\nsmtpd_milters = {names}\n"

    def stop(self):
        for helper in self.helpers:
            helper.stop()


class OpenDkim:
    def __init__(self):
        dkim_peers.unpack()
        self.dir = tempfile.TemporaryDirectory(prefix="pen-opendkim-")
        os.chmod(self.dir.name, 0o755)
        key, self.conf = (os.path.join(self.dir.name, name) for name in ("key", "conf"))
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, stderr=subprocess.DEVNULL)
        os.chmod(key, 0o600)
        self.port = free_port()
        with open(self.conf, "w") as out:
            out.write(f"Socket inet:{self.port}@127.0.0.1\nMode s\nDomain load.example\nSelector s\n"
                      f"KeyFile {key}\nSyslog no\nRequireSafeKeys no\n"
                      f"Canonicalization relaxed/simple\nPidFile {self.dir.name}/pid\nInternalHosts 127.0.0.0/8\n")
        self.helper = Helper(os.path.join(dkim_peers.ROOT, "usr/sbin/opendkim"), "-f", "-x", self.conf, port=self.port,
                             env=dkim_peers.OPENDKIM)

    def settings(self):
        return f"\nsmtpd_milters = inet:127.0.0.1:{self.port}\nmilter_default_action = tempfail\n"

    def seconds(self):
        with open(f"/proc/{self.helper.process.pid}/stat") as stat:
            user, system = stat.read().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.helper.stop()
        self.dir.cleanup()


def signing(build, server_type, messages=2000):
    filters = OpenDkim()
    try:
        ours = server_type is PenstockServer
        before = filters.seconds()
        figures = relay(build, server_type, 20, messages, 4096, further=(
            f"\ndkim_signing = yes\ndkim_opendkim_conf = {filters.conf}\n" if ours else filters.settings()))
        figures["cpu ms/message"] += 0 if ours else (filters.seconds() - before) * 1000 / messages
        if figures["bytes/message"] < 4096 + 400:
            raise RuntimeError(f"{server_type.name}: {figures['bytes/message']} bytes arrived for each: not signed")
        return figures
    finally:
        filters.stop()


def with_filter(build, server_type, make, messages):
    """Beside it stands what a message costs that nothing is asked about and that comes as fast as the filter lets them:
    at a low rate fewer messages share a sync and a turn of the loop."""
    filters = make()
    try:
        figures = relay(build, server_type, 20, messages, 4096, further=filters.settings())
    finally:
        filters.stop()
    plain = relay(build, server_type, 20, messages, 4096, rate=figures["accepted/s"])
    return figures | {"the same unasked": plain["cpu ms/message"]}


def speak(port, address):
    """One message from that address; returns the seconds from the final dot to its answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(address, 0)) as client:
        lines = client.makefile("rb")

        def say(text, code):
            if text:
                client.sendall(text)
            while True:
                line = lines.readline()
                if not line.startswith(code):
                    raise RuntimeError(f"{address}: {line}")
                if line[3:4] == b" ":
                    return
        say(b"", b"220")
        for text, code in ((b"EHLO load.example\r\n", b"250"), (b"MAIL FROM:<s@load.example>\r\n", b"250"),
                           (b"RCPT TO:<u@load.example>\r\n", b"250"), (b"DATA\r\n", b"354")):
            say(text, code)
        began = time.monotonic()
        say(MESSAGE, b"250")
        took = time.monotonic() - began
        say(b"QUIT\r\n", b"221")
        return took


def strangers(port, messages, at_once=20):
    """Each message from an address of its own."""
    todo = iter(range(messages))
    lock, failed = threading.Lock(), []

    def run():
        while not failed:
            with lock:
                n = next(todo, None)
            if n is None:
                return
            try:
                speak(port, f"127.{n >> 16 & 31 | 32}.{n >> 8 & 255}.{n & 255}")
            except Exception as error:
                failed.append(error)
    threads = [threading.Thread(target=run) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def lists(build, server_type):
    unasked = from_strangers(build, server_type, {})
    return from_strangers(build, server_type, LISTS) | {"the same unasked": unasked["cpu ms/message"]}


def from_strangers(build, server_type, asked, messages=2000):
    with dns_lists.DnsLists(LISTS) as dns:
        further = "\nsmtpd_recipient_restrictions = " + ", ".join(f"reject_rbl_client {name}" for name in asked)
        sink = Sink(build)
        if server_type is PenstockServer:
            server = server_type(build, sink.port, 50, further + "\n" + "".join(
                f"{name} = {value}\n" for name, value in dns.settings().items()))
        else:
            server = server_type(build, sink.port, 50, further + "\n", resolver=dns.address)
        try:
            strangers(server.port, 40)
            sink.wait(40, 60)
            cpu, began = server.group.seconds(), time.monotonic()
            strangers(server.port, messages)
            took = sink.wait(40 + messages, 300) - began
            return {"relayed/s": messages / took, "cpu ms/message": (server.group.seconds() - cpu) * 1000 / messages}
        finally:
            server.stop()
            sink.stop()


def latency(build, server_type, delay=50, messages=20):
    found = {}
    for count in (0, 1, 5):
        filters = Filters(count, delay)
        sink = Sink(build)
        server = server_type(build, sink.port, 50, filters.settings() if count else "")
        try:
            speak(server.port, "127.0.0.1")
            found[count] = statistics.median(speak(server.port, "127.0.0.1") for _ in range(messages)) * 1000
        finally:
            server.stop()
            sink.stop()
            filters.stop()
    return {"ms, none": found[0], "ms, one of 50": found[1], "ms, five of 50": found[5],
            "added by five / 50 ms": (found[5] - found[0]) / delay}


WORKLOADS = {
    "plain": lambda b, s: relay(b, s, 20, 2000, 4096),
    "null": lambda b, s: with_filter(b, s, lambda: Filters(1), 2000),
    "opendkim": lambda b, s: with_filter(b, s, OpenDkim, 1000),
    "signing": signing,
    "policy": compare.asked,
    "lists": lists,
    "latency": latency,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(TOP, "build", "release"))
    parser.add_argument("--only", default=",".join(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    if reason := peers.unavailable() or dns_lists.unavailable():
        sys.exit(f"filters: {reason}")
    for workload in args.only.split(","):
        runs = {server: [] for server in (PenstockServer, PostfixServer)}
        for _ in range(args.rounds):
            for server, found in runs.items():
                found.append(WORKLOADS[workload](args.build, server))
        print(f"\n{workload}: median of {args.rounds}")
        for key, value in runs[PenstockServer][0].items():
            if isinstance(value, dict):
                continue
            ours, theirs = (statistics.median(r[key] for r in found) for found in runs.values())
            print(f"  {key:24} penstock {ours:10.2f}  postfix {theirs:10.2f}  factor {ours / theirs:7.2f}" if theirs
                  else f"  {key:24} penstock {ours:10.2f}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
