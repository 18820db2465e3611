#!/usr/bin/env python3
"""Runs the same work on Penstock and on Debian's Postfix, side by side, both tuned for throughput, both syncing.

    bench/compare.py [--build DIR] [--only WORKLOAD,…] [--peers penstock,postfix] [--rounds N] [--json FILE]

WORKLOAD   relay20, relay100   4 KiB messages over 20 or 100 client connections to a sink (4,000 messages)
           relay-long          the same, 20 connections, 40,000 messages: the queue log goes round many times
           domains20, domains100   4,000 messages to 1,000 domains that a transport table spreads over 50 hosts
           tls20, tls100       relay20 and relay100 with STARTTLS on both sides, connections reused on both
           calls20             relay20 with a connection for each message
           tls-calls20         tls20 with a connection and a full handshake for each message
           signed20            relay20 where each message is signed by DKIM with RSA 2048 (Penstock alone)
           classes20           the same with a session class of 12 for clients and outgoing mail together: eight of
                               the 20 clients are refused at any time, and come again after 50 ms (Penstock alone)
           events20            relay20 with event_log_file (Penstock alone), to be compared with relay20
           policy20            relay20 where a trivial policy server (policyd.py) is asked about each recipient
           large               10 MiB messages, 4 clients (40 messages)
           checks-pcre, checks-regexp   1,000 messages of 4 KiB under 200 header_checks and 200 body_checks of that
                               type, none of which matches, and how long a command of another session waits meanwhile
           idle                10,000 idle sessions: memory, and how soon a further client is served
           rtt-chunking        messages over one connection with a 100 ms round trip, sink offers CHUNKING
                               (3,000; Postfix 100)
           rtt-pipelining      the same, 100 messages, sink offers PIPELINING alone
           rtt-default         messages over a 100 ms round trip at the default concurrency limit (20), CHUNKING offered
           scanner20, scanner50   1,000 messages to a relay that takes 0.3 s at end of data, 20 or 50 connections
           burst               80 messages to a route of 4 equal hosts, each of which takes 1 s at end of data
           burst-equal         the same with 20 connections in all for either (5 to each host)
           slow                200 messages to a relay that takes 0.3 s at each reply, no CHUNKING
           backlog             20,000 deferred messages from the flush until the last has reached the sink
           envelope            one message for 1,000 recipients at 1,000 domains, from MAIL FROM to the last delivery
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
from dns import Dns  # noqa: E402

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
hash_queue_names = deferred, defer
"""
NO_TLS = "smtpd_tls_security_level = none\nsmtp_tls_security_level = none\n"
# Postfix closes a connection after one message with TLS unless tlsproxy holds it.
POSTFIX_TLS = "smtp_tls_connection_reuse = yes\nsmtp_tls_session_cache_database = btree:${data_directory}/smtp_scache\n"
TLS = """
smtpd_tls_security_level = may
smtpd_tls_cert_file = {cert}
smtpd_tls_key_file = {key}
smtp_tls_security_level = encrypt
smtp_tls_loglevel = 0
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
"""


