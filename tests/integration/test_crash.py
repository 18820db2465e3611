"""kill -9 under load, with a ledger: what got its 250 arrives, whole, and twice only if it was in flight."""
import collections
import os
import pwd
import random
import re
import threading

from harness import *

SOON = {"minimal_backoff_time": "1s", "maximal_backoff_time": "2s", "queue_run_delay": "1s",
        "smtp_destination_concurrency_limit": "20"}


class Load(threading.Thread):
    """Sends messages until told to stop; .accepted holds the numbers that got 250."""

    def __init__(self, port, name, recipients, size):
        super().__init__(daemon=True)
        self.port, self.name_, self.recipients, self.size = port, name, recipients, size
        self.accepted, self.sent = [], {}
        self.stop = threading.Event()

    def run(self):
        number = 0
        client = None
        while not self.stop.is_set():
            number += 1
            key = f"{self.name_}-{number}"
            line = f"payload of {key} ".encode() * 3 + b"\r\n"
            content = mail(key, extra=f"X-Key: {key}\r\n") + line * (self.size // len(line))
            self.sent[key] = content
            try:
                if client is None:
                    client = Client(self.port, timeout=20)
                client.send("ada@sender.example", [self.recipients[number % len(self.recipients)]], content,
                            via="BDAT" if number % 2 else "DATA")
                self.accepted.append(key)
            except (OSError, Refused, ConnectionError, ValueError):
                if client is not None:
                    client.close()
                client = None
                self.stop.wait(0.05)
        if client is not None:
            client.close()


def system_user():
    """An account that mail can be delivered for here."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    return next(u.pw_name for u in pwd.getpwall() if u.pw_name in ("games", "nobody") and u.pw_uid)


class Crash(Suite):
    def run_case(self, victims, rounds=4, all_at_once=False):
        seed = int(os.environ.get("PEN_SEED", "0")) or random.randrange(1 << 30)
        dice = random.Random(seed)
        recipients = ["a@rcpt.example", "v@virtual.test.example"]
        with Peer() as peer:
            settings = relay_to(peer)
            settings.update(SOON)
            settings["virtual_mailbox_maps"] = inline({"v@virtual.test.example": "v/"})
            with self.subTest(seed=seed), Instance(settings) as mx:
                loads = [Load(mx.port, f"c{i}", recipients, 300 if i % 2 else 40000) for i in range(4)]
                for load in loads:
                    load.start()
                kills = collections.Counter()
                for _ in range(rounds):
                    goal = sum(len(x.accepted) for x in loads) + dice.randrange(5, 40)
                    eventually(lambda: sum(len(x.accepted) for x in loads) >= goal,
                               lambda: f"{goal} accepted, has {sum(len(x.accepted) for x in loads)}", 90)
                    if all_at_once:
                        mx.kill_all()
                        kills["all"] += 1
                        mx.start()
                    else:
                        for victim in victims:
                            kills[victim] += mx.kill(victim)
                for load in loads:
                    load.stop.set()
                for load in loads:
                    load.join(60)
                if not all_at_once:
                    for victim in victims:
                        self.assertGreater(kills[victim], 0, f"{victim} was never running")
                mx.flush()
                try:
                    mx.wait_empty_queue(120)
                finally:
                    self.settle(mx, peer, loads)

    def settle(self, mx, peer, loads):
        sent = {k: v for x in loads for k, v in x.sent.items()}
        accepted = [k for x in loads for k in x.accepted]
        arrived = collections.Counter()
        for end, texts in ((b"\r\n", [m.content for m in peer.messages]), (b"\n", mx.virtual_box("v").messages())):
            for text in texts:
                key = re.search(rb"^X-Key: (\S+?)\r?$", text, re.M).group(1).decode()
                arrived[key] += 1
                wanted = sent[key] if end == b"\r\n" else sent[key].replace(b"\r\n", b"\n")
                self.assertIsNone(without_trace(text, wanted, end), key)
        lost = [k for k in accepted if not arrived[k]]
        self.assertEqual(lost, [], f"{len(lost)} of {len(accepted)} acknowledged messages lost")
        doubled = sum(1 for n in arrived.values() if n > 1)
        print(f"\n  {len(accepted)} acknowledged, all arrived; {doubled} in flight twice", flush=True)
        # In flight at a kill at most: the window of each connection and a slot of each mailbox delivery.
        self.assertLess(doubled, 400)

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
        # A kill may leave a lock file behind, which holds the mailbox up until it is that old.
        with Instance({**SOON, "mail_spool_directory": "", "stale_lock_time": "20s"}, start=False) as mx:
            mx.set(mail_spool_directory=mx.mail_spool)  # without the slash: one file per user
            mx.start()
            loads = [Load(mx.port, f"c{i}", [user + "@local.test.example"], 300 if i % 2 else 40000) for i in range(3)]
            for load in loads:
                load.start()
            killed = 0
            for goal in (10, 25, 40, 60):
                eventually(lambda: sum(len(x.accepted) for x in loads) >= goal, f"{goal} accepted", 90)
                killed += mx.kill("local")
            for load in loads:
                load.stop.set()
            for load in loads:
                load.join(60)
            self.assertGreater(killed, 0)
            mx.flush()
            mx.wait_empty_queue(120)
            with open(os.path.join(mx.mail_spool, user), "rb") as raw:
                parts = re.split(rb"(?m)^From ada@sender\.example  .*\n", raw.read())[1:]
            arrived = collections.Counter()
            sent = {k: v for x in loads for k, v in x.sent.items()}
            for part in parts:
                key = re.search(rb"^X-Key: (\S+)$", part, re.M).group(1).decode()
                arrived[key] += 1
                self.assertIsNone(without_trace(part[:-1], sent[key].replace(b"\r\n", b"\n"), b"\n"), key)
            self.assertEqual([k for x in loads for k in x.accepted if not arrived[k]], [])

    def test_kill_everything_at_once(self):
        self.run_case([], all_at_once=True)

    def test_kill_master_and_start_again(self):
        with Peer() as peer, Instance(relay_to(peer)) as mx:
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail("before"))
            self.assertEqual(mx.kill("master"), 1)
            eventually(lambda: not mx.pids().get("master"), "master gone")
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
