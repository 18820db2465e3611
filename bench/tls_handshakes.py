#!/usr/bin/env python3
"""What the key process costs: full TLS handshakes and DKIM signatures, with keys in a process of their own and without:
  bench/tls_handshakes.py [--rounds 16] [--seconds 1] [--clients 8] [--messages 100]
handshake   openssl s_time at a port with TLS from the first byte: full handshakes (TLS 1.3, no tickets) per second,
            and processor time of the mail system (smtpd, keys) for each, by ECDSA P-256 and RSA 2048
dkim        processor time of smtpd and keys for each message of 4 KiB that is signed with RSA 2048, and with
            Ed25519; mail is discarded
Both run at once, and rounds alternate between them: the median of the rounds, and of their quotients. Rounds are
short, so that what else the machine does falls on both. Figures: docs/keys.md. Loopback only."""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "integration"))
os.environ.setdefault("PEN_BIN", os.path.join(HERE, "..", "build", "release", "bin"))
from certificates import Authority  # noqa: E402
from client import Client, mail  # noqa: E402
from instance import Instance  # noqa: E402
from test_dkim import Keys  # noqa: E402
from waiting import free_port  # noqa: E402


def processor_seconds(mx, programs=("smtpd", "keys")):
    total = 0
    for program in programs:
        for pid in mx.pids().get(program, []):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/schedstat") as text:  # nanoseconds
                    total += int(text.read().split()[0]) / 1e9
    return total


def handshakes(port, clients, seconds):
    """Returns how many there were per second."""
    command = ["openssl", "s_time", "-connect", f"127.0.0.1:{port}", "-new", "-time", str(seconds), "-tls1_3"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
               for _ in range(clients)]
    count = 0
    for one in running:
        out = one.communicate()[0]
        count += int(re.search(r"(\d+) connections in \d+ real seconds", out)[1])
    return count, count / seconds


def report(name, unit, rounds):
    """rounds: (with, without) of each round."""
    with_keys, without = (statistics.median(r[i] for r in rounds) for i in (0, 1))
    quotient = statistics.median(a / b for a, b in rounds)
    print(f"{name:<28} with {with_keys:9.1f}  without {without:9.1f} {unit:<14} {100 * (quotient - 1):+.1f} %",
          flush=True)


def bench_handshakes(folder, options):
    authority = Authority(os.path.join(folder, "ca"))
    for kind, shown in (("ec", "ECDSA P-256"), ("rsa", "RSA 2048")):
        own = authority.issue("mx.test.example", kind=kind)
        ports = [free_port(), free_port()]
        instances = [Instance({"smtpd_tls_cert_file": own.pem, "smtpd_tls_key_file": own.key, "tls_key_process": word,
                               "smtpd_tls_session_cache_timeout": "0", "smtpd_client_connection_rate_limit": "0",
                               "smtpd_peername_lookup": "no", "smtpd_tls_security_level": "may"},
                              services={f"127.0.0.1:{port}": "inet n - n - 2000 smtpd\n  -o smtpd_tls_wrappermode=yes"})
                     for word, port in zip(("yes", "no"), ports)]
        rates, costs = [], []
        try:
            for _ in range(options.rounds):
                rate, cost = [], []
                for mx, port in zip(instances, ports):
                    before = processor_seconds(mx)
                    count, per_second = handshakes(port, options.clients, options.seconds)
                    rate.append(per_second)
                    cost.append((processor_seconds(mx) - before) * 1e6 / count)
                rates.append(rate)
                costs.append(cost)
        finally:
            for mx in instances:
                mx.close()
        report(f"{shown} handshakes", "/s", rates)
        report(f"{shown} processor time", "us each", costs)


def bench_dkim(folder, options):
    for selector, shown in (("r1", "RSA 2048"), ("e1", "Ed25519")):
        own = tempfile.mkdtemp(dir=folder)
        os.chmod(own, 0o755)  # mail_owner reads there in one of the two
        keys = Keys(own)
        senders = keys.write("one.senders", f"*@sender.example {selector}\n")
        content = mail("x", sender="a@sender.example", body="x" * 70 + "\r\n" + ("y" * 70 + "\r\n") * 55)
        instances = [Instance({**keys.settings(), "dkim_signing_table": "refile:" + senders, "tls_key_process": word,
                               "local_transport": "discard:", "smtpd_peername_lookup": "no"}) for word in ("yes", "no")]
        costs = []
        try:
            for _ in range(options.rounds):
                cost = []
                for mx in instances:
                    before = processor_seconds(mx)
                    with Client(mx.port) as client:
                        for _ in range(options.messages):
                            client.send("a@sender.example", ["b@local.test.example"], content)
                    cost.append((processor_seconds(mx) - before) * 1e6 / options.messages)
                costs.append(cost)
        finally:
            for mx in instances:
                mx.close()
        report(f"DKIM {shown}", "us each", costs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--messages", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pen-bench-") as folder:
        os.chmod(folder, 0o755)
        bench_handshakes(folder, options)
        bench_dkim(folder, options)


if __name__ == "__main__":
    main()
