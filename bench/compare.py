#!/usr/bin/env python3
"""Penstock and Debian's Postfix on the same work, side by side in one run, both tuned for throughput, both syncing.

    bench/compare.py [--build DIR] [--only WORKLOAD,…] [--peers penstock,postfix] [--rounds N] [--json FILE]

WORKLOAD   relay20, relay100   4 KiB messages over 20 or 100 client connections to a sink (4,000 messages)
           large               10 MiB messages, 4 clients (40 messages)
           idle                10,000 idle sessions: memory, and how soon a further client is served
           rtt-chunking        100 messages over one connection with a 100 ms round trip, sink offers CHUNKING
           rtt-pipelining      the same, sink offers PIPELINING alone
Figures: messages per second until the last has reached the sink; CPU time of all processes of the server per message
(cgroup); anonymous memory of all its processes, peak. Rounds alternate between the peers. Needs root. Loopback only.
"""
import argparse
import glob
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(TOP, "tests", "integration"))
import peers  # noqa: E402

POSTFIX_TUNED = """
default_process_limit = 200
default_destination_concurrency_limit = {concurrency}
initial_destination_concurrency = {initial}
qmgr_message_active_limit = 40000
qmgr_message_recipient_limit = 40000
in_flow_delay = 0s
smtpd_peername_lookup = no
smtpd_client_connection_count_limit = 0
smtpd_client_connection_rate_limit = 0
local_header_rewrite_clients =
smtp_connection_cache_on_demand = yes
smtp_connection_cache_destinations = [127.0.0.1]
smtpd_tls_security_level = none
smtp_tls_security_level = none
hash_queue_names = deferred, defer
"""
PENSTOCK = """
myhostname = bench.example
mydestination =
mynetworks = 127.0.0.0/8
inet_protocols = ipv4
relayhost = [127.0.0.1]:{sink}
smtpd_relay_restrictions = permit_mynetworks, reject
smtpd_peername_lookup = no
smtpd_client_connection_count_limit = 0
local_header_rewrite_clients =
message_size_limit = 52428800
default_process_limit = 20000
default_destination_concurrency_limit = {concurrency}
maillog_file = {dir}/log/mail.log
"""


class Group:
    """A cgroup (v1 cpuacct) that counts the CPU time of a server, children included."""

    def __init__(self):
        self.path = f"/sys/fs/cgroup/cpuacct/penstock-bench-{os.getpid()}-{time.monotonic_ns()}"
        if not os.path.isdir("/sys/fs/cgroup/cpuacct"):
            self.path = self.path.replace("/cpuacct", "")
        os.mkdir(self.path)

    def join(self):
        with open(self.path + "/cgroup.procs", "w") as f:
            f.write(str(os.getpid()))

    def leave(self):
        with open(os.path.dirname(self.path) + "/cgroup.procs", "w") as f:
            f.write(str(os.getpid()))

    def seconds(self):
        try:
            with open(self.path + "/cpuacct.usage") as f:
                return int(f.read()) / 1e9
        except FileNotFoundError:
            with open(self.path + "/cpu.stat") as f:
                return int(re.search(r"usage_usec (\d+)", f.read()).group(1)) / 1e6

    def pids(self):
        with open(self.path + "/cgroup.procs") as f:
            return [int(x) for x in f.read().split()]

    def anonymous(self):
        total = 0
        for pid in self.pids():
            try:
                with open(f"/proc/{pid}/smaps_rollup") as f:
                    total += int(re.search(r"^Anonymous:\s+(\d+)", f.read(), re.M).group(1)) * 1024
            except (OSError, AttributeError):
                pass  # the process has just ended
        return total

    def remove(self):
        for _ in range(100):
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.05)


class Sampler(threading.Thread):
    """Peak anonymous memory of a group while a workload runs."""

    def __init__(self, group):
        super().__init__(daemon=True)
        self.group, self.peak, self.stop = group, 0, threading.Event()
        self.start()

    def run(self):
        while not self.stop.wait(0.25):
            self.peak = max(self.peak, self.group.anonymous())

    def end(self):
        self.stop.set()
        self.join()
        return self.peak


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class PenstockServer:
    name = "penstock"

    def __init__(self, build, sink, concurrency):
        self.bin = os.path.join(build, "bin")
        self.dir = tempfile.mkdtemp(prefix="pen-bench-", dir=os.environ.get("BENCH_DIR", "/var/tmp"))
        os.chmod(self.dir, 0o755)
        self.home = os.path.join(self.dir, "i")
        self.port = free_port()
        self.group = Group()
        self.group.join()
        try:
            subprocess.run([self.bin + "/penstock", "init", self.home, "--port", str(self.port)], check=True,
                           stdout=subprocess.DEVNULL)
            with open(self.home + "/etc/main.cf", "a") as f:
                f.write(PENSTOCK.format(sink=sink, dir=self.home, concurrency=concurrency))
            subprocess.run([self.bin + "/penstock", "-c", self.home + "/etc", "start"], check=True,
                           stdout=subprocess.DEVNULL)
        finally:
            self.group.leave()
        peers.wait_port(self.port)

    def flush(self):
        subprocess.run([self.bin + "/penqueue", "-c", self.home + "/etc", "-f"], check=True)

    def stop(self):
        subprocess.run([self.bin + "/penstock", "-c", self.home + "/etc", "stop"], stdout=subprocess.DEVNULL)
        self.group.remove()
        shutil.rmtree(self.dir, ignore_errors=True)


class PostfixServer:
    name = "postfix"

    def __init__(self, build, sink, concurrency):
        self.port = free_port()
        self.group = Group()
        self.peer = peers.Postfix(self.port, sink,
                                  POSTFIX_TUNED.format(concurrency=concurrency, initial=min(20, concurrency)))
        self.group.join()
        try:
            self.peer.start()
        finally:
            self.group.leave()

    def flush(self):
        self.peer.flush()

    def stop(self):
        self.peer.stop()
        self.group.remove()


class Sink:
    """bench/pensink: counts what arrives; its last line is JSON."""

    def __init__(self, build, *options, port=0):
        self.out = tempfile.TemporaryFile("w+")
        self.port = port or free_port()
        self.process = subprocess.Popen([os.path.join(build, "bench/pensink"), "--port", str(self.port), "--count-file",
                                         "/dev/stdout", *options], stdout=self.out, stdin=subprocess.DEVNULL)
        peers.wait_port(self.port)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def main():
    sys.exit("not assembled yet")


if __name__ == "__main__":
    main()
