"""kill -9 under load, with a ledger: what got its 250 arrives whole, and twice only if it was in flight."""
import collections
import os
import pwd
import random
import re
import shutil
import threading
import time

from harness import *
from in_flight import Arrival, in_maildir, judge, queue_id_of, synced
from test_queue_tools import submit

SOON = {"minimal_backoff_time": "1s", "maximal_backoff_time": "2s", "queue_run_delay": "1s",
        "smtp_destination_concurrency_limit": "20"}
# Logs when a result is on disk.
TALKATIVE = {"qmgr": "unix n - n 300 1 qmgr -v"}
# A delivery program learns of qmgr's death in its own time, and then drops its deliveries.
GRACE = {"qmgr": 5}


class Load(threading.Thread):
    """Sends messages until told to stop, or `most`; .accepted holds the numbers of those that got 250."""

    def __init__(self, port, name, recipients, size, most=float("inf")):
        super().__init__(daemon=True)
        self.port, self.name_, self.recipients, self.size, self.most = port, name, recipients, size, most
        self.accepted, self.sent = [], {}
        self.acknowledged = set()  # (key, recipient)
        self.stop = threading.Event()

    def run(self):
        number = 0
        client = None
        while not self.stop.is_set() and len(self.accepted) < self.most:
            number += 1
            key = f"{self.name_}-{number}"
            line = f"payload of {key} ".encode() * 3 + b"\r\n"
            content = mail(key, extra=f"X-Key: {key}\r\n") + line * (self.size // len(line))
            self.sent[key] = content
            try:
                if client is None:
                    client = Client(self.port, timeout=20)
                recipient = self.recipients[number % len(self.recipients)]
                client.send("ada@sender.example", [recipient], content, via="BDAT" if number % 2 else "DATA")
                self.accepted.append(key)
                self.acknowledged.add((key, recipient))
            except (OSError, Refused, ConnectionError, ValueError):
                if client is not None:
                    client.close()
                client = None
                self.stop.wait(0.05)
        if client is not None:
            client.close()


def system_user():
    """Returns an account of this host that mail can be delivered to."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    return next(u.pw_name for u in pwd.getpwall() if u.pw_name in ("games", "nobody") and u.pw_uid)


def arrival(text, sent, at, by, end):
    """Returns what judge() needs to know of a delivered message."""
    key = re.search(rb"(?m)^X-Key: (\S+?)\r?$", text).group(1).decode()
    damage = without_trace(text, sent[key] if end == b"\r\n" else sent[key].replace(b"\r\n", b"\n"), end)
    recipient = re.search(rb"(?m)^\s+for <([^>]+)>", text).group(1).decode()
    return Arrival(key, recipient, queue_id_of(text), at, by, damage)


class Crash(Suite):
    loads_the_machine = True

    def run_case(self, victims, rounds=4, all_at_once=False):
        seed = int(os.environ.get("PEN_SEED", "0")) or random.randrange(1 << 30)
        dice = random.Random(seed)
        recipients = ["a@rcpt.example", "v@virtual.test.example"]
        with Peer() as peer:
            settings = relay_to(peer)
            settings.update(SOON)
            settings["virtual_mailbox_maps"] = inline({"v@virtual.test.example": "v/"})
            with self.subTest(seed=seed), Instance(settings, TALKATIVE) as mx:
                loads = [Load(mx.port, f"c{i}", recipients, 300 if i % 2 else 40000) for i in range(4)]
                for load in loads:
                    load.start()
                kills = collections.Counter()
                for _ in range(rounds):
                    goal = sum(len(x.accepted) for x in loads) + dice.randrange(5, 40)
                    eventually(lambda: sum(len(x.accepted) for x in loads) >= goal,
                               lambda: f"{goal} accepted, has {sum(len(x.accepted) for x in loads)}", 90)
                    if all_at_once:
                        self.killed(peer, mx, mx.kill_all)
                        kills["all"] += 1
                        mx.start()
                    else:
                        for victim in victims:
                            kills[victim] += self.killed(peer, mx, lambda: mx.kill(victim), victim == "smtp")
                if not all_at_once:
                    for victim in victims:
                        self.assertGreater(kills[victim], 0, f"{victim} was never running")
                try:
                    self.ended(mx, loads)
                finally:
                    self.settle(mx, peer, loads)

    def killed(self, peer, mx, kill, ends_sessions=True):
        """A kill() that ends only when the peer has read what the dead program had sent."""
        before = len(mx.kills)
        count = kill()
        if ends_sessions and len(mx.kills) > before:
            dead = mx.kills[-1].dead
            open_then = [s for s in list(peer.sessions) if s.began <= dead]
            eventually(lambda: all(s.closed for s in open_then), "the sessions of the dead end", 60)
            mx.kills[-1] = mx.kills[-1]._replace(dead=time.monotonic())
        return count

    def settle(self, mx, peer, loads):
        sent = {k: v for x in loads for k, v in x.sent.items()}
        arrivals = [arrival(m.content, sent, m.at, "smtp", b"\r\n") for m in peer.messages]
        arrivals += [arrival(text, sent, at, "virtual", b"\n")
                     for _, text, at in in_maildir(mx.virtual_box("v").path)]
        self.judged(mx, loads, arrivals)

    def judged(self, mx, loads, arrivals):
        """Shows that nothing is lost or damaged, and that only deliveries in flight at a kill came twice."""
        acknowledged = set().union(*(x.acknowledged for x in loads))
        results = synced(mx.log().encode())
        self.assertTrue(results, "qmgr says when a result is on disk")
        verdict = judge(acknowledged, arrivals, mx.kills, results, GRACE)
        print(f"\n  {len(acknowledged)} acknowledged, {verdict.doubled} in flight twice", flush=True)
        self.assertEqual(verdict.faults, [])

    def test_kill_smtpd(self):
        self.run_case(["smtpd"])

    def test_kill_qmgr(self):
        self.run_case(["qmgr"])

    def test_kill_trivial_rewrite(self):
        self.run_case(["trivial-rewrite"])

    def test_kill_smtp(self):
        self.run_case(["smtp"])

    def test_kill_virtual(self):
        self.run_case(["virtual"])

    def test_kill_local_while_it_writes_mailbox_files(self):
        user = system_user()
        # A kill may leave a lock file, which blocks the mailbox until it is that old.
        with Instance({**SOON, "mail_spool_directory": "", "stale_lock_time": "20s"}, TALKATIVE, start=False) as mx:
            mx.set(mail_spool_directory=mx.mail_spool)  # without the final slash: one file per user
            mx.start()
            loads = [Load(mx.port, f"c{i}", [user + "@local.test.example"], 300 if i % 2 else 40000) for i in range(3)]
            for load in loads:
                load.start()
            mailbox = os.path.join(mx.mail_spool, user)
            written = lambda: os.path.getsize(mailbox) if os.path.exists(mailbox) else 0
            killed = 0
            for goal in (10, 25, 40, 60):
                eventually(lambda: sum(len(x.accepted) for x in loads) >= goal, f"{goal} accepted", 90)
                before = written()
                if count := mx.kill("local"):
                    # The clock of this test is the length of the mailbox.
                    mx.kills[-1] = mx.kills[-1]._replace(sent=before, dead=written())
                killed += count
            self.ended(mx, loads)
            self.assertGreater(killed, 0)
            with open(mailbox, "rb") as raw:
                content = raw.read()
            starts = [m.start() for m in re.finditer(rb"(?m)^From ada@sender\.example  ", content)]
            sent = {k: v for x in loads for k, v in x.sent.items()}
            arrivals = []
            for start, end in zip(starts, starts[1:] + [len(content)]):
                text = content[content.index(b"\n", start) + 1:end - 1]  # without the empty line at its end
                arrivals.append(arrival(text, sent, start + 1, "local", b"\n"))
            self.judged(mx, loads, arrivals)

    def ended(self, mx, loads):
        """Waits for the end of the loads and for an empty queue."""
        for load in loads:
            load.stop.set()
        for load in loads:
            load.join(60)
        mx.flush()
        mx.wait_empty_queue(120)

    def test_kill_local_while_commands_run(self):
        # One command at a time for one recipient, so that a kill can repeat one at most.
        settings = {**SOON, "default_privs": system_user(), "local_destination_concurrency_limit": "1"}
        with Instance(settings, TALKATIVE, start=False) as mx:
            out = os.path.join(mx.dir, "out")
            os.mkdir(out)
            os.chmod(out, 0o1777)
            script = mx.write("keep", f"echo run >> {out}/runs\nfile=$(mktemp {out}/part.XXXXXXXX)\n"
                                      f"cat > $file && chmod 644 $file && mv $file {out}/done.$(basename $file)\n")
            aliases = mx.write("aliases", f'keep: "|/bin/sh {script}"\n')
            mx.set(alias_maps=f"lmdb:{aliases}", alias_database=f"lmdb:{aliases}")
            mx.tool("penalias", f"lmdb:{aliases}", check=True)
            mx.start()
            recipient = "keep@local.test.example"
            # Commands are slower than clients: what comes without end would not be delivered in the end.
            loads = [Load(mx.port, f"c{i}", [recipient], 300 if i % 2 else 40000, most=50) for i in range(2)]
            for load in loads:
                load.start()

            def runs():
                try:
                    with open(out + "/runs") as lines:
                        return sum(1 for _ in lines)
                except FileNotFoundError:
                    return 0
            for goal in (5, 15, 25, 35):
                # It may have passed the goal before the last kill, and not have caught up again.
                eventually(
                    lambda: runs() >= goal and mx.pids().get("local"), lambda: f"{goal} runs, {runs()} so far", 90
                )
                self.assertGreater(mx.kill("local"), 0)
            self.ended(mx, loads)
            sent = {k: v for x in loads for k, v in x.sent.items()}
            delivered = collections.Counter()
            for name in os.listdir(out):
                if not name.startswith("done."):
                    continue
                with open(os.path.join(out, name), "rb") as raw:
                    found = arrival(raw.read().partition(b"\n")[2], sent, 0, "local", b"\n")  # without the From line
                self.assertIsNone(found.damage, name)
                delivered[found.key] += 1
            self.assertEqual({k for x in loads for k in x.accepted} - delivered.keys(), set(), "lost")
            self.assertLessEqual(runs(), len(delivered) + len(mx.kills), "a command ran again without a kill")

    def test_kill_everything_at_once(self):
        self.run_case([], all_at_once=True)

    def recovered(self, mx, times):
        """Waits until qmgr has finished that many recoveries since the first start."""
        eventually(lambda: mx.log().count("queue recovered: ") >= times,
                   lambda: f"{times} recoveries\n{mx.log()[-3000:]}", 60)

    def no_end_of_qmgr(self, mx):
        self.assertEqual([line for line in mx.log().splitlines() if re.search(r"/qmgr\[.*(fatal|panic): ", line)], [])

    def test_qmgr_killed_twice_in_a_burst_of_ends_of_data(self):
        """The receiver got no answer from the first qmgr and did not ask the second: the third finds the message
        twice."""
        burst = 200
        with Peer() as peer, Instance(
            {**relay_to(peer), **SOON, "smtpd_client_connection_count_limit": "0"}, TALKATIVE
        ) as mx:
            self.recovered(mx, 1)
            for turn in range(3):
                clients = [Client(mx.port, timeout=100) for _ in range(burst)]
                for i, client in enumerate(clients):
                    client.expect(f"MAIL FROM:<ada@sender.example>", "250")
                    client.expect("RCPT TO:<a@rcpt.example>", "250")
                    client.expect("DATA", "354")
                    client.raw(mail(f"{turn}-{i}", extra=f"X-Key: {turn}-{i}\r\n"))
                recoveries = mx.log().count("queue recovered: ")
                for client in clients:
                    client.raw(b".\r\n")
                self.assertEqual(mx.kill("qmgr"), 1)
                self.recovered(mx, recoveries + 1)
                mx.kill("qmgr")
                replies = [client.reply() for client in clients]
                for client in clients:
                    client.close()
                self.recovered(mx, recoveries + 2)
                taken = {f"{turn}-{i}" for i, reply in enumerate(replies) if reply.startswith("250")}
                self.assertGreater(len(taken), 0, replies[:3])
                keys = lambda: {
                    re.search(rb"(?m)^X-Key: (\S+)\r$", m.content).group(1).decode() for m in list(peer.messages)
                }
                eventually(lambda: taken <= keys(), lambda: f"delivered, missing: {sorted(taken - keys())[:5]}", 90)
            mx.flush()
            mx.wait_empty_queue(90)
            self.no_end_of_qmgr(mx)

    def test_drop_files_that_come_back_over_a_kill_of_everything(self):
        """A removal did not reach the disk: deferred mail is submitted again, and all of it is flushed."""
        with Peer() as peer, Instance({**relay_to(peer), "minimal_backoff_time": "300s"}, TALKATIVE) as mx:
            peer.replies["RCPT"] = lambda session, line: "450 4.2.1 later"
            folder, kept = mx.path("spool", "maildrop"), os.path.join(mx.dir, "kept")
            os.mkdir(kept)
            self.recovered(mx, 1)
            mx.stop()
            eventually(lambda: not mx.pids(), "everything has ended")
            for i in range(20):
                submit(
                    mx, "-f", "ada@sender.example", "a@rcpt.example", text=f"Subject: {i}\n\n{'body ' * (i * 900)}\n"
                )
            names = sorted(os.listdir(folder))
            self.assertEqual(len(names), 20)

            def copy(name, source, target):
                shutil.copy2(os.path.join(source, name), os.path.join(target, name + ".part"))
                told = os.stat(os.path.join(source, name))
                os.chown(os.path.join(target, name + ".part"), told.st_uid, told.st_gid)
                os.rename(os.path.join(target, name + ".part"), os.path.join(target, name))
            for name in names:
                copy(name, folder, kept)
            mx.start()
            deferred = lambda: [m["queue_id"] for m in mx.queue() if m["queue_name"] == "deferred"]
            eventually(
                lambda: sorted(deferred()) == names and not os.listdir(folder), lambda: f"deferred: {deferred()}", 60
            )
            for _ in range(2):
                mx.kill_all()
                mx.start()
                self.recovered(mx, 1)
            mx.kill_all()
            for name in names:
                copy(name, kept, folder)
            mx.start()
            submit(mx, "-f", "ada@sender.example", "a@rcpt.example", text="Subject: wakes pickup\n\n")
            eventually(lambda: not os.listdir(folder), "the drop files are taken again", 60)
            mx.flush()
            mx.flush()
            eventually(lambda: {m["queue_id"] for m in mx.queue()} >= set(names), "all are there")
            del peer.replies["RCPT"]
            mx.flush()

            def gone():
                mx.flush()
                return mx.queue() == []
            eventually(gone, lambda: f"the queue drains, left: {mx.queue()[:5]}", 90)
            self.no_end_of_qmgr(mx)
            seen = collections.Counter(re.search(rb"(?m)^Subject: (.*)\r$", m.content).group(1) for m in peer.messages)
            self.assertEqual(set(seen), {str(i).encode() for i in range(20)} | {b"wakes pickup"})

    def test_kill_master_and_start_again(self):
        with Peer() as peer, Instance(relay_to(peer)) as mx:
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail("before"))
            mx.kill_master()
            mx.start()
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail("after"))
            peer.wait_messages(2, seconds=60)

    def test_bounces_survive_the_death_of_bounce(self):
        with Peer() as back:
            settings = relay_to(back, "sender.example")
            settings.update(SOON)
            with Instance(settings) as mx:
                total = 30
                for i in range(total):
                    send(mx.port, "ada@sender.example", [f"no-such-{i}@local.test.example"], mail(str(i)))
                    if i % 10 == 5:
                        mx.kill("bounce")
                mx.wait_empty_queue(120)
                seen = collections.Counter()
                for m in back.messages:
                    found = re.search(rb"Final-Recipient: rfc822; no-such-(\d+)@", m.content)
                    seen[int(found.group(1))] += 1
                self.assertEqual(sorted(seen), list(range(total)))


if __name__ == "__main__":
    unittest.main()
