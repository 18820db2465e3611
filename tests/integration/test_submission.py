"""Local submission: sendmail, pendrop, pickup, newaliases."""
import email
import errno
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile

from harness import *

TEXT = "Subject: hello\n\nline one\n..two dots\n.\nafter the dot\n"


class Submission(Suite):
    def sendmail(self, mx, *words, stdin=TEXT, status=0, **more):
        """Runs sendmail; returns what was said on standard error."""
        done = subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, *words], input=stdin.encode(),
                              capture_output=True, timeout=60, **more)
        self.assertEqual(done.returncode, status, (words, done))
        return done.stderr.decode()

    def box(self, mx, name):
        """The messages of a virtual mailbox, parsed."""
        return [email.message_from_bytes(m) for m in mx.virtual_box(name).messages()]

    def instance(self, settings=None, **more):
        boxes = " ".join(f"{{ {n}@virtual.test.example = {n}/ }}" for n in ("ada", "bob", "eve", "all"))
        return Instance({"virtual_mailbox_maps": f"inline:{{ {boxes} }}", **(settings or {})}, **more)

    def names(self, mx, folder="maildrop"):
        path = mx.path("spool", folder)
        return sorted(os.listdir(path)) if os.path.isdir(path) else []


class First(Submission):
    def test_a_message_is_completed_and_delivered(self):
        with self.instance() as mx:
            self.sendmail(mx, "-i", "-f", "me@sender.example", "-F", 'Me "X" Q.', "ada@virtual.test.example")
            mx.virtual_box("ada").wait(1)
            message = self.box(mx, "ada")[0]
            self.assertEqual(message["From"], '"Me \\"X\\" Q." <me@sender.example>')
            self.assertIn("from userid %d" % os.getuid(), message["Received"])
            self.assertTrue(message["Date"] and message["Message-Id"])
            self.assertEqual(message.get_payload().replace("\r\n", "\n"), TEXT.split("\n\n", 1)[1])
            mx.wait_log(r"pickup\[\d+\]: \w+: uid=%d from=<me@sender.example>" % os.getuid())
            eventually(lambda: not self.names(mx), "the file is gone")

    def test_a_dot_ends_the_message_unless_told_otherwise(self):
        with self.instance() as mx:
            self.sendmail(mx, "-f", "<>", "ada@virtual.test.example")
            mx.virtual_box("ada").wait(1)
            message = self.box(mx, "ada")[0]
            self.assertEqual(message.get_payload().replace("\r\n", "\n"), "line one\n..two dots\n")
            self.assertEqual(message["Return-Path"], "<>")

    def test_recipients_from_the_header(self):
        with self.instance() as mx:
            self.sendmail(mx, "-t", "-f", "me@sender.example", stdin=(
                "To: Ada <ada@virtual.test.example>,\n\tFriends: bob@virtual.test.example;\n"
                "Bcc: eve@virtual.test.example,\n  ada@virtual.test.example\nSubject: x\n\nbody\n"))
            for name in ("ada", "bob", "eve"):
                mx.virtual_box(name).wait(1)
                message = self.box(mx, name)[0]
                self.assertIsNone(message["Bcc"])
                self.assertNotIn("eve@virtual.test.example", message.as_string().replace(
                    "Delivered-To: eve@virtual.test.example", "").replace("X-Original-To: eve@virtual.test.example", ""))
                self.assertEqual(message["Subject"], "x")
            mx.wait_empty_queue()
            self.assertEqual([len(self.box(mx, n)) for n in ("ada", "bob", "eve")], [1, 1, 1])

    def test_resent_recipients_alone_count(self):
        with self.instance() as mx:
            self.sendmail(mx, "-t", "-f", "me@sender.example", stdin=(
                "Resent-To: bob@virtual.test.example\nTo: ada@virtual.test.example\nSubject: x\n\nbody\n"))
            mx.virtual_box("bob").wait(1)
            mx.wait_empty_queue()
            self.assertEqual(self.box(mx, "ada"), [])

    def test_what_was_submitted_while_the_suite_was_down(self):
        with self.instance() as mx:
            mx.stop()
            for i in range(5):
                self.sendmail(mx, "ada@virtual.test.example", stdin=f"Subject: {i}\n\nbody\n")
            self.assertEqual(len(self.names(mx)), 5)
            mx.start()
            mx.virtual_box("ada").wait(5)
            mx.wait_empty_queue()
            self.assertEqual(sorted(m["Subject"] for m in self.box(mx, "ada")), list("01234"))
            sender = pwd.getpwuid(os.getuid()).pw_name + "@mx.test.example"
            self.assertTrue(all(m["Return-Path"] == f"<{sender}>" and sender in m["From"] for m in self.box(mx, "ada")))
            eventually(lambda: not self.names(mx), "the files are gone")


if __name__ == "__main__":
    unittest.main()
