"""Two hosts share a queue: one runs it, the other waits and takes over when the first dies. Two masters of one host."""
import json
import os
import shutil
import signal
import time

from harness import *
from redis_server import PROGRAM, RedisServer
from tools import Load, Sink, compare, missing_tools


class Host:
    """A second configuration for the queue of `first`: another host, as far as the programs can tell."""

    def __init__(self, first, number):
        self.first, self.etc = first, os.path.join(first.dir, f"etc-{number}")
        shutil.copytree(first.etc, self.etc)
        self.port = free_port()
        with open(os.path.join(self.etc, "main.cf"), "a") as out:
            data = os.path.join(first.dir, f"data-{number}")
            out.write(f"standby_host_name = host{number}\ndata_directory = {data}\n")
        with open(os.path.join(self.etc, "master.cf")) as file:
            text = file.read()
        with open(os.path.join(self.etc, "master.cf"), "w") as file:
            file.write(text.replace(str(first.port), str(self.port)))

    def tool(self, name, *arguments):
        etc, self.first.etc = self.first.etc, self.etc
        try:
            return self.first.tool(name, *arguments)
        finally:
            self.first.etc = etc

    def start(self):
        done = self.tool("penstock", "start")
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr + self.first.log())
        return done.stdout

    def status(self):
        try:
            return json.loads(self.tool("penstock", "status", "--json").stdout)
        except json.JSONDecodeError:
            return {"running": False}

    def serves(self):
        return answers(self.port)

    def master(self):
        return self.status()["master"]


class Standby(Suite):
    lease = "3s"

    def hosts(self, kind, redis=None, **settings):
        mx = Instance({"standby_lease": kind, "standby_lease_time": self.lease, "stop_drain_time": "1s",
                       "local_transport": "discard:", **(redis.settings() if redis else {}), **settings},
                      start=False)
        self.addCleanup(mx.close)
        one, two = Host(mx, 1), Host(mx, 2)
        self.addCleanup(lambda: [h.tool("penstock", "abort") for h in (one, two)])
        return mx, one, two

    def take_over(self, mx, one, two):
        """The first runs, the second waits; the first is killed, the second serves within seconds."""
        one.start()
        eventually(one.serves, lambda: "the first serves\n" + mx.log())
        self.assertIn("standby", two.start())
        self.assertRegex(two.tool("penstock", "status").stdout, "waits as a standby: master pid .*: .*")
        self.assertEqual((two.tool("penstock", "health").returncode, two.serves()), (0, False))
        self.assertEqual(two.tool("penstock", "start").returncode, 69, "it waits already")
        for round in range(3):
            send(one.port, "ada@sender.example", ["ben@local.test.example"], b"Subject: x\r\n\r\nx\r\n")
            os.kill(one.master(), signal.SIGKILL)
            began = time.monotonic()
            eventually(two.serves, lambda: "the standby serves\n" + mx.log())
            self.assertLess(time.monotonic() - began, 20)
            send(two.port, "ada@sender.example", ["ben@local.test.example"], b"Subject: x\r\n\r\nx\r\n")
            one.start()
            one, two = two, one
        # A stop gives the lease back.
        self.assertEqual(one.tool("penstock", "stop").returncode, 0)
        eventually(two.serves, "the standby serves after a stop")
        self.assertEqual(two.tool("penstock", "stop").returncode, 0)

    def test_a_lock_in_the_shared_directory(self):
        self.take_over(*self.hosts("file"))

    @unittest.skipUnless(PROGRAM, "redis-server is not installed")
    def test_a_lease_in_redis(self):
        with RedisServer(acl=True) as redis:
            self.take_over(*self.hosts("redis", redis))
            self.assertEqual(redis.denied(), [])

    @unittest.skipUnless(PROGRAM, "redis-server is not installed")
    def test_redis_goes_and_comes(self):
        with RedisServer() as redis:
            mx, one, two = self.hosts("redis", redis)
            one.start()
            eventually(one.serves, lambda: "the first serves\n" + mx.log())
            two.start()
            # Away for a moment, with all that it knew: the first goes on.
            master = one.master()
            redis.kill()
            redis.start()
            time.sleep(float(self.lease[:-1]) * 2)  # the time in which it would be lost
            self.assertTrue(one.serves())
            self.assertEqual(one.master(), master)
            self.assertFalse(two.serves())
            # Away for longer than a lease: nobody runs the queue, until it is back.
            redis.kill()
            mx.wait_log("every program ends at once")
            eventually(lambda: not one.serves() and not two.serves(), "nobody serves")
            redis.start()
            eventually(lambda: one.serves() != two.serves(), lambda: "one of them serves\n" + mx.log(), 60)

    @unittest.skipUnless(PROGRAM, "redis-server is not installed")
    def test_a_host_that_sleeps_longer_than_its_lease(self):
        with RedisServer() as redis:
            mx, one, two = self.hosts("redis", redis)
            one.start()
            eventually(one.serves, lambda: "the first serves\n" + mx.log())
            two.start()
            with Client(one.port) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                client.expect("RCPT TO:<ben@local.test.example>", "250")
                client.expect("DATA", "354")
                master = one.master()
                with suspended(master):
                    eventually(lambda: two.status().get("why", "").startswith("the lease is ours, but"),
                               lambda: "the second has the lease\n" + mx.log(), 60)
                    # Its queue manager runs, and must not take mail any more.
                    client.raw(b"Subject: x\r\n\r\nx\r\n.\r\n")
                    client.socket.settimeout(3)
                    try:
                        self.assertNotEqual(client.socket.recv(100)[:3], b"250")
                    except OSError:
                        pass  # nothing is said: nothing is promised
            mx.wait_log("every program ends at once", 60)
            eventually(two.serves, lambda: "the standby serves\n" + mx.log(), 60)
            eventually(lambda: "standby" in one.status(), lambda: "the first waits now\n" + mx.log())

    def test_under_load(self):
        if missing_tools():
            self.skipTest(missing_tools())
        with Sink() as sink:
            mx, one, two = self.hosts("file", **relay_to(sink))
            one.start()
            eventually(one.serves, lambda: "the first serves\n" + mx.log())
            two.start()
            taken = []
            for round in range(3):
                load = Load(one.port, "-n", "1000000", "-c", "10", "-m", "20", "--rate", "200", "--domain",
                            "rcpt.example", "--from", "ada@sender.example", "--retries", "0", "--limit", "600",
                            "--id", f"r{round}-")
                self.addCleanup(load.close)
                sent = mx.log().count("status=sent")
                eventually(lambda: mx.log().count("status=sent") > sent + 100, "mail is sent")
                os.kill(one.master(), signal.SIGKILL)
                load.stop()
                taken.append(load)
                eventually(two.serves, lambda: "the standby serves\n" + mx.log())
                one.start()
                one, two = two, one
            eventually(lambda: one.tool("penqueue", "-j").stdout == "", "the queue is empty", 120)
            sink.stop()
            with open(taken[0].ledger, "a") as all_sent:
                for load in taken[1:]:
                    with open(load.ledger) as more:
                        all_sent.write(more.read())
            same, found = compare(taken[0], sink)
            self.assertTrue(same, found)
            self.assertLess(found["duplicated"], 100, "what was in flight at a kill, and no more")


if __name__ == "__main__":
    unittest.main()
