"""Only owners can read mail: what other accounts may do with the files of an instance that holds every kind of mail."""
import os
import stat
import subprocess

from harness import *
from test_crash import system_user

BIG = "0123456789abcdef\r\n" * 20000  # large enough for a file of its own


class Modes(Suite):
    def entries(self, top):
        """Yields (path, its status) of the directory and of everything below it."""
        yield top, os.lstat(top)
        for folder, folders, files in os.walk(top):
            for name in folders + files:
                path = os.path.join(folder, name)
                yield path, os.lstat(path)

    def test_no_file_with_mail_is_open_to_others(self):
        down = Peer()
        down.close()
        user = system_user()
        boxes = inline({"dir@virtual.test.example": "dir/", "file@virtual.test.example": "file"})
        settings = {**relay_to(down), "virtual_mailbox_maps": boxes, "minimal_backoff_time": "1h",
                    "maximal_backoff_time": "1h"}
        old = os.umask(0)  # the umask of the caller must not be what hides the files
        self.addCleanup(os.umask, old)
        with Instance(settings, start=False) as mx:
            mx.set(mail_spool_directory=mx.mail_spool)  # one file per user
            mx.start()
            spool = mx.path("spool")

            def submit(*to, status=0):
                done = subprocess.run(
                    [os.path.join(BIN, "sendmail"), "-C", mx.etc, *to],
                    input=b"Subject: x\n\nsecret\n",
                    capture_output=True,
                    timeout=60,
                )
                self.assertEqual(done.returncode, status, done)

            for content in (mail("small"), mail("large", BIG)):
                send(mx.port, "ada@sender.example", ["dir@virtual.test.example", "file@virtual.test.example",
                                                     f"{user}@local.test.example"], content)
            mx.wait_empty_queue()
            for content in (mail("small"), mail("large", BIG)):
                for _ in "held", "deferred":
                    send(mx.port, "ada@sender.example", ["x@rcpt.example"], content)
            eventually(lambda: [m["queue_name"] for m in mx.queue()] == ["deferred"] * 4, "all wait")
            for m in mx.queue()[::2]:
                mx.tool("pensuper", "-h", m["queue_id"], check=True)
            mx.stop()
            submit("x@rcpt.example")
            damaged = os.path.join(spool, "maildrop", os.listdir(os.path.join(spool, "maildrop"))[0])
            with open(damaged, "r+b") as f:
                f.seek(60)
                f.write(b"~")
            mx.start()
            eventually(lambda: os.listdir(os.path.join(spool, "corrupt")), "the damaged one is set aside")
            mx.stop()
            submit("x@rcpt.example")
            mx.start()
            held = [m["queue_name"] for m in mx.queue()].count("hold")
            self.assertEqual(held, 2)
            # Look while it runs, with its sockets; then stopped, so that newly submitted mail stays where pendrop
            # left it.
            self.look(mx, user)
            mx.stop()
            submit("x@rcpt.example")
            self.assertTrue(os.listdir(os.path.join(spool, "maildrop")))
            self.look(mx, user)

    def look(self, mx, user):
        spool = mx.path("spool")
        # All that accounts besides the owner may do: docs/submission.md, master(8).
        group = {os.path.join(spool, "public"): 0o710, os.path.join(spool, "maildrop"): 0o1730}
        if os.stat(mx.path("data")).st_uid == 0:
            # The directories are root's: no account may replace what another has there, nor list it.
            group |= {os.path.join(spool, "private"): 0o710, mx.path("data"): 0o711}
        # Everybody may pass through; only directories lie here, and no mail itself.
        ways = {spool}
        # Everybody reaches the socket for submission, and nothing else lies beside it.
        doors = {os.path.join(spool, "open")}
        submitted = {os.path.join(spool, "maildrop"), os.path.join(spool, "corrupt")}
        seen = 0
        for top in (spool, mx.path("data"), os.path.join(mx.virtual_base, "dir"), os.path.join(mx.virtual_base, "file"),
                    os.path.join(mx.mail_spool, user)):
            for path, status in self.entries(top):
                mode = stat.S_IMODE(status.st_mode)
                with self.subTest(path.removeprefix(mx.dir), mode=oct(mode)):
                    if path in ways:
                        self.assertEqual(mode, 0o755)
                        self.assertFalse([n for n in os.listdir(path) if not os.path.isdir(os.path.join(path, n))])
                    elif path in doors:
                        self.assertIn(mode, (0o711, 0o700))
                        self.assertEqual([n for n in os.listdir(path) if n != "submit"], [])
                    elif path in group:
                        self.assertIn(mode, (group[path], group[path] & ~0o001, 0o700))
                    elif stat.S_ISSOCK(status.st_mode) or stat.S_ISLNK(status.st_mode):
                        pass  # the directory keeps others out
                    elif os.path.dirname(path) in submitted:
                        # The submitter's own, readable for mail_owner; the directory keeps others out.
                        self.assertIn(mode, (0o744, 0o644))
                    else:
                        self.assertEqual(mode & 0o077, 0)
                        seen += stat.S_ISREG(status.st_mode)
        self.assertGreater(seen, 8)
        for folder, prefix in (("log", "segment-"), ("spool", "body-"), ("corrupt", "")):
            self.assertTrue([n for n in os.listdir(os.path.join(spool, folder)) if n.startswith(prefix)], folder)


if __name__ == "__main__":
    unittest.main()
