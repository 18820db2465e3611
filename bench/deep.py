"""Shared by restart.py and depth.py: an instance whose queue was filled offline, a sink, a load and clocks."""
import json
import os
import signal
import smtplib
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
BUILD = os.environ.get("PEN_BUILD", os.path.join(TOP, "build", "release"))
os.environ.setdefault("PEN_BIN", os.path.join(BUILD, "bin"))
sys.path.insert(0, os.path.join(TOP, "tests", "integration"))
from instance import Instance, mail_owner  # noqa: E402


def bench(name):
    return os.path.join(BUILD, "bench", name)


class Sink:
    """bench/pensink; count() returns the number of messages taken."""

    def __init__(self, *options):
        self.process = subprocess.Popen([bench("pensink"), "--quickack", "-p", "0", *options], stdout=subprocess.PIPE,
                                        text=True)
        self.port = int(self.process.stdout.readline().split()[1])

    def count(self):
        self.process.send_signal(signal.SIGUSR1)
        return json.loads(self.process.stdout.readline())["messages"]

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Deep(Instance):
    """An instance with that many deferred messages, none of them due, which relays everything to a sink."""

    def __init__(self, messages, sink, directory, size=600, settings=None, **options):
        self.sink = sink  # kept open, so that its port stays taken
        os.makedirs(directory, exist_ok=True)
        base = {"relayhost": f"[127.0.0.1]:{sink.port}", "queue_log_segment_size": "4m", "mydestination": "",
                "smtpd_relay_restrictions": "permit_mynetworks, reject", "smtpd_peername_lookup": "no",
                "smtpd_client_connection_count_limit": "0", "default_process_limit": "20000",
                "local_header_rewrite_clients": "", **(settings or {})}
        super().__init__(base, start=False, directory=tempfile.mkdtemp(prefix="pen-deep-", dir=directory))
        self.own_dir = True
        self.fill(messages, size, **options)

    def fill(self, messages, size, logs="many", sender="sender@load.example"):
        log = self.path("spool", "log")
        os.makedirs(log, exist_ok=True)
        began = time.monotonic()
        if messages:
            subprocess.run([bench("queue_fill"), log, "-n", str(messages), "-s", str(size), "--logs", logs,
                            "--sender", sender], check=True)
        if os.geteuid() == 0:
            import pwd
            owner = pwd.getpwnam(mail_owner())
            for name in [log] + [os.path.join(log, file) for file in os.listdir(log)]:
                os.chown(name, owner.pw_uid, owner.pw_gid)
        self.filled_in = time.monotonic() - began

    def load(self, *options):
        return subprocess.Popen([bench("penload"), "--port", str(self.port), *map(str, options)],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def anonymous_mib(self):
        total = 0
        for pids in self.pids().values():
            for pid in pids:
                try:
                    with open(f"/proc/{pid}/smaps_rollup") as lines:
                        total += sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))
                except OSError:
                    pass  # it has just ended
        return total / 1024


def send_one(port, end):
    """Sends one message as soon as possible, with a try every millisecond until `end`. Returns the times of 220
    and 250."""
    content = b"Subject: after the restart\r\n\r\nhello\r\n"
    while True:
        try:
            with smtplib.SMTP("127.0.0.1", port, timeout=10) as client:
                greeted = time.monotonic()
                client.sendmail("probe@bench.example", ["probe@sink.example"], content)
                return greeted, time.monotonic()
        except (OSError, smtplib.SMTPException):
            if time.monotonic() > end:
                raise
            time.sleep(0.001)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
