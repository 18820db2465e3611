#!/usr/bin/env python3
"""Measures the memory of smtpd when many clients give many recipients and then fall silent.

    bench/memory.py [--build DIR] [--sessions 2000] [--recipients 1000] [--orcpt 480]

Each session sends MAIL and RECIPIENTS times RCPT, each with an ORCPT of that many bytes, and stays open. The output
is one line of JSON: the anonymous memory of smtpd before and after, how many recipients were accepted and how many
got 452, and whether another client with three recipients can deliver its message meanwhile. Each side needs as many
descriptors as sessions.
"""
import argparse
import json
import os
import re
import resource
import selectors
import socket
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, "tests", "integration"))

GROUP = 50  # RCPT commands sent at once


def anonymous(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return int(re.search(r"^Anonymous:\s+(\d+)", f.read(), re.M).group(1)) * 1024


class Session:
    """One client, driven by the server's replies."""

    def __init__(self, number, args):
        self.number, self.args = number, args
        self.sent = self.answered = self.taken = self.put_off = 0
        self.buffer = b""
        self.ready = False
        self.ended = False

    def begin(self, port):
        self.socket = socket.create_connection(
            ("127.0.0.1", port), source_address=(f"127.1.{self.number // 200 % 250}.{self.number % 200 + 1}", 0)
        )

    def more(self):
        count = min(GROUP, self.args.recipients - self.sent)
        orcpt = " ORCPT=rfc822;" + "x" * self.args.orcpt if self.args.orcpt else ""
        self.socket.sendall(
            "".join(f"RCPT TO:<r{self.sent + i}@local.test.example>{orcpt}\r\n" for i in range(count)).encode()
        )
        self.sent += count

    def readable(self):
        """Returns True when the session is done."""
        data = self.socket.recv(65536)
        self.ended = not data
        self.buffer += data
        *lines, self.buffer = self.buffer.split(b"\r\n")
        for line in lines:
            if line[3:4] == b"-":
                continue
            if not self.ready:
                if line.startswith(b"220"):
                    self.socket.sendall(b"EHLO x.example\r\n")
                elif line.startswith(b"250 2.1.0"):
                    self.ready = True
                elif line.startswith(b"250"):
                    self.socket.sendall(b"MAIL FROM:<a@example.org>\r\n")
                continue
            self.answered += 1
            self.taken += line.startswith(b"250")
            self.put_off += line.startswith(b"452")
        if self.ready and self.answered == self.sent < self.args.recipients:
            self.more()
        return self.ended or self.answered == self.args.recipients


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(TOP, "build", "release"), metavar="DIR")
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--recipients", type=int, default=1000)
    parser.add_argument("--orcpt", type=int, default=480)
    args = parser.parse_args()
    os.environ["PEN_BIN"] = os.path.join(os.path.abspath(args.build), "bin")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    from client import Client
    from instance import Instance

    mx = Instance(
        {
            "mydestination": "local.test.example",
            "smtpd_client_connection_count_limit": "0",
            "smtpd_recipient_limit": str(args.recipients + 1),
            "default_process_limit": str(args.sessions + 100),
        }
    )
    with mx:
        with Client(mx.port):
            pid = mx.pids()["smtpd"][0]
        before = anonymous(pid)
        selector = selectors.DefaultSelector()
        sessions = [Session(i, args) for i in range(args.sessions)]
        for s in sessions:
            s.begin(mx.port)
            selector.register(s.socket, selectors.EVENT_READ, s)
        waiting = set(sessions)
        while waiting:
            for key, _ in selector.select():
                if key.data.readable():
                    waiting.discard(key.data)
                    selector.unregister(key.data.socket)
        after = anonymous(pid)
        with Client(mx.port) as client:
            served = client.send(
                "b@example.org", [f"r{i}@local.test.example" for i in range(3)], b"Subject: x\r\n\r\nx\r\n"
            )
        print(
            json.dumps(
                {
                    "sessions": args.sessions,
                    "recipients": sum(s.taken for s in sessions),
                    "put_off": sum(s.put_off for s in sessions),
                    "ended": sum(s.ended for s in sessions),
                    "mib_before": round(before / 2**20, 1),
                    "mib_after": round(after / 2**20, 1),
                    "kib_per_session": round((after - before) / args.sessions / 1024, 1),
                    "other": served[:3],
                }
            )
        )


if __name__ == "__main__":
    main()
