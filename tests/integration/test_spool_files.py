"""penqueue --spool: which message a spool file belongs to, while the suite runs and while it is down."""
import json
import os
import subprocess

from harness import *
from uploads import pieces_of

SETTINGS = {"queue_inline_limit": "8192", "minimal_backoff_time": "1000s", "maximal_backoff_time": "1000s"}
LARGE = 400_000


def content(key, size=LARGE):
    return f"Subject: number{key}\r\n\r\n".encode() + b"".join(pieces_of(key, size))


class Spool(Suite):
    def start(self, **settings):
        with Peer() as peer:
            relay = relay_to(peer)  # nobody listens there once this peer is gone
        mx = Instance({**relay, **SETTINGS, **settings})
        self.addCleanup(mx.close)
        return mx

    def submit(self, mx, key, size=LARGE):
        """Returns the queue id."""
        with Client(mx.port) as client:
            return client.send("ada@one.example", [f"u{key}@rcpt.example"], content(key, size)).split()[-1]

    def listed(self, mx, *words):
        done = mx.tool("penqueue", "--spool", "-j", *words, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def owners(self, mx):
        return {f["number"]: f.get("queue_id") for f in self.listed(mx)}

    def deferred(self, mx, ids):
        eventually(
            lambda: {e["queue_id"] for e in mx.queue() if e["queue_name"] == "deferred"} == set(ids), "all are deferred"
        )

    def test_each_file_names_its_message_and_its_state(self):
        mx = self.start()
        self.assertEqual(self.listed(mx), [])
        self.assertEqual(mx.tool("penqueue", "--spool", check=True).stdout, "The spool has no files\n")
        ids = [self.submit(mx, key) for key in range(3)]
        small = self.submit(mx, 3, 1000)  # in the queue log
        self.deferred(mx, ids + [small])
        files = self.listed(mx)
        self.assertEqual([f["queue_id"] for f in files], ids)
        for key, f in enumerate(files):
            self.assertEqual(f["state"], "in use")
            self.assertEqual(os.stat(f["path"]).st_size, f["size"])
            self.assertEqual(os.path.basename(f["path"]), f"body-{f['number']:08d}")
            with open(f["path"], "rb") as raw:
                self.assertIn(f"Subject: number{key}\r\n".encode(), raw.read())
            shown = mx.tool("pencat", "-b", f["queue_id"], check=True).stdout
            self.assertGreater(f["message_size"], len(shown) - 10)
        # One file is being written, one is free.
        mx.tool("pensuper", "-d", ids[1], check=True)
        eventually(lambda: [f["state"] for f in self.listed(mx)] == ["in use", "free", "in use"], "a file is free")
        self.assertEqual(list(self.owners(mx).values()), [ids[0], None, ids[2]])
        with Client(mx.port) as client:
            client.expect("MAIL FROM:<ada@one.example>", "250")
            client.expect("RCPT TO:<u9@rcpt.example>", "250")
            client.expect("DATA", "354")
            client.raw(content(9))
            eventually(
                lambda: [f["state"] for f in self.listed(mx)] == ["in use", "leased", "in use"], "a file is leased"
            )
            self.assertNotIn("queue_id", self.listed(mx, "2")[0])

    def test_only_those_that_are_named(self):
        mx = self.start()
        ids = [self.submit(mx, key) for key in range(3)]
        files = self.listed(mx)
        numbers = [f["number"] for f in files]
        for words, expected in (([str(numbers[1])], [1]), ([f"body-{numbers[2]:08d}"], [2]), ([files[0]["path"]], [0]),
                                ([ids[1]], [1]), ([ids[0], str(numbers[2])], [0, 2]), ([str(numbers[1]), ids[1]], [1])):
            with self.subTest(words):
                self.assertEqual([f["queue_id"] for f in self.listed(mx, *words)], [ids[i] for i in expected])
        none = mx.tool("penqueue", "--spool", "99", ids[0])
        self.assertEqual((none.returncode, none.stderr), (os.EX_DATAERR, "penqueue: 99: no such file in the spool\n"))
        self.assertIn(ids[0], none.stdout)
        none = mx.tool("penqueue", "--spool", "4bGNsx3Ynxz1kGz8")
        self.assertEqual((none.returncode, none.stdout), (os.EX_DATAERR, ""))
        self.assertIn("4bGNsx3Ynxz1kGz8: no file of the spool is this message's", none.stderr)
        for words in (["body-7"], ["../x"], ["-f"], ["--log"], ["--domain", "one.example"]):
            with self.subTest(words):
                self.assertEqual(mx.tool("penqueue", "--spool", *words).returncode, os.EX_USAGE)

    def test_while_the_system_is_down_and_after_what_is_written_of_the_owner_was_lost(self):
        mx = self.start()
        ids = [self.submit(mx, key) for key in range(3)]
        self.deferred(mx, ids)
        files = self.listed(mx)
        mx.tool("pensuper", "-d", ids[0], check=True)
        mx.stop()
        eventually(lambda: not mx.pids(), "everything has ended")
        # The sector with the owner is not synced: a power cut may lose it, and damage may leave another name there.
        with open(files[2]["path"], "r+b") as raw:
            raw.seek(512)
            raw.write(bytes(512))
        self.assertEqual(self.owners(mx), {f["number"]: owner for f, owner in zip(files, [None, ids[1], ids[2]])})
        self.assertEqual([f["state"] for f in self.listed(mx)], ["free", "in use", "in use"])
        table = mx.tool("penqueue", "--spool", ids[2], check=True).stdout
        self.assertRegex(
            table, rf"(?m)^ +{files[2]['number']} +{files[2]['size']} in use +{ids[2]} +\d+ {files[2]['path']}$"
        )
        self.assertEqual(mx.pids(), {})
        mx.start()
        self.assertEqual(list(self.owners(mx).values()), [None, ids[1], ids[2]])

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become somebody else")
    def test_others_are_shown_nothing(self):
        mx = self.start()
        self.submit(mx, 0)
        # A user who may reach the queue manager (penqueue may be setgid) sees the list of messages, but not this.
        group = os.stat(mx.path("spool", "public")).st_gid
        for words, code in ((["-j"], os.EX_OK), (["--spool"], os.EX_NOPERM), (["--spool", "-j", "1"], os.EX_NOPERM)):
            done = subprocess.run([os.path.join(BIN, "penqueue"), "-c", mx.etc, *words], capture_output=True, text=True,
                                  timeout=60, user=65534, group=group, extra_groups=[])
            self.assertEqual((done.returncode, done.stdout == ""), (code, code != os.EX_OK), done)


if __name__ == "__main__":
    unittest.main()
