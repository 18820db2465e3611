"""Full disks: new mail gets 452 4.3.1, accepted mail is not lost, deliveries continue, and mail
is taken again once there is room."""
import errno
import os
import subprocess
import tempfile

from harness import *

FULL = "452 4.3.1 "
SOON = {"minimal_backoff_time": "1s", "maximal_backoff_time": "2s", "queue_run_delay": "1s"}
LINE = "x" * 70 + "\r\n"


class DiskFull(Suite):
    loads_the_machine = True

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root: mounts a small tmpfs")

    def small_disk(self, size):
        """A directory on a file system of its own."""
        where = tempfile.mkdtemp(prefix="pen-full-")
        self.addCleanup(os.rmdir, where)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=777", "tmpfs", where],
                              capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest("mount is not permitted here: " + done.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", "-l", where], check=False)
        return where

    def stuff(self, where):
        """Fills the file system up to the last block."""
        with open(os.path.join(where, "filler"), "ab", buffering=0) as f:
            for size in (1 << 20, 4096):
                try:
                    while f.write(b"f" * size):
                        pass
                except OSError as e:
                    self.assertEqual(e.errno, errno.ENOSPC)
        self.assertEqual(os.statvfs(where).f_bavail, 0)

    def attempt(self, mx, name, content):
        """Returns None if the message was accepted, else the refusal."""
        try:
            send(mx.port, "ada@sender.example", [f"{name}@rcpt.example"], content)
            return None
        except Refused as e:
            return e.reply

    def fill(self, mx, content, most=5000):
        """Sends until refused; returns (names accepted, refusal)."""
        accepted = []
        for i in range(most):
            refusal = self.attempt(mx, f"u{i}", content(i))
            if refusal is not None:
                return accepted, refusal
            accepted.append(f"u{i}@rcpt.example")
        self.fail("the disk never got full")

    def drains(self, mx, port, accepted, content):
        """Waits until accepted mail is delivered, and then until mail like the refused one is accepted again."""
        with Peer(port=port) as up:
            mx.flush()
            up.wait_messages(len(accepted), seconds=120)
            self.assertEqual(sorted({m.recipients[0] for m in up.messages}), sorted(accepted))
            mx.wait_empty_queue(60)
            eventually(lambda: self.attempt(mx, "again", content) is None, "mail is taken again", 60)
            eventually(lambda: any(m.recipients == ["again@rcpt.example"] for m in up.messages), "and delivered")

    def test_everything_on_a_full_disk(self):
        where = self.small_disk("100m")
        with Peer() as peer:
            peer.close()  # nothing can leave for now
            with Instance({**relay_to(peer), **SOON}, directory=where) as mx:
                pids = mx.pids()
                accepted, refusal = self.fill(mx, lambda i: mail(str(i), LINE * 1000))
                self.assertGreater(len(accepted), 5)
                self.assertTrue(refusal.startswith(FULL), refusal)
                large = mail("large", LINE * 150000)
                self.assertGreater(len(large), 10 << 20)
                self.assertRegex(self.attempt(mx, "large", large), "^452 4.3.1 ")
                self.stuff(where)
                mx.flush()  # messages that are tried and deferred meanwhile are kept
                self.assertRegex(self.attempt(mx, "large", large), "^452 4.3.1 ")
                self.drains(mx, peer.port, accepted, mail("again", LINE * 1000))
                self.assertEqual(os.statvfs(where).f_bavail, 0)
                self.assertEqual(mx.pids()["qmgr"], pids["qmgr"])
                self.assertEqual(mx.pids()["smtpd"], pids["smtpd"])

    def test_a_full_spool_takes_small_mail_still(self):
        spool = self.small_disk("12m")
        with Peer() as peer:
            peer.close()
            with Instance({**relay_to(peer), **SOON, "spool_directory": spool + "/bodies"}) as mx:
                accepted, refusal = self.fill(mx, lambda i: mail(str(i), LINE * 14500))  # 1 MiB
                self.assertTrue(refusal.startswith(FULL), refusal)
                self.assertGreater(len(accepted), 5)
                self.assertRegex(self.attempt(mx, "large", mail("large", LINE * 150000)), "^452 4.3.1 ")
                self.assertIsNone(self.attempt(mx, "small", mail("small")))
                accepted.append("small@rcpt.example")
                self.drains(mx, peer.port, accepted, mail("again", LINE * 14500))

    def test_a_full_queue_log_refuses_small_mail_too(self):
        log = self.small_disk("48m")
        with Peer() as peer:
            peer.close()
            with Instance({**relay_to(peer), **SOON, "queue_log_directory": log + "/log"}) as mx:
                accepted, refusal = self.fill(mx, lambda i: mail(str(i), LINE * 200))
                self.assertTrue(refusal.startswith(FULL), refusal)
                self.assertGreater(len(accepted), 50)
                # Segments may have been freed meanwhile: fill those as well. This is more than the disk holds.
                for n in range(1000):
                    if (refusal := self.attempt(mx, f"large{n}", mail("large", LINE * 1000))) is not None:
                        break
                    accepted.append(f"large{n}@rcpt.example")
                self.assertRegex(refusal, "^452 4.3.1 ")
                self.stuff(log)
                for n in range(6):  # qmgr also starts with a full disk, repeatedly
                    mx.kill_all()
                    mx.start()
                    eventually(lambda: mx.log().count("queue recovered") == n + 2, f"restart {n} recovers")
                eventually(lambda: len(mx.queue()) == len(accepted), "all of it is there after the restart")
                self.drains(mx, peer.port, accepted, mail("again", LINE * 200))


if __name__ == "__main__":
    unittest.main()
