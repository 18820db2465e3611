"""Two hosts share a queue: one runs it, the other waits and takes over when the first dies. Two masters of one host.

PEN_TAKEOVERS=30: so many takeovers, whose times are printed.
"""
import contextlib
import json
import os
import shutil
import signal
import socket
import threading
import time

import test_upgrade
from harness import *
from redis_server import PROGRAM, RedisServer
from service_store import Store
from tools import Load, Sink, compare, missing_tools

TAKEOVERS = int(os.environ.get("PEN_TAKEOVERS", "3"))


class Network:
    """Passes connections on to a port of this host. While it is cut nothing gets through, and nobody is told."""

    def __init__(self, port):
        self.target, self.whole = port, threading.Event()
        self.whole.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near, far), daemon=True).start()

    def _serve(self, near, far):
        with near, far:
            back = threading.Thread(target=self._pass_on, args=(far, near), daemon=True)
            back.start()
            self._pass_on(near, far)
            back.join()

    def _pass_on(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.whole.wait()  # what was under way comes late, as a network repeats it
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        self.whole.clear()

    def heal(self):
        self.whole.set()

    def close(self):
        self.heal()
        self.listener.close()


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

    def die(self):
        """All at once: with master its keeper, which would start the next one."""
        master = self.master()
        with open(f"/proc/{master}/stat") as file:
            keeper = int(file.read().rsplit(")", 1)[1].split()[1])
        for pid in (keeper, master):
            os.kill(pid, signal.SIGKILL)

    def master(self):
        return self.status()["master"]


class Standby(Suite):
    lease = "3s"

    def hosts(self, kind, redis=None, **settings):
        # With a lock it is the time for a write that the disk makes wait; a takeover does not wait for it.
        time_of = self.lease if kind == "redis" else "20s"
        mx = Instance({"standby_lease": kind, "standby_lease_time": time_of, "stop_drain_time": "1s",
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
        took = []
        for round in range(TAKEOVERS):
            send(one.port, "ada@sender.example", ["ben@local.test.example"], b"Subject: x\r\n\r\nx\r\n")
            one.die()
            began = time.monotonic()
            eventually(two.serves, lambda: "the standby serves\n" + mx.log())
            took.append(time.monotonic() - began)
            self.assertLess(took[-1], 20)
            send(two.port, "ada@sender.example", ["ben@local.test.example"], b"Subject: x\r\n\r\nx\r\n")
            one.start()
            one, two = two, one
        took.sort()
        print(f"{TAKEOVERS} takeovers: {took[len(took) // 2]:.2f} s, at most {took[-1]:.2f} s", flush=True)
        # A stop gives the lease back.
        self.assertEqual(one.tool("penstock", "stop").returncode, 0)
        eventually(two.serves, "the standby serves after a stop")
        self.assertEqual(two.tool("penstock", "stop").returncode, 0)

    def test_a_lock_in_the_shared_directory(self):
        self.take_over(*self.hosts("file"))

    def test_a_master_that_dies_alone_has_a_next_one_on_its_host(self):
        """Its keeper has the lock meanwhile, and its programs go on: there is nothing for the standby to do."""
        mx, one, two = self.hosts("file")
        one.start()
        eventually(one.serves, lambda: "the first serves\n" + mx.log())
        two.start()
        with Client(one.port) as client:
            client.expect("MAIL FROM:<ada@sender.example>", "250")
            master = one.master()
            os.kill(master, signal.SIGKILL)
            eventually(lambda: one.status().get("master") not in (None, master) and one.status().get("services"),
                       lambda: "its next master\n" + mx.log())
            client.expect("RCPT TO:<ben@local.test.example>", "250")
            client.expect("DATA", "354")
            client.expect("Subject: x\r\n\r\nx\r\n.", "250")
        self.assertIn("standby: another host has the lock", mx.log())
        self.assertEqual((one.serves(), two.serves(), mx.log().count("the lease on the queue is ours")),
                         (True, False, 1))
        # A standby's own death is nobody's loss either.
        waiting = two.master()
        os.kill(waiting, signal.SIGKILL)
        eventually(lambda: two.status().get("standby") and two.master() != waiting,
                   lambda: "the standby waits again\n" + mx.log())
        self.assertEqual(one.tool("penstock", "stop").returncode, 0)
        eventually(two.serves, lambda: "the standby serves after a stop\n" + mx.log())
        self.assertEqual(two.tool("penstock", "stop").returncode, 0)

    def test_a_host_whose_masters_do_not_start_lets_the_other_one_serve(self):
        """Programs go on without master, and their keeper has the lock: for as long as the lease alone."""
        mx, one, two = self.hosts("file", standby_lease_time=self.lease)
        one.start()
        eventually(one.serves, lambda: "the first serves\n" + mx.log())
        two.start()
        main, master = os.path.join(one.etc, "main.cf"), one.master()
        with open(f"/proc/{master}/stat") as file:
            keeper = int(file.read().rsplit(")", 1)[1].split()[1])
        with open(main) as file:
            good = file.read()

        def mend():
            with open(main, "w") as file:
                file.write(good)
        self.addCleanup(mend)
        with open(main, "a") as out:
            out.write("message_size_limit = many\n")
        os.kill(master, signal.SIGKILL)
        eventually(two.serves, lambda: "the other one serves\n" + mx.log(), 60)
        self.assertFalse(one.serves())
        self.assertRegex(mx.log(), f"keeper.*no master has been ready for {self.lease[:-1]} s, standby_lease_time: all "
                         "programs end")
        send(two.port, "ada@sender.example", ["ben@local.test.example"], b"Subject: x\r\n\r\nx\r\n")
        # Mended, it is the one that waits.
        mend()
        os.kill(keeper, signal.SIGHUP)
        eventually(lambda: one.status().get("standby"), lambda: "the first waits\n" + mx.log(), 60)
        self.assertEqual((one.serves(), two.serves()), (False, True))
        self.assertEqual(mx.log().count("no master has been ready"), 1)

    def test_a_lock_that_another_host_was_given(self):
        """As after a time without the file server: another name is in the file, and nobody has told this one."""
        mx, one, _ = self.hosts("file")
        one.start()
        eventually(one.serves, lambda: "the first serves\n" + mx.log())
        with open(mx.path("spool", "lease"), "r+") as file:
            self.assertRegex(file.read(), "^host1/[0-9a-f]{16} +\n$")
            file.seek(0)
            file.write(f"{'elsewhere/1':<255}\n")
        mx.wait_log("elsewhere/1: another host has the lease: every program ends at once", 60)
        # Nobody else is there in truth: it waits for the lock, and gets it.
        mx.wait_log("the lease on the queue is ours(.*\n)*.*the lease on the queue is ours", 60)
        eventually(one.serves, lambda: "the first serves again\n" + mx.log(), 60)

    def test_a_host_with_the_lock_that_sleeps(self):
        mx, one, _ = self.hosts("file", standby_lease_time=self.lease)
        one.start()
        eventually(one.serves, lambda: "the first serves\n" + mx.log())
        with Client(one.port) as client:
            client.expect("MAIL FROM:<ada@sender.example>", "250")
            client.expect("RCPT TO:<ben@local.test.example>", "250")
            client.expect("DATA", "354")
            with suspended(one.master()):
                time.sleep(float(self.lease[:-1]))  # the time that it has the queue from a write to the file
                client.raw(b"Subject: x\r\n\r\nx\r\n.\r\n")
                client.socket.settimeout(3)
                try:
                    self.assertNotEqual(client.socket.recv(100)[:3], b"250")
                except OSError:
                    pass  # nothing is said: nothing is promised
        mx.wait_log("the lease could not be renewed in time.*every program ends at once", 60)
        eventually(one.serves, lambda: "the first serves again\n" + mx.log(), 60)

    def comes_too_late(self, **settings):
        """Programs have outlived their master by the descriptors that the service manager keeps."""
        with Instance({"standby_lease_time": self.lease, "local_transport": "discard:", **settings},
                      start=False) as mx, Store(mx) as store:
            store.start()
            eventually(lambda: answers(mx.port), lambda: "it serves\n" + mx.log())
            smtpd = lambda: next((s.get("pid") for s in (mx.status() or {}).get("services", [])
                                  if s["program"] == "smtpd"), None)
            before = smtpd()
            store.kill_master()
            time.sleep(float(self.lease[:-1]))  # the lease runs out
            store.start()
            eventually(lambda: smtpd() not in (None, before), lambda: "other programs run\n" + mx.log(), 60)
            eventually(lambda: answers(mx.port), lambda: "it serves\n" + mx.log())
            send(mx.port, "ada@sender.example", ["ben@local.test.example"], b"Subject: x\r\n\r\nx\r\n")
            mx.wait_empty_queue()
            self.assertEqual(store.stop(), 0)

    def test_the_next_master_comes_when_the_lock_does_not_count_any_more(self):
        self.comes_too_late(standby_lease="file")

    @unittest.skipUnless(PROGRAM, "redis-server is not installed")
    def test_the_next_master_comes_when_the_lease_has_run_out(self):
        with RedisServer() as redis:
            self.comes_too_late(standby_lease="redis", **redis.settings())

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

    def test_a_host_that_waits_becomes_the_next_version(self):
        folder = self.folder()
        os.chmod(folder, 0o755)
        programs = os.path.join(folder, "next")
        version = test_upgrade.other_version(programs)
        mx, one, two = self.hosts("file")
        one.start()
        eventually(one.serves, lambda: "the first serves\n" + mx.log())
        two.start()
        before = two.status()
        self.assertNotEqual(before["version"], version)
        with open(os.path.join(two.etc, "main.cf"), "a") as out:
            out.write(f"daemon_directory = {programs}\n")
        # Not with programs that do not run: it goes on waiting.
        smtpd = os.path.join(programs, "smtpd")
        os.rename(smtpd, smtpd + ".whole")
        with open(smtpd, "w") as file:
            file.write("#!/bin/sh\nexit 127\n")
        os.chmod(smtpd, 0o755)
        done = two.tool("penstock", "upgrade")
        self.assertEqual(done.returncode, 78, done.stdout + done.stderr)
        self.assertRegex(done.stderr, "smtpd cannot be run.*; the standby waits as it did")
        self.assertEqual(two.status(), before)
        os.rename(smtpd + ".whole", smtpd)
        done = two.tool("penstock", "upgrade")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + mx.log())
        self.assertIn(f"the standby is version {version}", done.stdout)
        self.assertEqual(two.status(), {**before, "version": version}, "the same process")
        self.assertEqual((two.serves(), one.serves()), (False, True))
        one.die()
        eventually(two.serves, lambda: "the standby serves\n" + mx.log())
        self.assertEqual(two.status()["version"], version)

    @unittest.skipUnless(PROGRAM, "redis-server is not installed")
    def test_a_network_that_is_split(self):
        """The first host is cut off from redis, and the second is not."""
        with RedisServer() as redis:
            mx, one, two = self.hosts("redis", redis, defer_transports="discard")
            network = Network(redis.port)
            self.addCleanup(network.close)
            with open(os.path.join(one.etc, "main.cf"), "a") as out:
                out.write(f"destdb_redis_server = inet:127.0.0.1:{network.port}\n")
            one.start()
            eventually(one.serves, lambda: "the first serves\n" + mx.log())
            two.start()
            for subject in ("a", "b"):
                send(one.port, "ada@sender.example", ["ben@local.test.example"], mail(subject))

            def queued(host):
                # smtpd may greet before the queue manager that was started with it answers.
                eventually(lambda: host.tool("penqueue", "-j").returncode == 0, mx.log)
                done = host.tool("penqueue", "-j")
                return {json.loads(line)["queue_id"] for line in done.stdout.splitlines()}
            before = queued(one)
            self.assertEqual(len(before), 2)
            with Client(one.port) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                client.expect("RCPT TO:<ben@local.test.example>", "250")
                client.expect("DATA", "354")
                network.cut()
                eventually(two.serves, lambda: "the second serves\n" + mx.log(), 60)
                # The first one has ended its programs before: it takes nothing that the second one would not know.
                client.socket.settimeout(3)
                try:
                    client.raw(b"Subject: x\r\n\r\nx\r\n.\r\n")
                    self.assertNotEqual(client.socket.recv(100)[:3], b"250")
                except OSError:
                    pass
            self.assertFalse(one.serves())
            self.assertIn("every program ends at once", mx.log())
            self.assertEqual(queued(two), before, "what was acknowledged is there, and nothing else")
            send(two.port, "ada@sender.example", ["ben@local.test.example"], mail("c"))
            # What the first one had asked for before the cut comes now.
            network.heal()
            eventually(lambda: "host2" in one.status().get("why", ""), lambda: f"it waits: {one.status()}\n" + mx.log())
            self.assertEqual((one.serves(), two.serves(), len(queued(two))), (False, True, 3))
            self.assertEqual(two.tool("penstock", "stop").returncode, 0)
            eventually(one.serves, lambda: "the first serves again\n" + mx.log(), 60)
            self.assertEqual(len(queued(one)), 3)

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
                one.die()
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