class Certificate:
    """A new P-256 certificate for both sides of a relay."""

    def __init__(self):
        self.dir = tempfile.TemporaryDirectory(prefix="pen-tls-")
        os.chmod(self.dir.name, 0o755)
        self.cert, self.key = (os.path.join(self.dir.name, n) for n in ("cert.pem", "key.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-subj", "/CN=bench.example", "-days", "2", "-out", self.cert, "-keyout", self.key],
                       check=True, stderr=subprocess.DEVNULL)


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
        while not self.stop.wait(0.05):
            self.peak = max(self.peak, self.group.anonymous())

    def end(self):
        self.stop.set()
        self.join()
        return max(self.peak, self.group.anonymous())


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class PenstockServer:
    name = "penstock"
    further = ""  # lines of main.cf for all that are started: see turns.py

    def __init__(self, build, sink, concurrency, settings="", tls=None):
        settings += (TLS.format(cert=tls.cert, key=tls.key) if tls else NO_TLS) + self.further
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
                f.write(PENSTOCK.format(sink=sink, concurrency=concurrency) + settings)
            self.configure()
            subprocess.run([self.bin + "/penstock", "-c", self.home + "/etc", "start"], check=True,
                           stdout=subprocess.DEVNULL)
        finally:
            self.group.leave()
        peers.wait_port(self.port)

    def configure(self):
        """For who derives: before the start, in the group."""

    def deferred(self):
        listed = subprocess.run([self.bin + "/penqueue", "-c", self.home + "/etc", "-j"], check=True,
                                capture_output=True, text=True).stdout
        return sum(json.loads(line)["queue_name"] == "deferred" for line in listed.splitlines())

    def reload(self):
        subprocess.run([self.bin + "/penstock", "-c", self.home + "/etc", "reload"], check=True)

    def flush(self):
        subprocess.run([self.bin + "/penqueue", "-c", self.home + "/etc", "-f"], check=True)

    def stop(self):
        subprocess.run([self.bin + "/penstock", "-c", self.home + "/etc", "stop"], stdout=subprocess.DEVNULL)
        self.group.remove()
        shutil.rmtree(self.dir, ignore_errors=True)


class PostfixServer:
    name = "postfix"

    def __init__(self, build, sink, concurrency, settings="", files=(), tls=None, hosts="", resolver="",
                 services=None):
        if tls:
            files = (*files, tls.cert, tls.key)
            settings += TLS.format(cert="/etc/cert.pem", key="/etc/key.pem") + POSTFIX_TLS
        else:
            settings += NO_TLS
        self.port = free_port()
        self.group = Group()
        self.peer = peers.Postfix(self.port, sink,
                                  POSTFIX_TUNED.format(concurrency=concurrency, initial=min(20, concurrency))
                                  + settings, services and services(self.port))
        self.peer.write("etc/hosts", self.peer.read("etc/hosts") + hosts)
        if resolver:
            self.peer.write("etc/resolv.conf", f"nameserver {resolver}\n")
            self.peer.write("etc/nsswitch.conf", "hosts: files dns\npasswd: files\ngroup: files\n")
        for file in files:  # seen as /etc/NAME in there
            shutil.copy(file, os.path.join(self.peer.dir, "etc"))
        self.group.join()
        try:
            self.peer.start()
        finally:
            self.group.leave()

    def deferred(self):
        return sum(len(files) for _, _, files in os.walk(os.path.join(self.peer.dir, "spool/postfix/deferred")))

    def flush(self):
        self.peer.flush()

    def stop(self):
        self.peer.stop()
        self.group.remove()


