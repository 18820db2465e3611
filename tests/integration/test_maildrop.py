"""Maildrop in the queue tools: submitted messages that are not yet in the queue are listed, and can be deleted."""
import fcntl
import json
import os
import subprocess

from harness import *
from test_queue_tools import submit

ODD = "no\033[2J message"


class Maildrop(Suite):
    def folder(self, mx, *name):
        return mx.path("spool", "maildrop", *name)

    def json(self, mx, *words):
        return [json.loads(line) for line in mx.tool("penqueue", "-j", *words, check=True).stdout.splitlines()]

    def dropped(self, mx, *recipients):
        """Submits one message to each recipient while pickup is down; returns their ids."""
        ids = []
        for i, recipient in enumerate(recipients):
            submit(mx, "-f", f"ada{i}@sender.example", recipient, text=f"Subject: {recipient}\n\nbody\n")
            ids += [n for n in os.listdir(self.folder(mx)) if n not in ids]
        return ids

    def down(self):
        mx = Instance()
        self.addCleanup(mx.close)
        mx.stop()
        eventually(lambda: not mx.pids(), "everything has ended")
        return mx


class Listed(Maildrop):
    def check(self, mx, ids):
        entries = {e["queue_id"]: e for e in self.json(mx)}
        self.assertEqual(set(entries), set(ids))
        one = entries[ids[1]]
        self.assertEqual(
            {k: v for k, v in one.items() if k != "arrival_time"},
            {
                "queue_name": "maildrop",
                "queue_id": ids[1],
                "message_size": 38,
                "forced_expire": False,
                "sender": "ada1@sender.example",
                "recipients": [{"orig_address": "b@virtual.test.example", "address": "b@virtual.test.example"}],
            },
        )
        self.assertAlmostEqual(one["arrival_time"], os.stat(self.folder(mx, ids[1])).st_mtime, delta=2)
        text = mx.tool("penqueue", "-p", check=True).stdout
        self.assertRegex(text, rf"(?m)^{ids[1]} +38 .* ada1@sender.example\n +b@virtual.test.example$")
        self.assertIn("in 3 Requests", text)
        done = subprocess.run([os.path.join(BIN, "mailq"), "-C", mx.etc], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, text)
        self.assertEqual([e["queue_id"] for e in self.json(mx, ids[2])], [ids[2]])
        self.assertEqual({e["queue_id"] for e in self.json(mx, "maildrop")}, set(ids))
        self.assertEqual(self.json(mx, "incoming", "active", "deferred", "hold"), [])
        for words, chosen in (
            (["--sender", "ada0@sender.example"], ids[:1]),
            (["--recipient", "b@virtual.test.example"], ids[1:2]),
            (["--domain", "other.example"], ids[2:]),
            (["--older", "1h"], []),
            (["--reply", "refused"], []),
        ):
            self.assertEqual([e["queue_id"] for e in self.json(mx, *words)], chosen, words)
        self.assertRegex(mx.tool("penshape", "maildrop", check=True).stdout, r"virtual.test.example +2")
        self.assertNotIn("virtual.test.example", mx.tool("penshape", check=True).stdout)

    WHO = ("a@virtual.test.example", "b@virtual.test.example", "c@other.example")

    def test_while_the_mail_system_is_down(self):
        mx = self.down()
        self.check(mx, self.dropped(mx, *self.WHO))

    def test_while_nobody_takes_it(self):
        with Instance() as mx:
            submit(mx, "nobody@elsewhere.invalid")  # which proves that pickup runs
            eventually(lambda: not os.listdir(self.folder(mx)), "taken")
            mx.tool("pensuper", "-d", "ALL", check=True)
            eventually(lambda: mx.queue() == [], "empty")
            pickup = mx.pids()["pickup"]
            with suspended(*pickup):
                self.check(mx, self.dropped(mx, *self.WHO))
            eventually(lambda: not os.listdir(self.folder(mx)), "taken in the end")

    def test_a_message_with_many_recipients_is_listed_whole(self):
        mx = self.down()
        recipients = [f"recipient-number-{i:05}@many.example" for i in range(20000)]
        submit(mx, "-t", text="To: " + ",\n ".join(recipients) + "\nSubject: many\n\n")
        entry, = self.json(mx)
        self.assertEqual([r["address"] for r in entry["recipients"]], recipients)

    def test_what_is_no_whole_message_is_named_and_holds_up_nothing(self):
        mx = self.down()
        good, torn, empty, cut = self.dropped(mx, *[f"u{i}@rcpt.example" for i in range(4)])
        os.truncate(self.folder(mx, torn), 150)
        os.truncate(self.folder(mx, empty), 0)
        os.truncate(self.folder(mx, cut), os.path.getsize(self.folder(mx, cut)) - 3)
        with open(self.folder(mx, ODD), "w") as f:
            f.write("x" * 1000)
        os.chmod(self.folder(mx, ODD), 0o744)
        os.mkfifo(self.folder(mx, "pipe"))
        os.symlink("/etc/passwd", self.folder(mx, "link"))
        faults = {e["queue_id"]: e.get("fault", "") for e in self.json(mx)}
        self.assertEqual(set(faults), {good, torn, empty, cut, ODD, "pipe", "link"})
        for name, said in ((good, "^$"), (torn, "trailer"), (empty, "too short"), (cut, "trailer"), (ODD, "not a name"),
                           ("pipe", "not a regular file"), ("link", "not a regular file")):
            self.assertRegex(faults[name], said, name)
        text = mx.tool("penqueue", "-p", check=True).stdout
        self.assertNotIn("\033", text)
        self.assertIn("(not a regular file)", text)
        self.assertNotIn("root:", text)

    def test_a_file_that_is_being_written_is_left_out(self):
        mx = self.down()
        one, other = self.dropped(mx, "a@rcpt.example", "b@rcpt.example")
        os.chmod(self.folder(mx, one), 0o644)
        self.assertEqual([e["queue_id"] for e in self.json(mx)], [other])
        self.assertIn("Deleted: 1 message\n", mx.tool("pensuper", "-d", "ALL", "maildrop", check=True).stderr)
        self.assertEqual(os.listdir(self.folder(mx)), [one])


