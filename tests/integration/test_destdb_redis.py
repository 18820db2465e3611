"""Several instances share one destination database through a real redis server, and work on without it."""
import contextlib
import json
import os
import pwd
import shutil
import tempfile
import threading

from certificates import Authority
from harness import *
from instance import mail_owner
from redis_server import PROGRAM, RedisServer

SLOW_RETRY = {"minimal_backoff_time": "300s", "maximal_backoff_time": "300s"}
# One job per connection, so that the connections in use show the work there is.
ONE_EACH = {"connection_backlog_threshold": "1", "smtp_destination_recipient_limit": "2",
            "initial_destination_concurrency": "20"}


class Held:
    """A peer whose end of data waits until it is released."""

    def __init__(self, peer):
        self.event = threading.Event()
        self.reached = threading.Semaphore(0)  # released once for each that has come
        peer.replies["DOT"] = self.wait

    def wait(self, session, line):
        self.reached.release()
        self.event.wait(120)

    def let_go(self):
        self.event.set()


class DestdbRedis(Suite):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if PROGRAM is None:
            raise unittest.SkipTest("redis-server is not installed (scripts/install-dependencies --runtime-peers)")

    def instances(self, stack, count, redis, peer, **settings):
        made = [stack.enter_context(Instance({**relay_to(peer), **redis.settings(), "myhostname": f"mx{i}.test.example",
                                              **settings})) for i in range(count)]
        for mx in made:
            mx.wait_log(r"destination database: shared through inet:127\.0\.0\.1:")
        eventually(lambda: redis.words("ZCARD", "penstock:hosts") == count, "all hosts known")
        return made

    def test_destdb_redis_database_is_where_the_keys_are(self):
        with RedisServer() as redis, Peer() as peer:
            with Instance({**relay_to(peer), **redis.settings(destdb_redis_database="3")}) as mx:
                mx.wait_log(r"destination database: shared through inet:127\.0\.0\.1:")
                eventually(
                    lambda: b"db3:" in str(redis.words("INFO", "keyspace")).encode(), "keys in the third database"
                )
                self.assertNotIn("db0:", str(redis.words("INFO", "keyspace")))

    def pendest(self, mx, *words):
        done = mx.tool("pendest", "--json", *words, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def shown(self, mx, peer):
        return [e for e in self.pendest(mx, "show", f"[127.0.0.1]:{peer.port}") if e["type"] == "destination"]

    def send(self, mx, *names):
        for name in names:
            send(mx.port, "ada@sender.example", [f"{name}@rcpt.example"], mail())

    def limit_holds(self, count):
        with RedisServer(acl=True) as redis, Peer(features=["8BITMIME"]) as peer, contextlib.ExitStack() as stack:
            held = Held(peer)
            made = self.instances(stack, count, redis, peer, smtp_destination_concurrency_limit="3", **ONE_EACH)
            for i, mx in enumerate(made):
                self.send(mx, *[f"m{i}x{n}" for n in range(6)])
            # Each wants six; all together get three, and each knows of the others'.
            eventually(lambda: redis.held() == 3, lambda: f"three leases: {redis.leases()}")

            def known():
                seen = [e for mx in made for e in self.shown(mx, peer)]
                return (
                    len(seen) == count
                    and all(e["connections"] + e["connections_elsewhere"] == 3 for e in seen)
                    and seen
                )

            seen = eventually(known, lambda: f"all know of three: {[self.shown(mx, peer) for mx in made]}")
            self.assertEqual(sum(e["connections"] for e in seen), 3)
            eventually(lambda: len(peer.sessions) == 3, lambda: f"three sessions: {len(peer.sessions)}")
            held.let_go()
            peer.wait_messages(6 * count, seconds=60)
            for mx in made:
                mx.wait_empty_queue()
            eventually(lambda: redis.held() == 0, lambda: f"no lease is left: {redis.leases()}")
            self.assertEqual(redis.denied(), [])

    def test_two_hosts_hold_the_concurrency_limit_together(self):
        self.limit_holds(2)

    def test_three_hosts_hold_the_concurrency_limit_together(self):
        self.limit_holds(3)

    def test_a_host_that_comes_later_gets_its_part(self):
        with RedisServer() as redis, Peer(features=["8BITMIME"]) as peer, contextlib.ExitStack() as stack:
            first, second = self.instances(stack, 2, redis, peer, smtp_destination_concurrency_limit="2",
                                           destdb_lease_time="3s", **ONE_EACH)
            go = threading.Semaphore(0)
            peer.replies["DOT"] = lambda session, line: go.acquire(timeout=120) and None
            self.send(first, *[f"first{n}" for n in range(20)])
            eventually(lambda: redis.held() == 2, lambda: f"first has both: {redis.leases()}")
            self.send(second, "second")
            eventually(lambda: any(len(hosts) == 2 for hosts in redis.leases().values()), "second waits")
            # The first has more work than it may do: its next exchange with redis tells it of the second, and it
            # gives up one of its leases before its work is done.
            def part():
                return any(
                    host.startswith("mx1") and n for hosts in redis.leases().values() for host, n in hosts.items()
                )

            for _ in range(18):
                before = redis.said("mx0")
                eventually(lambda: redis.said("mx0") != before or part(), "first says again what it holds")
                if part():
                    break
                go.release()
            self.assertTrue(part(), redis.leases())
            self.assertLess(len(peer.messages), 20)
            for _ in range(40):
                go.release()
            peer.wait_messages(21)

    def test_a_failure_that_one_met_keeps_the_other_from_trying(self):
        with RedisServer() as redis, contextlib.ExitStack() as stack:
            gone = Peer()
            gone.close()
            first, second = self.instances(stack, 2, redis, gone, **SLOW_RETRY)
            self.send(first, "a")
            first.wait_log(r"to=<a@rcpt\.example>, .*status=deferred")
            eventually(lambda: redis.words("KEYS", "penstock:f:*"), "told")
            with Peer(port=gone.port) as back:
                self.send(second, "b")
                second.wait_log(r"to=<b@rcpt\.example>, .*status=deferred \(.*refused")
                self.assertEqual(back.sessions, [])
                seen = self.shown(second, back)[0]
                self.assertEqual(
                    (seen["state"], seen["failures"], seen["trouble"]), ("failing", 1, "connection refused")
                )
                explained = self.pendest(second, "explain", "c@rcpt.example")[0]
                self.assertEqual(
                    (explained["decision"], explained["knowledge"]["backend"], explained["knowledge"]["hosts"]),
                    ("nothing", "redis", 2),
                )
                # The second finds redis again; the first learns of it with its next message.
                second.flush()
                back.wait_messages(1)
                self.send(first, "c")
                eventually(lambda: self.shown(first, back)[0]["failures"] == 0, "first knows that it is back")
                self.send(first, "d")
                eventually(lambda: any("d@rcpt.example" in m.recipients for m in list(back.messages)), "d delivered")

    def test_a_learned_ceiling_and_what_is_forgotten_are_shared(self):
        with RedisServer() as redis, Peer(features=["8BITMIME"]) as peer, contextlib.ExitStack() as stack:
            first, second = self.instances(stack, 2, redis, peer, **ONE_EACH)
            held = Held(peer)
            peer.replies["GREETING"] = lambda session, line: "421 4.7.0 too many" if session.number >= 2 else None
            # The refusal says how many connections the host takes, but only to an instance with working connections.
            self.send(first, "m0", "m1")
            for _ in range(2):
                self.assertTrue(held.reached.acquire(timeout=60))
            self.send(first, *[f"m{n}" for n in range(2, 6)])
            eventually(lambda: [e for e in self.shown(first, peer) if e.get("tolerated_connections") == 2],
                       lambda: f"learned: {self.shown(first, peer)}")
            held.let_go()
            peer.wait_messages(6)
            first.wait_empty_queue()
            peer.replies.pop("GREETING")
            self.send(second, "other")
            peer.wait_messages(7)
            seen = self.shown(second, peer)[0]
            self.assertEqual((seen["tolerated_connections"], seen["connection_limit"]), (2, 2))
            first.tool("pendest", "forget", f"[127.0.0.1]:{peer.port}", check=True)
            self.send(second, "again")
            eventually(lambda: "tolerated_connections" not in self.shown(second, peer)[0], "forgotten there as well")

    def test_leases_of_a_host_that_was_killed_end_by_themselves(self):
        with RedisServer() as redis, Peer(features=["8BITMIME"]) as peer, contextlib.ExitStack() as stack:
            held = Held(peer)
            first, second = self.instances(stack, 2, redis, peer, smtp_destination_concurrency_limit="2",
                                           destdb_lease_time="2s", **ONE_EACH)
            self.send(first, "a", "b")
            eventually(lambda: redis.held() == 2, "first has both")
            eventually(lambda: len(peer.sessions) == 2, "and uses them")
            self.send(second, "c")
            eventually(lambda: any(len(hosts) == 2 for hosts in redis.leases().values()), "second waits")
            self.assertEqual(len(peer.sessions), 2)
            first.kill_all()
            held.let_go()
            eventually(lambda: any("c@rcpt.example" in m.recipients for m in list(peer.messages)), "delivered")
            eventually(lambda: not any(host.startswith("mx0") for hosts in redis.leases().values() for host in hosts),
                       "nothing is left of it")

    def outage(self, away, back, refilled):
        with RedisServer() as redis, Peer() as peer, contextlib.ExitStack() as stack:
            first, second = self.instances(stack, 2, redis, peer)
            self.send(first, "before")
            peer.wait_messages(1)
            eventually(lambda: redis.words("KEYS", "penstock:f:*"), "told")
            away(redis)
            for n, mx in enumerate((first, second, first)):
                self.send(mx, f"while{n}")
                peer.wait_messages(2 + n, seconds=10)
            for mx in (first, second):
                mx.wait_log(r"warning: destination database: .*own knowledge")
            self.send(second, "while3")
            peer.wait_messages(5, seconds=10)
            listed = self.pendest(first, "list")
            self.assertEqual((listed[0]["type"], listed[0]["reached"]), ("backend", False))
            self.assertIn("is not reached", first.tool("pendest", "explain", "x@rcpt.example", check=True).stdout)
            back(redis)
            for mx in (first, second):
                mx.wait_log(r"destination database: shared through .* again, after")
            for n, mx in enumerate((first, second)):
                self.send(mx, f"after{n}")
            peer.wait_messages(7)
            if refilled:
                eventually(lambda: redis.words("KEYS", "penstock:f:*"), "told again")
            eventually(lambda: redis.words("ZCARD", "penstock:hosts") == 2, "both share again")
            for mx in (first, second):
                self.assertEqual(mx.log().count("until it is back"), 1)
                self.assertEqual(mx.log().count(" again, after"), 1)
                mx.wait_empty_queue()

    def test_mail_goes_on_while_redis_is_gone_and_sharing_when_it_is_back_empty(self):
        self.outage(RedisServer.kill, RedisServer.start, refilled=True)

    def test_mail_goes_on_while_redis_does_not_answer(self):
        self.outage(RedisServer.pause, RedisServer.resume, refilled=False)

    def test_scripts_that_redis_forgot_are_given_again(self):
        with RedisServer() as redis, Peer() as peer, contextlib.ExitStack() as stack:
            mx, = self.instances(stack, 1, redis, peer)
            redis.words("SCRIPT", "FLUSH")
            self.send(mx, "a")
            peer.wait_messages(1)
            mx.wait_log(r"destination database: shared through .* again")

    def test_a_host_starts_without_redis_and_shares_when_it_comes(self):
        with RedisServer() as redis, Peer() as peer:
            redis.kill()
            with Instance({**relay_to(peer), **redis.settings()}) as mx:
                self.send(mx, "a")
                peer.wait_messages(1)
                mx.wait_log(r"warning: destination database: .*refused")
                redis.start()
                mx.wait_log(r"destination database: shared through")
                self.send(mx, "b")
                peer.wait_messages(2)
                eventually(lambda: redis.words("KEYS", "penstock:f:*"), "told")

    def test_a_socket_and_a_password_in_a_file(self):
        with RedisServer(password="se cret", unix=True) as redis, Peer() as peer, \
                Instance({**relay_to(peer), **redis.settings()}, start=False) as mx:
            word = mx.write("password", "wrong\n")
            os.chmod(word, 0o640)
            if os.geteuid() == 0:
                os.chown(word, pwd.getpwnam(mail_owner()).pw_uid, -1)
            mx.set(destdb_redis_password=word)
            mx.start()
            mx.wait_log(r"warning: destination database: .*AUTH: WRONGPASS")
            self.send(mx, "a")
            peer.wait_messages(1)
            with open(word, "w") as file:
                file.write("se cret\n")
            mx.reload()
            mx.wait_log(r"destination database: shared through unix:")
            self.assertNotIn("se cret", mx.log())

    def test_a_connection_by_tls_to_the_server_that_is_named_and_no_other(self):
        folder = tempfile.mkdtemp(prefix="pen-redis-tls-")
        self.addCleanup(shutil.rmtree, folder)
        os.chmod(folder, 0o755)
        authority = Authority(os.path.join(folder, "ours"))
        stranger = Authority(os.path.join(folder, "strangers"))
        client = authority.issue("client.test.example")
        for path in (client.pem, client.key, authority.pem):
            os.chmod(path, 0o644)
        with RedisServer(password="secret", certificate=authority.issue("redis.test.example"),
                         authority=authority) as redis, Peer() as peer:
            settings = {**redis.settings(destdb_redis_server=f"inet:127.0.0.1:{redis.tls_port}"),
                        "destdb_redis_password": "secret", "destdb_redis_tls": "yes",
                        "destdb_redis_tls_CAfile": authority.pem, "destdb_redis_tls_name": "redis.test.example",
                        "destdb_redis_tls_cert_file": client.pem, "destdb_redis_tls_key_file": client.key}
            with Instance({**relay_to(peer), **settings}) as mx:
                mx.wait_log(r"destination database: shared through inet:127\.0\.0\.1:")
                self.send(mx, "a")
                peer.wait_messages(1)
                eventually(lambda: redis.words("KEYS", "penstock:f:*"), "told")
            for wrong, word in (({"destdb_redis_tls_name": "other.test.example"}, "certificate is not accepted"),
                                ({"destdb_redis_tls_CAfile": stranger.pem}, "certificate is not accepted"),
                                ({"destdb_redis_tls_cert_file": ""}, "(alert|certificate required|closed)"),
                                ({"destdb_redis_tls": "no"}, "(closed|reset by peer)")):
                with self.subTest(wrong), Instance({**relay_to(peer), **settings, **wrong}) as mx:
                    peer.messages.clear()
                    mx.wait_log(rf"warning: destination database: .*{word}")
                    self.send(mx, "b")
                    peer.wait_messages(1)

    def test_the_loopback_is_each_hosts_own_by_default(self):
        with RedisServer() as redis, Peer() as peer:
            settings = redis.settings()
            settings.pop("destdb_unshared_networks")
            with Instance({**relay_to(peer), **settings}) as mx:
                mx.wait_log(r"destination database: shared through")
                self.send(mx, "a")
                peer.wait_messages(1)
                mx.wait_empty_queue()
                self.assertNotIn("connections_elsewhere", self.shown(mx, peer)[0])
                self.assertEqual(redis.words("KEYS", "penstock:[fl]:*"), [])

    def test_a_stopped_host_takes_its_leases_with_it(self):
        with RedisServer() as redis, Peer() as peer, contextlib.ExitStack() as stack:
            mx, = self.instances(stack, 1, redis, peer, destdb_lease_time="600s")
            self.send(mx, "a")
            peer.wait_messages(1)
            mx.stop()
            eventually(lambda: redis.words("ZCARD", "penstock:hosts") == 0, "gone")
            self.assertEqual(redis.held(), 0)

    def test_wrong_settings_are_told(self):
        for name, value, word in (("destdb_backend", "memcache", "lmdb"),
                                  ("destdb_redis_server", "inet:127.0.0.1:notaport", "no such port"),
                                  ("destdb_redis_server", "unix:relative", "begins with /"),
                                  ("destdb_redis_server", "::1:6379", "brackets"),
                                  ("destdb_redis_password", "/nonexistent/password", "destdb_redis_password"),
                                  ("destdb_redis_user", "penstock", "destdb_redis_password"),
                                  ("destdb_redis_timeout", "1ms", "10ms"),
                                  ("destdb_redis_prefix", "", "destdb_redis_prefix"),
                                  ("destdb_redis_tls", "yes", "destdb_redis_tls_name"),
                                  ("destdb_unshared_networks", "192.0.2.1/24", "destdb_unshared_networks")):
            with self.subTest(setting=name, value=value), \
                    Instance({"destdb_backend": "redis", name: value}, start=False) as mx:
                done = mx.tool("penstock", "check")
                self.assertEqual(done.returncode, 78, done.stdout + done.stderr)
                self.assertRegex(done.stdout + done.stderr, rf"error: .*{word}")
        with Instance({"destdb_redis_server": "not looked at"}, start=False) as mx:
            self.assertEqual(mx.tool("penstock", "check").returncode, 0)


if __name__ == "__main__":
    unittest.main()