class Sink:
    """bench/pensink, with a count of the messages it has taken."""

    def __init__(self, build, *options, port=0):
        self.build, self.options = build, options
        self.ledger = tempfile.NamedTemporaryFile(prefix="pen-sink-")
        self.process = subprocess.Popen([os.path.join(build, "bench/pensink"), "--port", str(port), "--quickack",
                                         "--ledger", self.ledger.name, *options],
                                        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.port = int(self.process.stdout.readline().split()[1])

    def counts(self):
        self.process.send_signal(signal.SIGUSR1)
        return json.loads(self.process.stdout.readline())

    def wait(self, wanted, seconds, key="messages"):
        """Waits for `wanted` messages; returns the time. It asks every 10 ms, which bounds the error."""
        end = time.monotonic() + seconds
        while (taken := self.counts()[key]) < wanted:
            if time.monotonic() > end:
                raise TimeoutError(f"only {taken} of {wanted} {key} arrived within {seconds} s")
            time.sleep(0.01)
        return time.monotonic()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def load(build, port, *options):
    done = subprocess.run([os.path.join(build, "bench/penload"), "--port", str(port), *map(str, options)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def fifty_hosts(server_type, port):
    """A transport table of 1,000 domains on the addresses 127.0.1.1 to 50, all of which one sink serves."""
    table = tempfile.NamedTemporaryFile("w", prefix="pen-transport-", suffix=".txt")
    for domain in range(1000):
        table.write(f"d{domain}.load.example smtp:[127.0.1.{domain % 50 + 1}]:{port}\n")
    table.flush()
    os.chmod(table.name, 0o644)
    if server_type is PenstockServer:
        return table, f"\ntransport_maps = texthash:{table.name}\n", ()
    return table, f"\ntransport_maps = texthash:/etc/{os.path.basename(table.name)}\n", (table.name,)


def content_rules(server_type, kind):
    """Tables like those that postmasters keep: 200 rules for headers, 200 for bodies."""
    header = [r"/^Subject:.*\bword%d\b/", r"/^X-Mailer: .*(agent%d|robot%d)/",
              r"/^Received: from .*host%d\.example\.net/", r"/^(From|Reply-To):.*@[a-z0-9.-]*spam%d\.(com|net)/"]
    body = [r"/\bcheap (pills|watches) number%d\b/", r"/https?:\/\/[a-z0-9.]*bad%d\.example/",
            r"/account %d .* (suspended|limited|closed)/", r"/^[[:space:]]*click here%d? now/"]
    settings, files = "", []
    for setting, patterns in (("header_checks", header), ("body_checks", body)):
        table = tempfile.NamedTemporaryFile("w", prefix="pen-" + setting + "-")
        for i in range(200):
            table.write(patterns[i % 4].replace("%d", str(i)) + " REJECT\n")
        table.flush()
        os.chmod(table.name, 0o644)
        files.append(table)
        where = table.name if server_type is PenstockServer else "/etc/" + os.path.basename(table.name)
        settings += f"\n{setting} = {kind}:{where}\n"
    return settings, files


class Bystander(threading.Thread):
    """A session that asks for nothing again and again: how long it waits for each answer."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.lines = self.socket.makefile("rb")
        self.lines.readline()
        self.waits, self.over = [], threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.005):
            began = time.monotonic()
            self.socket.sendall(b"NOOP\r\n")
            self.lines.readline()
            self.waits.append((time.monotonic() - began) * 1000)

    def end(self):
        self.over.set()
        self.join()
        self.socket.close()
        waits = sorted(self.waits)
        return {"bystander ms, median": waits[len(waits) // 2], "bystander ms, 99 %": waits[len(waits) * 99 // 100]}


def checks(build, server_type, kind):
    settings, files = content_rules(server_type, kind)
    settings += "smtpd_junk_command_limit = 1000000\n"  # the bystander's
    return relay(build, server_type, 20, 1000, 4096, further=settings, files=files, bystander=True)


def asked(build, server_type):
    port = free_port()
    server = subprocess.Popen([sys.executable, os.path.join(HERE, "policyd.py"), str(port)], stdout=subprocess.PIPE)
    try:
        server.stdout.readline()
        return relay(build, server_type, 20, 4000, 4096,
                     further=f"\nsmtpd_recipient_restrictions = check_policy_service inet:127.0.0.1:{port}\n")
    finally:
        server.kill()
        server.wait()


def relay(build, server_type, connections, messages, size, spread=False, tls=None, further="", calls=False, files=(),
          bystander=False, rate=0):
    sink = Sink(build, *(("--host", "0.0.0.0") if spread else ()),
                *(("--tls-cert", tls.cert, "--tls-key", tls.key) if tls else ()))
    table, settings, more = fifty_hosts(server_type, sink.port) if spread else (None, "", ())
    more = (*more, *(file.name for file in files)) if server_type is PostfixServer else ()
    to = (*(("--domains", 1000) if spread else ()), *(("--tls",) if tls else ()),
          *(("--per-connection", 1, "--retries", 10000) if calls else ()))
    server = server_type(build, sink.port, 50, settings + further, *((more,) if more else ()), tls=tls)
    try:
        warm = min(connections * 2, messages // 4)
        load(build, server.port, "-c", connections, "-n", warm, "-s", min(size, 65536), "--id", "warm", *to)
        sink.wait(warm, 60)
        cpu, sampler, began = server.group.seconds(), Sampler(server.group), time.monotonic()
        other = Bystander(server.port) if bystander else None
        sent = load(build, server.port, "-c", connections, "-n", messages, "-s", size, "--rate", rate, *to)
        accepted = time.monotonic() - began
        took = sink.wait(warm + messages, 300) - began
        counts = sink.counts()
        figures = {"accepted/s": messages / accepted, "relayed/s": messages / took,
                   "cpu ms/message": (server.group.seconds() - cpu) * 1000 / messages,
                   "anonymous MiB": sampler.end() / 2**20, "connections": counts.get("connections", 0),
                   "bytes/message": counts.get("bytes", 0) / (warm + messages)}
        if other:
            figures |= other.end()
        if size > 2**20:
            figures["MiB/s"] = messages * size / 2**20 / took
        for key in ("dot_ms", "latency_ms"):
            if key in sent:
                figures["250 after data, ms"] = sent[key]
        return figures
    finally:
        server.stop()
        sink.stop()


def signed(build, server_type, messages=2000):
    with tempfile.TemporaryDirectory(prefix="pen-bench-") as folder:
        def file(name, text=""):
            path = os.path.join(folder, name)
            with open(path, "w") as out:
                out.write(text)
            return path
        os.chmod(folder, 0o755)
        key = file("key")
        os.chmod(key, 0o600)
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        names, senders = file("keys", f"one bench.example:s:{key}\n"), file("senders", "* one\n")
        figures = relay(build, server_type, 20, messages, 4096, further=(
            f"\ndkim_signing = yes\ndkim_key_table = {names}\ndkim_signing_table = refile:{senders}\n"))
        if figures["bytes/message"] < 4096 + 400:
            raise RuntimeError(f"{figures['bytes/message']} bytes arrived for each: not signed")
        return figures


def told(build, server_type):
    """relay20 with the events of it in a file."""
    with tempfile.TemporaryDirectory(prefix="pen-events-", dir=os.environ.get("BENCH_DIR", "/var/tmp")) as directory:
        os.chmod(directory, 0o777)
        log = os.path.join(directory, "events.json")
        figures = relay(build, server_type, 20, 4000, 4096, further=f"\nevent_log_file = {log}\n")
        with open(log, "rb") as file:
            figures["events"] = sum(1 for _ in file)
        return figures


def idle(build, server_type, sessions=10000):
    sink = Sink(build)
    server = server_type(build, sink.port, 50)
    holder = None
    try:
        load(build, server.port, "-c", 1, "-n", 5)
        before = server.group.anonymous()
        began = time.monotonic()
        holder = subprocess.Popen([os.path.join(build, "bench/penload"), "--port", str(server.port), "--idle",
                                   str(sessions), "--limit", "300"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True)
        opened = json.loads(holder.stdout.readline())
        took = time.monotonic() - began
        after = server.group.anonymous()
        further = []
        for _ in range(10):
            at = time.monotonic()
            load(build, server.port, "-c", 1, "-n", 1)
            further.append((time.monotonic() - at) * 1000)
        return {"sessions": opened.get("ready", opened.get("idle", sessions)), "open s": took,
                "more MiB": (after - before) / 2**20, "further client ms": statistics.median(further)}
    finally:
        if holder:
            holder.stdin.close()
            holder.wait()
        server.stop()
        sink.stop()


def defer(build, server, messages, connections=1):
    """Queues messages while nobody answers at the far end, until all of them wait for their retry time."""
    load(build, server.port, "-c", connections, "-n", messages, "-s", 4096)
    end = time.monotonic() + 300
    while server.deferred() < messages:
        if time.monotonic() > end:
            raise TimeoutError(f"only {server.deferred()} of {messages} messages were deferred")
        time.sleep(0.05)  # a message still on its way to the retry queue would miss the flush


def backlog(build, server_type, messages=20000):
    far = free_port()
    server = server_type(build, far, 50)
    sink = None
    try:
        defer(build, server, messages, connections=20)
        sink = Sink(build, port=far)
        cpu, began = server.group.seconds(), time.monotonic()
        server.flush()
        took = sink.wait(messages, 300) - began
        return {"msg/s": messages / took, "cpu ms/message": (server.group.seconds() - cpu) * 1000 / messages,
                "connections": sink.counts().get("connections", 0)}
    finally:
        server.stop()
        if sink:
            sink.stop()


def envelope(build, server_type, recipients=1000):
    sink = Sink(build)
    server = server_type(build, sink.port, 50)
    try:
        load(build, server.port, "-c", 1, "-n", 1, "--id", "warm")
        sink.wait(1, 60)
        began = time.monotonic()
        load(
            build, server.port, "-c", 1, "-n", 1, "-s", 4096, "-r", recipients, "--domains", recipients, "--pipelining"
        )
        accepted = time.monotonic() - began
        took = sink.wait(recipients + 1, 60, key="recipients") - began
        return {"accepted s": accepted, "delivered s": took}
    finally:
        server.stop()
        sink.stop()


def round_trip(build, server_type, *options, messages=100, concurrency=1):
    """Queue the messages while nobody answers at the far end, then let them drain over that many connections."""
    far = free_port()
    server = server_type(build, far, concurrency)
    sink = Sink(build, *options)
    proxy = None
    try:
        defer(build, server, messages)
        proxy = subprocess.Popen([sys.executable, os.path.join(HERE, "delayproxy.py"), str(far), str(sink.port), "50"])
        peers.wait_port(far)
        server.flush()
        sink.wait(1, 60)
        began = time.monotonic()
        took = sink.wait(messages, 300) - began
        return {"msg/s": (messages - 1) / took, "connections": sink.counts().get("connections", 0)}
    finally:
        server.stop()
        sink.stop()
        if proxy:
            proxy.terminate()
            proxy.wait()


def slow_peers(build, server_type, messages, *delays, concurrency=20, hosts=1, each=None):
    """To hosts that take their time, which neither server has met before; both begin with five connections. Postfix
    limits the connections of the next hop, Penstock those of each host: `each` of them instead of `concurrency`."""
    sink = Sink(build, "--host", "0.0.0.0", "--one-by-one", *map(str, delays))
    addresses = [f"127.0.1.{n + 1}" for n in range(hosts)]
    settings = f"\nrelayhost = [relay.example]:{sink.port}\ninitial_destination_concurrency = 5\n"
    with Dns({("relay.example", "A"): addresses}) as dns:
        if server_type is PenstockServer:
            server = server_type(
                build, sink.port, each or concurrency, settings + f"dns_resolver_addresses = 127.0.0.1:{dns.port}\n"
            )
        else:
            server = server_type(build, sink.port, concurrency, settings + "smtp_host_lookup = native\n"
                                 "smtp_dns_support_level = disabled\n"
                                 f"smtp_connection_cache_destinations = [relay.example]:{sink.port}\n",
                                 hosts="".join(f"{a} relay.example\n" for a in addresses))
        try:
            began = time.monotonic()
            load(build, server.port, "-c", 20, "-n", messages, "-s", 4096)
            took = sink.wait(messages, 300) - began
            return {"relayed/s": messages / took, "seconds": took, "connections": sink.counts().get("connections", 0),
                    "at once": sink.counts().get("most_live", 0)}
        finally:
            server.stop()
            sink.stop()


WORKLOADS = {
    "relay20": lambda b, s: relay(b, s, 20, 4000, 4096),
    "relay100": lambda b, s: relay(b, s, 100, 4000, 4096),
    "relay-long": lambda b, s: relay(b, s, 20, 40000, 4096),
    "domains20": lambda b, s: relay(b, s, 20, 4000, 4096, spread=True),
    "domains100": lambda b, s: relay(b, s, 100, 4000, 4096, spread=True),
    "tls20": lambda b, s: relay(b, s, 20, 4000, 4096, tls=Certificate()),
    "tls100": lambda b, s: relay(b, s, 100, 4000, 4096, tls=Certificate()),
    "calls20": lambda b, s: relay(b, s, 20, 4000, 4096, calls=True),
    "tls-calls20": lambda b, s: relay(b, s, 20, 2000, 4096, tls=Certificate(), calls=True),
    "signed20": signed,
    "classes20": lambda b, s: relay(
        b, s, 20, 4000, 4096, calls=True, further="\nsession_classes = 127.0.0.0/8 12 12\n"
    ),
    "events20": told,
    "policy20": asked,
    "large": lambda b, s: relay(b, s, 4, 40, 10 * 2**20),
    "checks-pcre": lambda b, s: checks(b, s, "pcre"),
    "checks-regexp": lambda b, s: checks(b, s, "regexp"),
    "idle": idle,
    # more than fit into one window, but not minutes of one message at a time
    "rtt-chunking": lambda b, s: round_trip(b, s, "--chunking", messages=3000 if s is PenstockServer else 100),
    "rtt-pipelining": round_trip,
    "rtt-default": lambda b, s: round_trip(b, s, "--chunking", concurrency=20,
                                           messages=6000 if s is PenstockServer else 600),
    "scanner20": lambda b, s: slow_peers(b, s, 1000, "--chunking", "--dot-delay", 300),
    "scanner50": lambda b, s: slow_peers(b, s, 1000, "--chunking", "--dot-delay", 300, concurrency=50),
    "burst": lambda b, s: slow_peers(b, s, 80, "--chunking", "--dot-delay", 1000, hosts=4),
    "burst-equal": lambda b, s: slow_peers(b, s, 80, "--chunking", "--dot-delay", 1000, hosts=4, each=5),
    "slow": lambda b, s: slow_peers(b, s, 200, "--delay", 300),
    "backlog": backlog,
    "envelope": envelope,
}
SERVERS = {"penstock": PenstockServer, "postfix": PostfixServer}
SKIP = {("signed20", "postfix"): "signs by a filter: filters.py",
        ("events20", "postfix"): "has no events",
        ("classes20", "postfix"): "knows no session classes",
        ("idle", "postfix"): "a process per session: 10,000 take 12 GiB"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(TOP, "build", "release"))
    parser.add_argument("--only", default=",".join(WORKLOADS))
    parser.add_argument("--peers", default="penstock,postfix")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="append one line per run to this file")
    args = parser.parse_args()
    if reason := peers.unavailable():
        sys.exit(f"compare: {reason}")
    for workload in args.only.split(","):
        runs = {name: [] for name in args.peers.split(",") if (workload, name) not in SKIP}
        for _ in range(args.rounds):
            for name in runs:
                figures = WORKLOADS[workload](args.build, SERVERS[name])
                runs[name].append(figures)
                if args.json:
                    with open(args.json, "a") as out:
                        print(json.dumps({"workload": workload, "peer": name, **figures}), file=out)
        print(f"\n{workload}: median (least - most) of {args.rounds}")
        for name in args.peers.split(","):
            if name not in runs:
                print(f"  {name:9} not run: {SKIP[workload, name]}")
                continue
            for key in runs[name][0]:
                values = [r[key] for r in runs[name] if isinstance(r.get(key), (int, float))]
                if values:
                    print(
                        f"  {name:9} {key:20} {statistics.median(values):10.2f} ({min(values):.2f} - {max(values):.2f})"
                    )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
