#!/usr/bin/env python3
"""A model: how many messages a second a host of so many cores would relay, from the measured cost of each part.

    bench/cores.py [--cores 1,2,8,16,64] [--smtpd N] [--smtp N] [--keys N]

Every process is one loop, and uses one core at most. The options say what several of a program give. The rate
is the least of what each program can do with its own cores and of what all cores together can do.
Not in it: the disk (one sync for each group of messages, docs/queue-figures.md), memory bandwidth, the network, the
kernel's own share of spreading connections. The parts' costs stand below, with the page that has their measure; with
the rates of another machine the table is another, its order hardly."""
import argparse

# µs of processor time for each message, by program.
RELAYED = {"smtpd": 32, "qmgr": 40, "trivial-rewrite": 5, "smtp": 19}  # docs/performance.md, "A relayed message"
SIGNED = 287  # RSA 2048, in keys: docs/dkim.md, "Figures"
HANDSHAKE = {"smtpd": 540, "keys": 290}  # a full one, RSA 2048: docs/keys.md, 828 together
RULES = 100  # 200 pcre rules on 4 KiB, in smtpd: docs/performance.md, "A large message"

WORK = {
    "relayed, connections kept": RELAYED,
    "and signed (RSA 2048)": {**RELAYED, "keys": SIGNED},
    "and 200 pcre rules": {**RELAYED, "smtpd": RELAYED["smtpd"] + RULES},
    "a TLS handshake for each message": {**RELAYED, "smtpd": RELAYED["smtpd"] + HANDSHAKE["smtpd"],
                                         "keys": HANDSHAKE["keys"]},
}


def rate(costs, cores, processes):
    """Messages a second, and the program that is the limit: "cores" where all are busy."""
    limits = {name: min(processes.get(name, 1), cores) * 1e6 / cost for name, cost in costs.items()}
    limits["cores"] = cores * 1e6 / sum(costs.values())
    name = min(limits, key=limits.get)
    return limits[name], name


def rows(cores, processes):
    for work, costs in WORK.items():
        for n in cores:
            yield work, n, *rate(costs, n, processes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", default="1,2,8,16,64")
    parser.add_argument("--smtpd", type=int, default=1, help="smtpd_process_count")
    parser.add_argument("--smtp", type=int, default=1, help="smtp_process_count")
    parser.add_argument("--keys", type=int, default=1, help="tls_key_process_threads")
    options = parser.parse_args()
    cores = [int(n) for n in options.cores.split(",")]
    print("| work | cores | messages a second | the limit |\n| --- | --- | --- | --- |")
    for work, n, per_second, limit in rows(cores, {"smtpd": options.smtpd, "smtp": options.smtp, "keys": options.keys}):
        print(f"| {work} | {n} | {round(per_second, -2):,.0f} | {limit} |")


if __name__ == "__main__":
    main()
