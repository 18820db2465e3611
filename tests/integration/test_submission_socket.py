"""Mail of processes that cannot use the set-group-id pendrop: open/submit, served by pickup."""
import os
import pwd
import shutil
import socket
import struct
import subprocess
import unittest

from harness import *

TEXT = "Subject: by the socket\n\nline one\n"


class Base(Suite):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to be another user")
        if shutil.which("setpriv") is None:
            self.skipTest("needs setpriv")
        self.user = pwd.getpwnam("games")

    def instance(self, settings=None):
        return Instance({"virtual_mailbox_maps": "inline:{ { ada@virtual.test.example = ada/ } }",
                         **(settings or {})})

    def sendmail(self, mx, *words, stdin=TEXT, status=0, user="games"):
        """sendmail as another user of the host, without new privileges."""
        command = ["setpriv", "--no-new-privs", f"--reuid={user}", f"--regid={user}", "--clear-groups",
                   os.path.join(BIN, "sendmail"), "-C", mx.etc, *words]
        done = subprocess.run(command, input=stdin.encode(), capture_output=True, timeout=60)
        if done.returncode == 126 or b"cannot open shared object" in done.stderr or b"failed to execute" in done.stderr:
            self.skipTest("the programs are where an ordinary user cannot reach them")
        self.assertEqual(done.returncode, status, (words, done))
        return done.stdout.decode() + done.stderr.decode()


class Socket(Base):
    def test_sendmail_delivers_where_it_gets_no_rights(self):
        with self.instance() as mx:
            self.sendmail(mx, "-i", "ada@virtual.test.example")
            mx.virtual_box("ada").wait(1)
            message = mx.virtual_box("ada").messages()[0].decode()
            self.assertIn(f"from userid {self.user.pw_uid}", message)
            self.assertIn("From: games", message)
            mx.wait_log(rf"pickup\[\d+\]: \w+: uid={self.user.pw_uid} from=<games>")
            eventually(lambda: not os.listdir(mx.path("spool", "maildrop")), "the file is gone")

    def test_the_queue_id_is_told(self):
        with self.instance() as mx:
            said = self.sendmail(mx, "-v", "-i", "ada@virtual.test.example").strip()
            mx.wait_log(rf"pickup\[\d+\]: {said}: uid=")

    def test_authorized_submit_users_and_senders_hold(self):
        with self.instance({"authorized_submit_users": "!games, static:all"}) as mx:
            self.assertIn("not permitted to submit", self.sendmail(mx, "ada@virtual.test.example", status=77))
            self.sendmail(mx, "ada@virtual.test.example", user="bin")
            mx.virtual_box("ada").wait(1)
        with self.instance({"local_login_sender_maps": "inline:{ { games = games } { root = * } }"}) as mx:
            self.sendmail(mx, "-f", "root", "ada@virtual.test.example", status=77)
            self.sendmail(mx, "-f", "games", "ada@virtual.test.example")
            mx.virtual_box("ada").wait(1)

    def test_message_size_limit_holds(self):
        with self.instance({"message_size_limit": "2000"}) as mx:
            large = "Subject: x\n\n" + "x" * 60 * 40 + "\n"
            said = self.sendmail(mx, "ada@virtual.test.example", stdin=large, status=69)
            self.assertIn("message too large", said)

    def test_smtp_on_standard_input_submits_as_well(self):
        with self.instance() as mx:
            said = self.sendmail(mx, "-bs", stdin="HELO x\r\nMAIL FROM:<games>\r\n"
                                 "RCPT TO:<ada@virtual.test.example>\r\nDATA\r\nSubject: x\r\n\r\nbody\r\n.\r\n"
                                 "QUIT\r\n")
            self.assertIn("250 2.0.0 Ok: queued", said)
            mx.virtual_box("ada").wait(1)

    def test_it_can_be_turned_off(self):
        with self.instance({"submission_socket": "no"}) as mx:
            self.assertFalse(os.path.exists(mx.path("spool", "open", "submit")))
            self.assertIn("setgid", self.sendmail(mx, "ada@virtual.test.example", status=77))

    def test_nothing_that_the_client_says_names_another_user(self):
        with self.instance({"authorized_submit_users": "root"}) as mx:
            child = os.fork()
            if child == 0:
                try:
                    os.setgroups([])
                    os.setgid(self.user.pw_gid)
                    os.setuid(self.user.pw_uid)
                    with socket.socket(socket.AF_UNIX) as s:
                        s.settimeout(30)
                        s.connect(mx.path("spool", "open", "submit"))
                        s.sendall(struct.pack("<I", 5) + b"hello")
                        os._exit(0 if s.recv(100).startswith(b"65 ") else 1)
                finally:
                    os._exit(2)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            self.sendmail(mx, "ada@virtual.test.example", status=77)

    def test_what_was_acknowledged_survives_a_kill(self):
        with self.instance() as mx:
            os.rename(mx.path("spool", "public", "qmgr"), mx.path("spool", "public", "away"))
            mx.reload()  # pickup cannot reach the queue manager: the message waits in maildrop
            eventually(lambda: answers(mx.port), "smtpd answers")
            self.sendmail(mx, "-i", "ada@virtual.test.example")
            self.assertEqual(len(os.listdir(mx.path("spool", "maildrop"))), 1)
            mx.kill("pickup")
            if os.path.exists(mx.path("spool", "public", "away")):
                os.rename(mx.path("spool", "public", "away"), mx.path("spool", "public", "qmgr"))
            mx.virtual_box("ada").wait(1)
            self.assertIn(f"from userid {self.user.pw_uid}", mx.virtual_box("ada").messages()[0].decode())


if __name__ == "__main__":
    unittest.main()