class Deleted(Maildrop):
    def test_by_id_and_all_where_maildrop_is_named(self):
        mx = self.down()
        one, two, three, four = self.dropped(mx, *[f"u{i}@rcpt.example" for i in range(4)])
        self.assertIn("no such message", mx.tool("pensuper", "-d", one, check=True).stderr)
        self.assertIn("Deleted: 0 messages", mx.tool("pensuper", "-d", "ALL", check=True).stderr)
        self.assertEqual(len(os.listdir(self.folder(mx))), 4)
        done = mx.tool("pensuper", "-n", "-d", "ALL", "maildrop", "--sender", "ada1@sender.example", check=True)
        self.assertEqual((done.stdout.split()[0], "Would delete: 1 message\n" in done.stderr), (two, True), done)
        self.assertIn("Deleted: 1 message\n", mx.tool("pensuper", "-d", one, "maildrop", check=True).stderr)
        self.assertEqual(set(os.listdir(self.folder(mx))), {two, three, four})
        self.assertIn(f"{one}: removed from maildrop", mx.log())
        mx.tool("pensuper", "-d", "-", "maildrop", stdin=f"{two}\n4bGNsx3Ynxz1kGz8\n", check=True)
        self.assertEqual(set(os.listdir(self.folder(mx))), {three, four})
        with open(self.folder(mx, ODD), "w"):
            pass
        os.chmod(self.folder(mx, ODD), 0o744)
        os.truncate(self.folder(mx, four), 100)
        self.assertIn(
            "Deleted: 2 messages\n", mx.tool("pensuper", "-d", "ALL", "maildrop", "deferred", check=True).stderr
        )
        self.assertEqual(os.listdir(self.folder(mx)), [ODD])  # not from pendrop: not ours to delete
        for letter in "hHref":
            done = mx.tool("pensuper", "-" + letter, "ALL", "maildrop")
            self.assertEqual(done.returncode, os.EX_USAGE, done)

    def test_what_is_being_taken_into_the_queue_is_not_deleted(self):
        mx = self.down()
        one, other = self.dropped(mx, "a@rcpt.example", "b@rcpt.example")
        with open(self.folder(mx, one)) as taken:
            fcntl.flock(taken, fcntl.LOCK_EX)  # as pickup holds it
            done = mx.tool("pensuper", "-d", one, "maildrop")
            self.assertEqual(done.returncode, os.EX_SOFTWARE, done)
            self.assertIn("being taken into the queue", done.stderr)
            self.assertIn("Deleted: 1 message\n", mx.tool("pensuper", "-d", "ALL", "maildrop", check=True).stderr)
            self.assertEqual(os.listdir(self.folder(mx)), [one])
        self.assertIn("Deleted: 1 message\n", mx.tool("pensuper", "-d", one, "maildrop", check=True).stderr)

    def test_beside_a_pickup_every_message_is_deleted_or_taken_and_none_both(self):
        with Peer() as peer, Instance(relay_to(peer)) as mx:
            submit(mx, "first@rcpt.example")
            peer.wait_messages(1)
            suspend(*mx.pids()["pickup"])
            ids = self.dropped(mx, *[f"u{i}@rcpt.example" for i in range(40)])
            tool = subprocess.Popen([os.path.join(BIN, "pensuper"), "-c", mx.etc, "-d", "ALL", "maildrop"],
                                    stderr=subprocess.PIPE, text=True)
            resume(*mx.pids()["pickup"])
            said = tool.communicate(timeout=60)[1]
            submit(mx, "last@rcpt.example")
            eventually(lambda: not os.listdir(self.folder(mx)), "maildrop is empty", 90)
            mx.wait_empty_queue(60)
            deleted = int(said.split("Deleted: ")[1].split()[0])
            self.assertEqual(len([i for i in ids if f"{i}: removed from maildrop" in mx.log()]), deleted)
            self.assertEqual(len(peer.messages), 2 + len(ids) - deleted)


if __name__ == "__main__":
    unittest.main()
