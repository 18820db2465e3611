#!/usr/bin/env python3
"""Measures what look-ups in a database cost, beside Postfix with proxymap: the same SQLite file, query and commands.

    bench/lookups.py [--build DIR] [--sessions 20] [--recipients 2000]

Each session sends --recipients RCPT commands for addresses of the table, a hundred at a time, to our smtpd and then to
Postfix's. Both look for each in relay_recipient_maps, and in a table of refused recipients that has none of them; both
tables are proxy:sqlite:. Printed are recipients a second, processor seconds of all programs of the mail system, and how
many times the database is open. Needs root (private mount namespaces). Compare the processor time: rates of a busy
machine mean little.
"""
import argparse
import os
import socket
import sqlite3
import sys
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, "tests", "integration"))
BATCH = 100
SETTINGS = {"relay_domains": "x.example", "smtpd_client_connection_count_limit": "0", "smtpd_recipient_limit": "100000",
            "mydestination": "local.test.example", "mynetworks": "127.0.0.0/8"}


def processor_time(pids):
    ticks = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as f:
                ticks += sum(int(n) for n in f.read().rsplit(")", 1)[1].split()[11:15])  # with ended children
        except OSError:
            pass
    return ticks / os.sysconf("SC_CLK_TCK")


def times_open(pids, name):
    count = 0
    for pid in pids:
        try:
            fds = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for fd in fds:
            try:
                count += os.readlink(f"/proc/{pid}/fd/{fd}").endswith(name)
            except OSError:
                pass
    return count


def session(port, first, recipients, failures):
    with socket.create_connection(("127.0.0.1", port), timeout=300) as s, s.makefile("rwb") as f:
        def take(codes, what):
            for code in codes:
                line = f.readline()
                while line[3:4] == b"-":
                    line = f.readline()
                if line[:3] != code:
                    failures.append(f"{what}: {line!r}")
                    return
        take([b"220"], "greeting")
        f.write(b"EHLO bench.example\r\n")
        f.flush()
        take([b"250"], "EHLO")
        for at in range(first, first + recipients, BATCH):
            f.write(b"MAIL FROM:<a@example.org>\r\n")
            f.write(b"".join(b"RCPT TO:<user%d@x.example>\r\n" % i for i in range(at, at + BATCH)))
            f.write(b"RSET\r\n")
            f.flush()
            take([b"250"] * (BATCH + 2), "RCPT")


def measure(name, port, pids, args):
    def load(recipients):
        failures = []
        threads = [threading.Thread(target=session, args=(port, i * recipients, recipients, failures))
                   for i in range(args.sessions)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if failures:
            sys.exit(f"{name}: {failures[0]}")
    load(BATCH)  # programs are started, tables opened
    before, began = processor_time(pids()), time.monotonic()
    load(args.recipients)
    took, used, count = time.monotonic() - began, processor_time(pids()) - before, args.sessions * args.recipients
    print(f"{name:9} {count / took:8.0f} recipients/s   {used:7.2f} s of processor time: {1e6 * used / count:7.1f} µs "
          f"each   database open {times_open(pids(), '/t.sqlite')} times", flush=True)
    return used


def fill(path, count):
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE t (k TEXT PRIMARY KEY, v TEXT) WITHOUT ROWID")
    db.execute("CREATE TABLE refused (k TEXT PRIMARY KEY, v TEXT) WITHOUT ROWID")
    db.executemany("INSERT INTO t VALUES (?, 'x')", ((f"user{i}@x.example",) for i in range(count)))
    db.commit()
    db.close()
    os.chmod(path, 0o644)


def tables(write, path):
    for name in ("t", "refused"):
        write(name, f"dbpath = {path}\nquery = SELECT v FROM {name} WHERE k = '%s'\n")


def ours(args, rows):
    from instance import Instance
    with Instance(start=False) as mx:
        path = os.path.join(mx.dir, "t.sqlite")
        fill(path, rows)
        tables(lambda name, text: mx.write(f"{name}.cf", text), path)
        table = f"proxy:sqlite:{mx.dir}/"
        mx.set(**SETTINGS, relay_recipient_maps=table + "t.cf",
               smtpd_recipient_restrictions=f"check_recipient_access {table}refused.cf")
        mx.start()
        return measure("Penstock", mx.port, lambda: [pid for pids in mx.pids().values() for pid in pids], args)


def theirs(args, rows):
    import peers
    from waiting import free_port

    class Postfix(peers.Postfix):
        package = "postfix-databases"
        peers.PACKAGES[package] = ["postfix", "postfix-mysql", "postfix-pgsql", "postfix-ldap", "postfix-sqlite"]

        def run(self, *command, timeout=60):
            if command[-1] == "start":
                with open(os.path.join(self.dir, "etc/postfix/dynamicmaps.cf"), "a") as f:
                    f.write("sqlite postfix-sqlite.so dict_sqlite_open\n")
            return super().run(*command, timeout=timeout)

    lines = "".join(f"{k} = {v}\n" for k, v in SETTINGS.items())
    more = (f"{lines}relay_recipient_maps = proxy:sqlite:/etc/t.cf\n"
            "smtpd_recipient_restrictions = check_recipient_access proxy:sqlite:/etc/refused.cf\n")
    peer = Postfix(free_port(), settings=more)
    fill(os.path.join(peer.dir, "lib", "t.sqlite"), rows)
    tables(lambda name, text: peer.write(f"etc/{name}.cf", text), "/var/lib/t.sqlite")
    with peer:
        return measure("Postfix", peer.port, peer.pids, args)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(TOP, "build", "release"), metavar="DIR")
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--recipients", type=int, default=2000, help="for each session, a multiple of 100")
    args = parser.parse_args()
    os.environ["PEN_BIN"] = os.path.join(os.path.abspath(args.build), "bin")
    rows = args.sessions * args.recipients
    print(f"processor time of Postfix / Penstock: {theirs(args, rows) / ours(args, rows):.1f}")


if __name__ == "__main__":
    main()
