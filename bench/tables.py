#!/usr/bin/env python3
"""Measures what slow, hanging and dying table servers cost sessions and mail that do not need them.

    bench/tables.py [--build DIR] [--only PART,…] [--sessions 60] [--patience 40]

Served tables (socketmap) hold the valid recipients and the routes. Each measurement has a new instance:

    alone      a recipient whose look-up is answered at once, and an upload of 4 MiB, with nothing else going on
    slow       the same beside SESSIONS clients whose look-ups take 100 ms each, and how many of those are done a second
    hanging    the same beside SESSIONS clients whose look-ups are never answered
    dying      the same beside SESSIONS clients at whose look-ups the server closes the connection
    routes     a message for a domain whose route is looked up at once, behind 4 messages of 900 recipients each with
               200 ms for a look-up: seconds until it is delivered
    stuck      the same behind 300 recipients whose look-up is never answered

Figures are seconds; more than --patience is marked. To compare two builds, give each its --build DIR.
"""
import argparse
import contextlib
import os
import sys
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, "tests", "integration"))

PARTS = ("alone", "slow", "hanging", "dying", "routes", "stuck")


class Asker(threading.Thread):
    """A client that sends RCPT for one recipient after the other until it is told to stop."""

    def __init__(self, client, name, stop):
        super().__init__(daemon=True)
        self.client, self.name_, self.stop, self.done = client, name, stop, 0

    def run(self):
        with contextlib.suppress(OSError, ConnectionError):
            while not self.stop.is_set():
                self.client.command(f"RCPT TO:<{self.name_}{self.done}@virtual.test.example>")
                self.done += 1


def timed(what):
    began = time.monotonic()
    what()
    return time.monotonic() - began


def shown(seconds, patience):
    return f"{seconds:8.3f} s" if seconds < patience else f"   > {patience:.0f} s"


def intake(part, args):
    from client import Client
    from instance import Instance
    from table_server import TableServer
    mx = Instance(start=False)
    answers = {f"{user}@virtual.test.example": "OK box/" for user in ("jo", "bo")}
    prefix = {"slow": "slow100-", "hanging": "hang", "dying": "die"}.get(part)
    stop = threading.Event()
    with mx, TableServer(os.path.join(mx.dir, "tables"), answers) as server:
        mx.set(virtual_mailbox_maps=f"socketmap:unix:{server.path}:t", smtpd_client_connection_count_limit="0",
               smtpd_hard_error_limit="1000000", smtpd_error_sleep_time="0", smtpd_recipient_limit="1000000")
        mx.start()

        def client():
            c = Client(mx.port, timeout=args.patience)
            c.expect("MAIL FROM:<a@example.org>", "250")
            return c

        writing, asking = client(), client()
        writing.expect("RCPT TO:<jo@virtual.test.example>", "250")
        askers = [Asker(client(), f"{prefix}{i}-", stop) for i in range(args.sessions)] if prefix else []
        began = time.monotonic()
        for asker in askers:
            asker.start()
        time.sleep(1 if askers else 0)  # time for the load to build up: there is no event to wait for

        def recipient():
            with contextlib.suppress(TimeoutError):
                asking.expect("RCPT TO:<bo@virtual.test.example>", "250")

        def upload():
            with contextlib.suppress(TimeoutError):
                writing.expect("DATA", "354")
                writing.raw(b"Subject: large\r\n\r\n" + (b"0123456789abcdef" * 4 + b"\r\n") * 65536 + b".\r\n")
                writing.reply()

        first, second = timed(recipient), timed(upload)
        rate = sum(a.done for a in askers) / (time.monotonic() - began) if askers else 0
        stop.set()
        server.release()
        print(
            f"{part:8} recipient {shown(first, args.patience)}   upload {shown(second, args.patience)}"
            + (f"   {rate:6.0f} look-ups a second by {args.sessions} sessions" if part != "alone" else ""),
            flush=True,
        )


def routes(part, args):
    from client import Client
    from instance import Instance
    from peer import Peer
    from table_server import TableServer
    mx = Instance(start=False)
    with mx, TableServer(os.path.join(mx.dir, "tables")) as server, Peer() as peer:
        mx.set(transport_maps=f"socketmap:unix:{server.path}:t", relay_domains="slow.example there.example",
               relayhost=f"[127.0.0.1]:{peer.port}", smtpd_reject_unlisted_recipient="no")
        mx.start()
        content = b"Subject: x\r\n\r\nhello\r\n"
        with Client(mx.port, timeout=args.patience) as client:
            if part == "routes":
                for m in range(4):
                    client.send("a@example.org", [f"slow200-{m}-{i}@slow.example" for i in range(900)], content)
            else:
                client.send("a@example.org", [f"hang{i}@slow.example" for i in range(300)], content)
                server.wait_held(10)
            began = time.monotonic()
            client.send("a@example.org", ["jo@there.example"], content)
        while not any(m.recipients == ["jo@there.example"] for m in peer.messages):
            if time.monotonic() - began > args.patience:
                break
            time.sleep(0.01)
        print(f"{part:8} delivered {shown(time.monotonic() - began, args.patience)}", flush=True)
        server.release()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(TOP, "build", "release"), metavar="DIR")
    parser.add_argument("--only", default=",".join(PARTS), metavar="PART,…")
    parser.add_argument("--sessions", type=int, default=60)
    parser.add_argument("--patience", type=float, default=40)
    args = parser.parse_args()
    os.environ["PEN_BIN"] = os.path.join(os.path.abspath(args.build), "bin")
    for part in args.only.split(","):
        (routes if part in ("routes", "stuck") else intake)(part, args)


if __name__ == "__main__":
    main()
