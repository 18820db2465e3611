#!/usr/bin/env python3
"""Upgrades one after the other, between two versions of the same sources, under load over TLS:
  bench/upgrade.py [--upgrades 20] [--rate 2000] [--connections 200] [--between 3] [--rounds 1]
Clients send 100 messages a session, as fast as they are taken and at most so many a second. The running mail system
becomes the other version, and back, each time after so many seconds of load. Then the two ledgers are compared.
Demands of the project: no message lost, none refused, none put off, none twice, no connection refused, no session cut.
The second build is libexec/next of the same build directory (the same sources with another version). Loopback only.
"""
import argparse
import collections
import os
import re
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def cpu_seconds():
    with open("/proc/stat") as stat:
        fields = [int(value) for value in stat.readline().split()[1:]]
    return sum(fields[:3] + fields[5:8]) / os.sysconf("SC_CLK_TCK")


def one_round(args, folder, versions):
    import harness
    from certificates import Authority
    from tools import Load, Sink, compare
    certificate = Authority(folder).issue("mx.test.example")
    names = [versions.version_of(os.path.join(harness.LIBEXEC, "master")), versions.version_of(versions.NEXT)]
    took, faults = [], []
    with Sink() as sink, harness.Instance(
            {**harness.relay_to(sink), "smtpd_tls_security_level": "encrypt", "smtpd_tls_cert_file": certificate.pem,
             "smtpd_tls_key_file": certificate.key, "smtpd_client_connection_count_limit": "0"}) as mx:
        with Load(mx.port, "-n", "1000000000", "-c", str(args.connections), "-m", "100", "--rate", str(args.rate),
                  "--tls", "--domain", "rcpt.example", "--from", "ada@sender.example", "--retries", "0", "--limit",
                  "7200") as load:
            mx.wait_log("status=sent")
            began, cpu = time.monotonic(), cpu_seconds()
            for i in range(args.upgrades):
                time.sleep(args.between)
                mx.set(daemon_directory=os.path.join(folder, "next") if i % 2 == 0 else harness.LIBEXEC)
                start = time.monotonic()
                done = mx.tool("penstock", "upgrade", timeout=300)
                took.append(time.monotonic() - start)
                if done.returncode != 0 or mx.status()["version"] != names[1 - i % 2]:
                    faults.append(f"upgrade {i + 1}: status {done.returncode}: {done.stderr.strip()[-300:]}")
            busy = (cpu_seconds() - cpu) / (time.monotonic() - began) / os.cpu_count()
            status, figures = load.stop(600)
            mx.wait_empty_queue(600)
            counts = sink.stop()
            same, found = compare(load, sink)
        log = mx.log()
    put_off = collections.Counter(re.findall(r"status=deferred \((.*)\)", log))
    told = collections.Counter(re.sub(r"\d+|/\S+/", "N", line)
                               for line in re.findall(r"((?:warning|error|fatal|panic): .*)", log))
    ledger = {"upgrades": args.upgrades, "messages": figures["taken"], "messages/s": figures["per_s"],
              "lost": found.get("lost", 0), "refused": figures["refused"], "put off": sum(put_off.values()),
              "twice": counts["duplicates"], "in doubt": figures["in_doubt"], "unanswered": figures["unanswered"],
              "given up": figures["given_up"], "connections refused": figures["connect_failures"],
              "longest answer, ms": figures["dot_ms"]["max"],
              "upgrade, s": f"{sum(took) / len(took):.1f} (most {max(took):.1f})",
              "processors busy": f"{busy:.0%}"}
    for name, value in ledger.items():
        print(f"{name:20} {value}")
    for text, n in (*put_off.most_common(5), *told.most_common(10)):
        print(f"  {n:6} {text[:150]}")
    clean = same and status == 0 and not any(
        ledger[k] for k in ("refused", "put off", "twice", "in doubt", "unanswered", "given up", "connections refused"))
    for fault in faults:
        print(f"  {fault}")
    if not same:
        print(f"  ledgers differ: {found}")
    return clean and not faults and counts["messages"] == figures["taken"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(TOP, "build", "release"))
    parser.add_argument("--upgrades", type=int, default=20)
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--between", type=float, default=3, help="seconds of load before each upgrade")
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    os.environ["PEN_BIN"] = os.path.join(args.build, "bin")
    sys.path.insert(0, os.path.join(TOP, "tests", "integration"))
    import tempfile

    import test_upgrade
    from instance import missing
    from tools import missing_tools
    if reason := missing() or missing_tools():
        sys.exit(f"upgrade: {reason}")
    clean = True
    for _ in range(args.rounds):
        with tempfile.TemporaryDirectory(prefix="pen-upgrade-") as folder:
            os.chmod(folder, 0o755)
            test_upgrade.other_version(os.path.join(folder, "next"))
            clean = one_round(args, folder, test_upgrade) and clean
    sys.exit(0 if clean else 1)


if __name__ == "__main__":
    main()
