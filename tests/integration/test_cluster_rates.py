"""Hosts with one redis keep the limits of a provider together, know what one of them learned of it, and go on without
the server, each by its part."""
import contextlib
import itertools
import json
import re
import threading
import time

from harness import *
from redis_server import PROGRAM, RedisServer

RULES = """provider big .big.example
rule slow-down provider=big code=451 text="slow down"
  class=rate scope=provider
rule slow-sender provider=big code=451 text="your domain"
  class=rate scope=envelope-domain
"""
# A job is two recipients; mail that a limit puts off waits for long, unless the limit says when.
SETTINGS = {"smtp_destination_recipient_limit": "2", "connection_backlog_threshold": "1",
            "initial_destination_concurrency": "20", "destdb_lease_time": "3s", "shaping": "yes",
            "shaping_pause_time": "600s"}
RATE = 10  # in a second


def host_of(session):
    return session.helo.split()[1].split(".")[0]


class ClusterRates(Suite):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if PROGRAM is None:
            raise unittest.SkipTest("redis-server is not installed (scripts/install-dependencies --runtime-peers)")

    @contextlib.contextmanager
    def cluster(self, host, limits="", **settings):
        """A redis server, a provider's host and two instances, each of which knows of the other."""
        with RedisServer(acl=True) as redis, Peer(host=host, features=["8BITMIME"]) as peer, \
                Dns({("big.example", "MX"): [(5, "mx.big.example")], ("mx.big.example", "A"): [host]}) as dns, \
                contextlib.ExitStack() as stack:
            self.begun = []  # (time, host) of each transaction at the peer
            peer.replies["MAIL"] = lambda session, line: self.begun.append((time.monotonic(), host_of(session)))
            made = []
            for i in range(2):
                mx = stack.enter_context(Instance({**dns.settings(), **redis.settings(), **SETTINGS,
                                                   "smtp_tcp_port": str(peer.port), "myhostname": f"mx{i}.test.example",
                                                   **settings}, start=False))
                mx.set(shaping_rules_files=mx.write("own.rules", RULES),
                       delivery_limit_maps="texthash:" + mx.write("limits", limits))
                mx.start()
                made.append(mx)
            for mx in made:
                self.knows_two(mx)
            yield redis, peer, made

    def json(self, mx, *words):
        return [json.loads(line) for line in mx.tool("pendest", "--json", *words, check=True).stdout.splitlines()]

    def knows_two(self, mx):
        eventually(lambda: self.json(mx, "explain", "x@big.example")[0]["knowledge"].get("hosts") == 2, "two hosts")

    def limits(self, mx):
        return {limit.get("sender_domain", ""): limit for entry in self.json(mx, "list")
                for limit in entry.get("limits", []) if limit.get("group") == "big"}

    def jobs(self, mx, count, name, sender="s@sender.example"):
        send(mx.port, sender, [f"{name}{i}@big.example" for i in range(2 * count)], mail())

    def within(self, since, begun, rate, ahead):
        """No more had begun by any time than the rate allows since then. What is slow here makes it fewer: nothing
        comes to the peer before it was let go."""
        for n, (at, _) in enumerate(begun, 1):
            self.assertLessEqual(n, rate * (at - since) + ahead, f"{n} after {at - since:.3f} s: {begun}")

    def test_two_hosts_keep_a_rate_together_and_each_its_part_while_redis_is_away(self):
        with self.cluster("127.0.0.31", f"provider:big rate={RATE}/s\n") as (redis, peer, made):
            greets = threading.Event()
            peer.replies["GREETING"] = lambda session, line: greets.wait(120) and None
            for i, mx in enumerate(made):
                self.jobs(mx, 16, f"a{i}x")
                mx.wait_log(r"nrcpt=32 \(queue active\)")
            since = time.monotonic()
            greets.set()
            peer.wait_messages(32, seconds=60)
            # Two that the server deals ahead, one that each host has in hand.
            self.within(since, self.begun, RATE, 5)
            # While both have more to do each has its turns.
            first = [host for _, host in self.begun[:20]]
            self.assertGreaterEqual(min(first.count("mx0"), first.count("mx1")), 5, first)
            # It hangs: each goes by its half, whatever the other does.
            redis.pause()
            try:
                del self.begun[:]
                since = time.monotonic()
                for i, mx in enumerate(made):
                    self.jobs(mx, 10, f"b{i}x")
                peer.wait_messages(52, seconds=60)
                for host in ("mx0", "mx1"):
                    self.within(since, [b for b in self.begun if b[1] == host], RATE / 2, 3)
            finally:
                redis.resume()
            for mx in made:
                mx.wait_log(r"destination database: shared through .* again, after")
            # It dies, and comes back without its memory while there is work.
            redis.kill()
            del self.begun[:]
            since = time.monotonic()
            for i, mx in enumerate(made):
                self.jobs(mx, 8, f"c{i}x")
            peer.wait_messages(54, seconds=60)
            redis.start()
            peer.wait_messages(68, seconds=60)
            self.within(since, self.begun, RATE, 8)  # and one more at the change
            for mx in made:
                eventually(lambda: mx.log().count("destination database: shared through") == 3, "both share again")
                mx.wait_empty_queue()
            self.jobs(made[0], 1, "d")
            peer.wait_messages(69)
            self.assertIsNotNone(redis.words("HGET", "penstock:r:big|||", "d"))
            # One that is started without the server knows how many they were.
            redis.kill()
            made[0].stop()
            made[0].start()
            del self.begun[:]
            since = time.monotonic()
            self.jobs(made[0], 8, "e")
            peer.wait_messages(77, seconds=60)
            self.within(since, self.begun, RATE / 2, 3)

    def test_what_one_learned_of_a_provider_and_of_a_sender_there_the_other_knows(self):
        with self.cluster("127.0.0.32") as (redis, peer, (first, second)):
            count = peer.replies["MAIL"]

            def refuses(host, words, sender):
                peer.replies["MAIL"] = lambda session, line: count(session, line) or (
                    "451 4.7.1 " + words if host_of(session) == host and sender in line else None)

            refuses("mx0", "too much of your domain", "@flood.example")
            self.jobs(first, 1, "a", "x@flood.example")
            first.wait_log(r"shaping: big of flood\.example rests for 600 s, then gets 1/m: rule slow-sender")
            self.jobs(second, 1, "b", "x@flood.example")  # it may have heard by then, or be delivered
            heard = eventually(lambda: self.limits(second).get("flood.example"), "the second has heard")
            self.assertEqual((heard["rule"], heard["rate"]), ("slow-sender", "1/m"))
            self.assertGreater(heard["held_ms"], 500_000)
            second.wait_log(r"to=<b1@big\.example>.*status=(sent|deferred)")
            before = len(self.begun)
            self.jobs(second, 1, "c", "x@flood.example")
            second.wait_log(r"to=<c0@big\.example>, relay=none, .*status=deferred \(big of flood\.example rests after")
            self.assertEqual(len(self.begun), before)
            self.jobs(second, 1, "d", "x@calm.example")
            eventually(lambda: "x@calm.example" in [m.sender for m in list(peer.messages)], "others' mail goes")
            # Of the whole provider. Redis has lost its memory meanwhile: who knows tells it again.
            refuses("mx1", "slow down", "@calm.example")
            self.jobs(second, 1, "e", "x@calm.example")
            second.wait_log(r"shaping: big rests for 600 s, then gets 1/m: rule slow-down")
            eventually(lambda: redis.words("HGET", "penstock:r:big|||", "l"), "told")
            redis.kill()
            redis.start()
            eventually(lambda: redis.words("HGET", "penstock:r:big|||", "l"), "told again")
            eventually(lambda: redis.words("HGET", "penstock:r:big||flood.example|", "l"), "told again")
            peer.replies["MAIL"] = count
            first.wait_log(r"destination database: shared through .* again, after")
            n = itertools.count()

            def heard():
                self.jobs(first, 1, f"h{next(n)}x", "x@other.example")
                return "" in self.limits(first)

            eventually(heard, "the first has heard of the provider, for which it has mail")
            sent = next(n)
            eventually(lambda: len(set(re.findall(r"to=<(h\d+x1)@.*status=", first.log()))) == sent, "all were tried")
            before = len(peer.messages)
            self.jobs(first, 1, "f", "x@other.example")
            first.wait_log(r"to=<f0@big\.example>, relay=none, .*status=deferred \(big rests after a complaint")
            self.assertEqual(len(peer.messages), before)
            # What is forgotten is forgotten everywhere, once somebody has mail for it.
            first.tool("pendest", "forget", "big", check=True)
            first.flush()
            peer.wait_messages(before + 1)
            self.jobs(second, 1, "g", "x@calm.example")

            def delivered():
                second.flush()
                return any(m.recipients[0].startswith("g") for m in list(peer.messages))

            eventually(delivered, "the second has forgotten it too")

    def test_two_hosts_share_the_connections_of_a_provider(self):
        with self.cluster("127.0.0.33", "provider:big connections=4\n") as (redis, peer, made):
            held = threading.Event()
            peer.replies["DOT"] = lambda session, line: held.wait(120) and None
            for i, mx in enumerate(made):
                self.jobs(mx, 6, f"a{i}x")
            eventually(lambda: len(self.begun) == 4, lambda: f"four transactions: {self.begun}")
            for mx in made:
                eventually(lambda: mx.log().count("(queue active)") == 1, "it has its mail")
                self.assertEqual(self.limits(mx)[""]["connections"], 4)
            self.assertEqual(sorted(host for _, host in self.begun), ["mx0", "mx0", "mx1", "mx1"])
            self.assertEqual(len([s for s in peer.sessions if not s.closed]), 4)
            held.set()
            peer.wait_messages(12)


if __name__ == "__main__":
    unittest.main()
