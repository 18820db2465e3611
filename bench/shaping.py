#!/usr/bin/env python3
"""A receiver with a rate that it tells nobody: how long mail takes, and how often it is refused, by Penstock and by
Postfix at fixed settings.

    bench/shaping.py build/release --messages 100000 --rate 100
    bench/shaping.py build/release --messages 3000 --rate 50 --postfix 2,4,5,6

The receiver takes --rate messages a second (a few more at once), answers each after --delay seconds, and refuses what
is beyond with the words of Gmail, at MAIL. Penstock is told nothing but that its host is a provider's, and learns with
pauses of a second so that a run takes minutes; Postfix is given each number of connections of --postfix, of which the
best is rate x delay. For each: seconds, refusals, and the part of the allowed rate that was used after a fifth of the
messages."""
import argparse
import asyncio
import multiprocessing
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from compare import Dns, PenstockServer, PostfixServer, load  # noqa: E402

REFUSAL = (b"421-4.7.28 Gmail has detected an unusual rate of mail originating from\r\n"
           b"421 4.7.28 your IP address. It has been temporarily rate limited.\r\n")
TIMES = "minimal_backoff_time = 5s\nmaximal_backoff_time = 60s\nqueue_run_delay = 5s\n"


class Receiver:
    """In a process of its own, whose counts are shared."""

    def __init__(self, rate, delay):
        self.rate, self.delay = rate, delay
        self.taken, self.refused = multiprocessing.Value("q", 0), multiprocessing.Value("q", 0)
        ready, tell = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.Process(target=self._run, args=(tell,), daemon=True)
        self.process.start()
        self.port = ready.recv()

    def stop(self):
        self.process.terminate()
        self.process.join()

    def _run(self, tell):
        asyncio.run(self._serve(tell))

    async def _serve(self, tell):
        self.tokens, self.last = self.rate / 10, time.monotonic()
        server = await asyncio.start_server(self._session, "127.0.0.31", 0)
        tell.send(server.sockets[0].getsockname()[1])
        async with server:
            await server.serve_forever()

    def _takes(self):
        now = time.monotonic()
        self.tokens = min(self.rate / 10, self.tokens + (now - self.last) * self.rate)
        self.last = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True

    async def _session(self, reader, writer):
        try:
            writer.write(b"220 mx.big.example ESMTP\r\n")
            while line := await reader.readline():
                verb = line[:4].upper()
                if verb == b"EHLO":
                    writer.write(b"250-mx.big.example\r\n250 SIZE 0\r\n")
                elif verb == b"MAIL":
                    if not self._takes():
                        self.refused.value += 1
                        writer.write(REFUSAL)
                        break
                    writer.write(b"250 2.1.0 ok\r\n")
                elif verb == b"DATA":
                    writer.write(b"354 go\r\n")
                    while (await reader.readline()) not in (b".\r\n", b""):
                        pass
                    await asyncio.sleep(self.delay)
                    self.taken.value += 1
                    writer.write(b"250 2.0.0 taken\r\n")
                elif verb == b"QUIT":
                    writer.write(b"221 2.0.0 bye\r\n")
                    break
                else:
                    writer.write(b"250 2.1.5 ok\r\n")
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


def measure(args, make):
    receiver = Receiver(args.rate, args.delay)
    server, close = make(receiver)
    try:
        began = time.monotonic()
        load(args.build, server.port, "-c", 20, "-n", args.messages, "-s", 2048, "--retries", 1000)
        settled = None
        while (taken := receiver.taken.value) < args.messages:
            now = time.monotonic()
            if settled is None and taken >= args.messages // 5:
                settled = (now, taken)
            if now - began > args.limit:
                break
            time.sleep(0.1)
        end = time.monotonic()
        used = (taken - settled[1]) / (end - settled[0]) / args.rate if settled else 0
        return end - began, taken, receiver.refused.value, used
    finally:
        server.stop()
        close()
        receiver.stop()


def penstock(args):
    def make(receiver):
        dns = Dns({("relay.example", "MX"): [(5, "mx.big.example")], ("mx.big.example", "A"): ["127.0.0.31"]})
        rules = os.path.abspath(os.path.join(args.scratch, "bench.rules"))
        with open(rules, "w") as out:
            out.write("provider big .big.example\n"
                      "rule big-rate provider=big dsn=4.7.28 class=rate scope=source\n")
        return PenstockServer(args.build, receiver.port, 20, f"\nrelayhost = relay.example:{receiver.port}\n"
                              f"dns_resolver_addresses = 127.0.0.1:{dns.port}\nshaping_rules_files = {rules}\n"
                              "shaping_pause_time = 1s\nshaping_increase_interval = 1s\nshaping_minimum_rate = 1/s\n"
                              + TIMES), lambda: dns.__exit__(None, None, None)
    return make


def postfix(args, connections):
    def make(receiver):
        return PostfixServer(args.build, receiver.port, connections,
                             f"\nrelayhost = [127.0.0.31]:{receiver.port}\n"
                             + TIMES), lambda: None
    return make


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--messages", type=int, default=100000)
    parser.add_argument("--rate", type=float, default=100, help="messages a second that the receiver takes")
    parser.add_argument("--delay", type=float, default=0.1, help="seconds that it takes for each")
    parser.add_argument("--postfix", default="", help="numbers of connections; empty: rate x delay, and a fifth around")
    parser.add_argument("--limit", type=float, default=7200, help="seconds for a run")
    parser.add_argument("--scratch", default="/var/tmp")
    args = parser.parse_args()
    best = args.rate * args.delay
    tried = [int(n) for n in args.postfix.split(",") if n] or sorted({max(1, round(best * f)) for f in (0.8, 1, 1.2)})
    rows = [("penstock", penstock(args))] + [(f"postfix, {n} connections", postfix(args, n)) for n in tried]
    print(f"{'':26}{'seconds':>9}{'taken':>9}{'refused':>9}{'of the rate':>13}")
    for name, make in rows:
        seconds, taken, refused, used = measure(args, make)
        print(f"{name:26}{seconds:9.1f}{taken:9}{refused:9}{used:12.1%}", flush=True)


if __name__ == "__main__":
    main()
