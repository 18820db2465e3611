"""The queue tools while the suite is down: they list, read, hold, release, requeue and delete; nothing is lost."""
import fcntl
import json
import os
import random
import re
import signal
import subprocess
import threading
import time

import test_orders
from harness import *

SLOW = {"minimal_backoff_time": "1000s", "maximal_backoff_time": "1000s"}


class Stopped(Suite):
    json = test_orders.Orders.json

    def stopped(self, count=3, settings=None):
        """A stopped instance with that many deferred messages to u0@rcpt.example, u1@…, and the port of their next
        hop: (instance, port, ids)."""
        with Peer() as peer:
            port, relay = peer.port, relay_to(peer)
        mx = Instance({**relay, **SLOW, **(settings or {})})
        self.addCleanup(mx.close)
        ids = []
        with Client(mx.port) as client:
            client.expect("EHLO client.example", "250")
            for i in range(count):
                client.expect("MAIL FROM:<ada@one.example>", "250")
                client.expect(f"RCPT TO:<u{i}@rcpt.example>", "250")
                client.expect("DATA", "354")
                client.raw(mail(f"number{i}") + b".\r\n")
                ids.append(client.reply().split()[-1])
        eventually(
            lambda: {e["queue_id"] for e in mx.queue() if e["queue_name"] == "deferred"} == set(ids),
            "all are deferred",
            120,
        )
        mx.stop()
        eventually(lambda: not mx.pids(), "everything has ended")
        return mx, port, ids

    def held(self, mx):
        """Takes the queue's lock, as a tool that works on the queue does; returns a descriptor to close."""
        folder = os.open(mx.path("spool", "log"), os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return folder

    def delivered(self, mx, port, expected):
        """Starts the suite and shows that exactly these numbers arrive, once each."""
        with Peer(port=port) as peer:
            mx.start()
            mx.flush()
            peer.wait_messages(len(expected), seconds=120)
            mx.wait_empty_queue(120)
            arrived = sorted(int(re.search(rb"Subject: number(\d+)", m.content).group(1)) for m in peer.messages)
        self.assertEqual(arrived, sorted(expected))


class Tools(Stopped):
    def test_the_queue_is_listed_as_when_the_system_runs(self):
        mx, port, ids = self.stopped()
        entries = {e["queue_id"]: e for e in self.json(mx)}
        self.assertEqual(set(entries), set(ids))
        one = entries[ids[1]]
        self.assertEqual((one["queue_name"], one["sender"]), ("deferred", "ada@one.example"))
        self.assertEqual(one["recipients"][0]["address"], "u1@rcpt.example")
        self.assertIn("refused", one["recipients"][0]["delay_reason"])
        for name in ("penqueue", "mailq"):
            words = ["-c", mx.etc, "-p"] if name == "penqueue" else ["-C", mx.etc]
            shown = subprocess.run([os.path.join(BIN, name), *words], capture_output=True, text=True, timeout=60)
            self.assertEqual((shown.returncode, shown.stderr), (0, ""))
            self.assertRegex(shown.stdout, r"-- \d+ Kbytes in 3 Requests")
        self.assertRegex(mx.tool("penshape", "deferred", check=True).stdout, r"rcpt.example +3")
        self.assertEqual([e["queue_id"] for e in self.json(mx, ids[2])], [ids[2]])
        self.assertEqual(mx.tool("penqueue", "-j", "4bGNsx3Ynxz1kGz8").returncode, os.EX_DATAERR)
        self.assertEqual(mx.tool("penstock", "status").returncode, os.EX_UNAVAILABLE)
        self.assertEqual(mx.pids(), {})
        self.delivered(mx, port, [0, 1, 2])

    def test_a_message_is_read(self):
        mx, port, ids = self.stopped(2)
        shown = mx.tool("pencat", ids[1], check=True).stdout
        for line in ("recipient: u1@rcpt.example", "Subject: number1", f"*** MESSAGE FILE END deferred/{ids[1]} ***"):
            self.assertIn(line + "\n", shown)
        self.assertIn("no such message", mx.tool("pencat", "-q", "4bGNsx3Ynxz1kGz8").stderr)

    def test_a_large_message_is_read_from_its_spool_file(self):
        mx, port, ids = self.stopped(1, {"queue_inline_limit": "100"})
        self.assertIn("Subject: number0\n", mx.tool("pencat", "-h", ids[0], check=True).stdout)
        mx.tool("pensuper", "-d", ids[0], check=True)
        self.delivered(mx, port, [])

    def test_deleted_messages_do_not_come_back(self):
        mx, port, ids = self.stopped(4)
        self.assertIn("Deleted: 1 message\n", mx.tool("pensuper", "-d", ids[1], check=True).stderr)
        done = mx.tool("pensuper", "-d", "-", stdin=f"{ids[2]}\n", check=True)
        self.assertIn("Deleted: 1 message\n", done.stderr)
        self.assertIn(f"{ids[1]}: removed", mx.log())
        self.assertEqual({e["queue_id"] for e in self.json(mx)}, {ids[0], ids[3]})
        self.delivered(mx, port, [0, 3])

    def test_all_are_deleted(self):
        mx, port, ids = self.stopped(4)
        self.assertIn("Would delete: 4 messages", mx.tool("pensuper", "-n", "-d", "ALL", check=True).stderr)
        self.assertIn("Deleted: 4 messages", mx.tool("pensuper", "-d", "ALL", check=True).stderr)
        self.assertEqual(mx.tool("penqueue", "-p", check=True).stdout, "Mail queue is empty\n")
        self.delivered(mx, port, [])

    def test_what_was_put_on_hold_is_held_after_the_start(self):
        mx, port, ids = self.stopped(3)
        mx.tool("pensuper", "-h", ids[1], check=True)
        self.assertEqual([e["queue_id"] for e in self.json(mx, "hold")], [ids[1]])
        with Peer(port=port) as peer:
            mx.start()
            mx.flush()
            peer.wait_messages(2)
            eventually(lambda: [e["queue_id"] for e in mx.queue()] == [ids[1]], "only the held one is left")
            self.assertEqual(mx.queue()[0]["queue_name"], "hold")
            mx.stop()
            mx.tool("pensuper", "-H", ids[1], check=True)
            mx.start()
            peer.wait_messages(3)
            mx.wait_empty_queue()

    def test_what_was_requeued_is_tried_at_the_start(self):
        mx, port, ids = self.stopped(2)
        self.assertIn("Requeued: 1 message\n", mx.tool("pensuper", "-r", ids[0], check=True).stderr)
        self.assertEqual(
            {e["queue_id"]: e["queue_name"] for e in self.json(mx)}, {ids[0]: "incoming", ids[1]: "deferred"}
        )
        size = len(mx.log())
        mx.start()  # without a flush: the other message waits for its time
        eventually(lambda: f"{ids[0]}: from=<ada@one.example>" in mx.log()[size:], "it is taken into work")
        eventually(lambda: {e["queue_name"] for e in mx.queue()} == {"deferred"}, "its host is still left alone")
        self.assertNotIn(ids[1], mx.log()[size:])

    def test_what_needs_deliveries_is_refused(self):
        mx, port, ids = self.stopped(1)
        for words in (("penqueue", "-f"), ("penqueue", "-i", ids[0]), ("penqueue", "-s", "rcpt.example"),
                      ("pensuper", "-e", ids[0]), ("pensuper", "-f", "ALL")):
            with self.subTest(words):
                done = mx.tool(*words)
                self.assertEqual(done.returncode, os.EX_UNAVAILABLE, done)
                self.assertIn("not running: nothing is delivered or returned before it is started", done.stderr)
        self.delivered(mx, port, [0])

    def test_a_log_on_standard_output_does_not_mix_with_the_listing(self):
        mx, port, ids = self.stopped(2)
        mx.set(maillog_file="/dev/stdout")
        self.assertEqual({e["queue_id"] for e in self.json(mx)}, set(ids))

    def test_no_file_comes_to_belong_to_somebody_else(self):
        mx, port, ids = self.stopped(3)

        def owners():
            found = {}
            for top in ("spool", "data"):
                for folder, _, names in os.walk(mx.path(top)):
                    for name in names + ["."]:
                        found[os.path.join(folder, name)] = os.stat(
                            os.path.join(folder, name), follow_symlinks=False
                        ).st_uid
            return found
        before = owners()
        mx.tool("pensuper", "-h", ids[0], check=True)
        mx.tool("pensuper", "-d", "ALL", check=True)
        after = owners()
        owner = os.stat(mx.path("spool", "log")).st_uid
        self.assertEqual({p: uid for p, uid in after.items() if uid != before.get(p, owner)}, {})

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become somebody else")
    def test_an_ordinary_user_is_told_what_to_do(self):
        mx, port, ids = self.stopped(1)
        for words in (["penqueue", "-p"], ["pensuper", "-d", "ALL"], ["penshape"]):
            def ask():
                return subprocess.run(
                    [os.path.join(BIN, words[0]), "-c", mx.etc, *words[1:]],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    user=65534,
                    group=65534,
                    extra_groups=[],
                )

            done = ask()  # without the group that may reach the socket
            self.assertEqual((done.returncode, done.stdout), (os.EX_UNAVAILABLE, ""), done)
            self.assertIn("is the mail system running?", done.stderr)
            os.chmod(mx.path("spool", "public"), 0o755)
            done = ask()
            os.chmod(mx.path("spool", "public"), 0o710)
            self.assertEqual((done.returncode, done.stdout), (os.EX_UNAVAILABLE, ""), done)
            self.assertIn("only root and the mail owner", done.stderr)
            self.assertIn("penstock start", done.stderr)
        self.delivered(mx, port, [0])

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become somebody else")
    def test_the_mail_owner_may(self):
        mx, port, ids = self.stopped(1)
        st = os.stat(mx.path("spool", "log"))
        log = mx.path("log")
        for path in [log] + [os.path.join(log, n) for n in os.listdir(log)]:
            os.chown(path, st.st_uid, st.st_gid)  # by default the log is root's, and tools refuse to work without it
        done = subprocess.run(
            [os.path.join(BIN, "pensuper"), "-c", mx.etc, "-d", ids[0]],
            capture_output=True,
            text=True,
            timeout=60,
            user=st.st_uid,
            group=st.st_gid,
            extra_groups=[],
        )
        self.assertEqual(done.returncode, 0, done)
        self.delivered(mx, port, [])

    def test_an_instance_that_never_ran_has_no_queue(self):
        with Instance(start=False) as mx:
            done = mx.tool("penqueue", "-p")
            self.assertEqual(done.returncode, os.EX_UNAVAILABLE, done)
            self.assertIn("no queue yet", done.stderr)
            self.assertFalse(os.path.exists(mx.path("spool", "log")))


class Beside(Stopped):
    def test_a_start_waits_for_a_tool_and_loses_nothing(self):
        mx, port, ids = self.stopped(3)
        lock, recovered = self.held(mx), mx.log().count("queue recovered")
        starting = threading.Thread(target=mx.start, kwargs={"wait": False})
        starting.start()
        eventually(lambda: mx.pids().get("qmgr"), "the queue manager is there and waits")
        self.assertEqual(mx.log().count("queue recovered"), recovered)
        os.close(lock)
        starting.join(60)
        self.assertFalse(starting.is_alive())
        self.delivered_now(mx, port, [0, 1, 2])

    def delivered_now(self, mx, port, expected):
        with Peer(port=port) as peer:
            mx.flush()
            peer.wait_messages(len(expected), seconds=120)
            mx.wait_empty_queue(120)

    def test_a_queue_manager_that_does_not_get_the_queue_says_so_and_is_tried_again(self):
        mx, port, ids = self.stopped(2)
        lock = self.held(mx)
        starting = threading.Thread(target=mx.start, kwargs={"wait": False})
        starting.start()
        mx.wait_log("a tool that works on the queue while the mail system is down.*has not ended yet", 60)
        os.close(lock)
        starting.join(90)
        self.assertFalse(starting.is_alive())
        self.delivered_now(mx, port, [0, 1])

    def test_a_tool_that_does_not_get_the_queue_says_so(self):
        mx, port, ids = self.stopped(1)
        lock = self.held(mx)
        done = mx.tool("pensuper", "-d", "ALL")
        os.close(lock)
        self.assertEqual(done.returncode, os.EX_UNAVAILABLE, done)
        self.assertIn("is in use by another process", done.stderr)
        self.delivered(mx, port, [0])

    def test_two_tools_wait_for_each_other(self):
        mx, port, ids = self.stopped(4)
        tools = [
            subprocess.Popen([os.path.join(BIN, "pensuper"), "-c", mx.etc, "-d", i], stderr=subprocess.PIPE, text=True)
            for i in ids
        ]
        for tool in tools:
            self.assertIn("Deleted: 1 message\n", tool.communicate(timeout=120)[1])
            self.assertEqual(tool.returncode, 0)
        self.delivered(mx, port, [])

    def test_a_start_while_all_are_deleted(self):
        mx, port, ids = self.stopped(200)
        tool = subprocess.Popen(
            [os.path.join(BIN, "pensuper"), "-c", mx.etc, "-d", "ALL"], stderr=subprocess.PIPE, text=True
        )
        eventually(lambda: mx.pids().get("qmgr") or tool.poll() is not None, "it began")
        mx.start()
        self.assertIn("Deleted: 200 messages", tool.communicate(timeout=120)[1])
        self.assertEqual(mx.queue(), [])

    def test_a_system_that_runs_without_its_queue_manager_is_left_alone(self):
        with Instance() as mx:
            mx.set_services({"qmgr": None})
            mx.stop()
            mx.tool("penstock", "start")
            eventually(lambda: mx.pids().get("master"), "master runs")
            done = mx.tool("penqueue", "-p")
            self.assertEqual(done.returncode, os.EX_UNAVAILABLE, done)
            self.assertIn("the mail system runs (master pid", done.stderr)


class Killed(Stopped):
    def kill(self, mx):
        """Kills every queue manager with -9; returns whether there was one."""
        pids = mx.pids().get("qmgr", [])
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return bool(pids)

    def test_kill_in_the_middle_of_a_deletion_damages_nothing(self):
        seed = int(os.environ.get("PEN_SEED", random.randrange(1 << 30)))
        chance = random.Random(seed)
        mx, port, ids = self.stopped(400)
        left, cut = set(ids), 0
        for turn in range(8):
            lock = self.held(mx)  # so that the queue manager is certainly killed before it has begun
            tool = subprocess.Popen([os.path.join(BIN, "pensuper"), "-c", mx.etc, "-d", "-"], stdin=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
            wanted = chance.sample(sorted(left), len(left) // 3)
            tool.stdin.write("\n".join(wanted) + "\n")
            tool.stdin.close()
            tool.stdin = None
            # A queue manager of the round before may take a moment to end.
            (pid,) = eventually(
                lambda: (found := mx.pids().get("qmgr", [])) and len(found) == 1 and found, "it waits for the queue"
            )
            os.close(lock)
            if turn > 0:
                time.sleep(chance.uniform(0, 0.1))  # at a random moment of its work
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it ended by itself
            said = tool.communicate(timeout=120)[1]
            now = {e["queue_id"] for e in self.json(mx)}
            self.assertLessEqual(now, left, f"seed {seed}: nothing comes back")
            self.assertLessEqual(left - now, set(wanted), f"seed {seed}: only what was meant is gone")
            if tool.returncode == 0:
                self.assertEqual(left - now, set(wanted), f"seed {seed}: {said}")
            else:
                self.assertEqual(tool.returncode, os.EX_UNAVAILABLE, said)
                self.assertIn("signal 9", said)
                cut += 1
            left = now
        self.assertGreater(cut, 0, f"seed {seed}: no deletion was cut")
        self.assertNotIn("damaged", mx.log())
        self.delivered(mx, port, [i for i, identity in enumerate(ids) if identity in left])

    def test_kill_between_orders_leaves_those_done_done_and_the_others_undone(self):
        mx, port, ids = self.stopped(60)
        orders = [word for i in range(0, 60, 2) for word in ("-d", ids[i], "-h", ids[i + 1])]
        tool = subprocess.Popen(
            [os.path.join(BIN, "pensuper"), "-c", mx.etc, *orders], stderr=subprocess.PIPE, text=True
        )
        eventually(lambda: "placed on hold" in mx.log(), "some are done")
        while tool.poll() is None:
            self.kill(mx)
        said = tool.communicate(timeout=120)[1]
        entries = {e["queue_id"]: e["queue_name"] for e in self.json(mx)}
        deleted, held = said.count("Deleted: 1 message"), said.count("Placed on hold: 1 message")
        self.assertGreater(deleted, 0)
        # Reported deletions are done; the order that was cut short may or may not be.
        self.assertIn(sum(i not in entries for i in ids), (deleted, deleted + 1))
        self.assertIn(sum(name == "hold" for name in entries.values()), (held, held + 1))
        self.assertEqual([i for i in ids[1::2] if i not in entries], [])
        self.assertEqual(tool.returncode == 0, deleted + held == len(ids), said)

    def test_a_tool_that_is_killed_takes_its_queue_manager_with_it(self):
        mx, port, ids = self.stopped(3)
        tool = subprocess.Popen([os.path.join(BIN, "pensuper"), "-c", mx.etc, "-h", "ALL"], stderr=subprocess.DEVNULL)
        eventually(lambda: mx.pids().get("qmgr") or tool.poll() is not None, "it began")
        tool.kill()
        tool.wait()
        eventually(lambda: not mx.pids(), "nothing is left running")
        self.assertEqual({e["queue_id"] for e in self.json(mx)}, set(ids))


class Hopeless(Stopped):
    def test_a_queue_manager_that_dies_again_and_again_is_worked_around(self):
        with Peer() as peer:
            port, relay = peer.port, relay_to(peer)
        with Instance({**relay, **SLOW}) as mx:
            ids = [
                send(mx.port, "ada@one.example", [f"u{i}@rcpt.example"], mail(f"number{i}")).split()[-1]
                for i in range(3)
            ]
            eventually(lambda: len([e for e in mx.queue() if e["queue_name"] == "deferred"]) == 3, "all are deferred")
            hint = "root can list the queue"

            def killed():
                for pid in mx.pids().get("qmgr", []):
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                return hint in mx.log()
            eventually(killed, "what can be done is said", 60)
            mx.stop()
            mx.tool("pensuper", "-d", ids[1], check=True)
            self.delivered(mx, port, [0, 2])

    def test_of_a_damaged_queue_what_is_whole_is_listed(self):
        mx, port, ids = self.stopped(5)
        folder, hit = mx.path("spool", "log"), 0
        for name in os.listdir(folder):
            if not name.startswith("segment-"):
                continue
            with open(os.path.join(folder, name), "r+b") as f:
                content = f.read()
                for m in re.finditer(b"Subject: number3", content):
                    f.seek(m.start())
                    f.write(b"sUBJECT")
                    hit += 1
        self.assertGreater(hit, 0)
        self.assertLessEqual(set(ids) - {ids[3]}, {e["queue_id"] for e in self.json(mx)})
        mx.tool("pensuper", "-d", ids[3])
        self.delivered(mx, port, [0, 1, 2, 4])


if __name__ == "__main__":
    unittest.main()
