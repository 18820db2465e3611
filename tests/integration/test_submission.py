"""Local submission: sendmail, pendrop, pickup, newaliases."""
import email
import email.utils
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
        """Runs sendmail; returns its standard error."""
        done = subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, *words], input=stdin.encode(),
                              capture_output=True, timeout=60, **more)
        self.assertEqual(done.returncode, status, (words, done))
        return done.stderr.decode()

    def box(self, mx, name):
        """Returns the messages of a virtual mailbox, parsed."""
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

    def test_the_name_is_a_comment_with_the_obsolete_format(self):
        with self.instance({"header_from_format": "obsolete"}) as mx:
            self.sendmail(mx, "-i", "-f", "me@sender.example", "-F", "Me (X) Q.", "ada@virtual.test.example")
            mx.virtual_box("ada").wait(1)
            self.assertEqual(self.box(mx, "ada")[0]["From"], "me@sender.example (Me \\(X\\) Q.)")

    def test_the_null_sender_has_no_name(self):
        with self.instance() as mx:
            self.sendmail(mx, "-i", "-f", "<>", "-F", "Me", "ada@virtual.test.example")
            mx.virtual_box("ada").wait(1)
            name, address = email.utils.parseaddr(self.box(mx, "ada")[0]["From"])
            self.assertEqual((name, address.split("@")[0]), ("", "MAILER-DAEMON"))

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
                self.assertNotIn(
                    "eve@virtual.test.example",
                    message.as_string()
                    .replace("Delivered-To: eve@virtual.test.example", "")
                    .replace("X-Original-To: eve@virtual.test.example", ""),
                )
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


class Wrong(Submission):
    def test_a_word_that_is_no_address_comes_back_and_the_others_go(self):
        with self.instance({"mydestination": "mx.test.example"}) as mx:
            self.sendmail(mx, "-f", "ada@virtual.test.example", "bob@virtual.test.example", "eve@virtual..test.example")
            mx.virtual_box("bob").wait(1)
            mx.virtual_box("ada").wait(1)
            self.assertIn("eve@virtual..test.example", self.box(mx, "ada")[0].as_string())
            mx.wait_empty_queue()

    def test_wrong_use_says_what_and_why(self):
        with self.instance({"message_size_limit": "5000"}, start=False) as mx:
            mx.tool("penstock", "start", check=True)
            mx.stop()
            for words, stdin, status, said in (
                    ([], TEXT, 64, "recipient"),
                    (["-t"], TEXT, 64, "no recipient"),
                    (["-bv", "-t"], TEXT, 64, "-bv"),
                    (["-bv"], TEXT, 64, "recipient"),
                    (["-bs", "ada@virtual.test.example"], "", 64, "-bs"),
                    (["-XVab", "ada"], TEXT, 64, "-XV needs two characters from -=+"),
                    (["-O", "requiretls=maybe", "ada"], TEXT, 64, "yes or no"),
                    (["-O", "SMTPUTF8", "ada"], TEXT, 64, "yes or no"),
                    (["-bx"], TEXT, 64, "-bx"),
                    (["-f", "a, b", "ada"], TEXT, 64, "-f"),
                    (["@", "'@'"], TEXT, 64, "not an address: @ '@'"),
                    (["ada@virtual.test.example"], "x" * 5001, 69, "message_size_limit"),
                    (["-C", "/nonexistent", "ada"], TEXT, 78, "/nonexistent")):
                with self.subTest(words):
                    self.assertIn(said, self.sendmail(mx, *words, stdin=stdin, status=status))
            self.assertEqual(self.names(mx), [])

    def test_a_full_disk_refuses_and_keeps_nothing(self):
        if os.geteuid() != 0:
            self.skipTest("needs root: mounts a small tmpfs")
        with self.instance() as mx:
            mx.stop()
            where = mx.path("spool", "maildrop")
            done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=1730", "tmpfs", where],
                                  capture_output=True, text=True)
            if done.returncode != 0:
                self.skipTest("mount is not permitted here: " + done.stderr.strip())
            try:
                said = self.sendmail(mx, "-i", "ada@virtual.test.example", stdin=TEXT + "x" * 100000, status=75)
                self.assertIn(os.strerror(errno.ENOSPC), said)
                self.assertEqual(self.names(mx), [])
                self.sendmail(mx, "ada@virtual.test.example")
                shutil.chown(where, *self.owner(mx))
                mx.start()
                mx.virtual_box("ada").wait(1)
                eventually(lambda: not self.names(mx), "the file is gone")
                mx.stop()
            finally:
                subprocess.run(["umount", "-l", where], check=False)

    def owner(self, mx):
        st = os.stat(mx.path("spool", "public"))
        return st.st_uid, st.st_gid

    def test_what_is_broken_off_is_never_sent(self):
        with self.instance() as mx:
            for signo in (signal.SIGTERM, signal.SIGKILL):
                submitter = subprocess.Popen(
                    [os.path.join(BIN, "sendmail"), "-i", "-C", mx.etc, "ada@virtual.test.example"],
                    stdin=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
                submitter.stdin.write(TEXT.encode() + b"x" * 200000)
                submitter.stdin.flush()
                eventually(lambda: self.names(mx), "a file is being written")
                children = f"/proc/{submitter.pid}/task/{submitter.pid}/children"
                with open(children) as text:
                    os.kill(int(text.read().split()[0]), signo)
                submitter.stdin.close()
                self.assertEqual(submitter.wait(30), 75, submitter.stderr.read())
                submitter.stderr.close()
                if signo == signal.SIGTERM:
                    self.assertEqual(self.names(mx), [])
            self.sendmail(mx, "ada@virtual.test.example")  # wakes pickup, which finds the incomplete one
            mx.virtual_box("ada").wait(1)
            eventually(lambda: not self.names(mx), "the half file is gone")
            mx.wait_log(r"pickup\[\d+\]: \w+: removed: its submission was broken off")
            # sendmail itself dies: pendrop sees that the message is incomplete
            submitter = subprocess.Popen(
                [os.path.join(BIN, "sendmail"), "-i", "-C", mx.etc, "ada@virtual.test.example"],
                stdin=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            submitter.stdin.write(b"x" * 200000)
            submitter.stdin.flush()
            eventually(lambda: self.names(mx), "a file is being written")
            submitter.kill()
            submitter.wait()
            submitter.stdin.close()
            eventually(lambda: not self.names(mx), "pendrop removed it")
            self.assertEqual(len(self.box(mx, "ada")), 1)

    def test_a_damaged_file_is_set_aside_and_what_cannot_be_queued_too(self):
        with self.instance() as mx:
            mx.stop()
            self.sendmail(mx, "ada@virtual.test.example")
            damaged = self.names(mx)[0]
            with open(mx.path("spool", "maildrop", damaged), "r+b") as f:
                f.seek(60)
                f.write(b"~")
            self.sendmail(mx, "-f", "bob@virtual.test.example", "ada@virtual.test.example",
                          stdin="Received: x\n" * 60 + "Subject: never\n\nround and round\n")
            self.sendmail(mx, "-f", "<>", "ada@virtual.test.example", stdin="Received: x\n" * 60 + "\nnobody's\n")
            self.sendmail(mx, "ada@virtual.test.example")
            mx.start()
            mx.virtual_box("ada").wait(1)
            eventually(lambda: len(self.names(mx, "corrupt")) == 3 and not self.names(mx), "all set aside")
            mx.wait_log(rf"pickup\[\d+\]: warning: {damaged}: not taken: .*corrupt")
            mx.wait_log(r"pickup\[\d+\]: warning: \w+: not taken: too many hops")
            self.assertEqual(len(self.box(mx, "ada")), 1)
            mx.virtual_box("bob").wait(1)
            mx.wait_empty_queue()
            notice = self.box(mx, "bob")
            self.assertEqual(len(notice), 1)
            text = notice[0].as_string()
            self.assertEqual(notice[0]["Return-Path"], "<>")
            self.assertIn("Final-Recipient: rfc822; ada@virtual.test.example", text)
            self.assertIn("Status: 5.4.0", text)
            self.assertIn("Subject: never", text)
            self.assertNotIn("round and round", text)  # the original is kept in corrupt


class Dialogue(Submission):
    """sendmail -bs"""

    def talk(self, mx, text, status=0):
        done = subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, "-bs"], input=text.encode(),
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, status, done)
        return [line[:3] for line in done.stdout.decode().splitlines() if line[3:4] == " "], done

    def test_smtp_on_standard_input_submits_whether_the_suite_runs_or_not(self):
        with self.instance() as mx:
            mx.stop()
            codes, done = self.talk(
                mx,
                "EHLO me\r\nMAIL FROM:<bob@virtual.test.example> SIZE=100\r\n"
                "RCPT TO:<ada@virtual.test.example> NOTIFY=SUCCESS\r\nDATA\r\n"
                "Subject: one\r\n\r\n..dot\r\n.\r\nMAIL FROM:<>\r\nRCPT TO:<eve@virtual.test.example>\r\n"
                "DATA\r\nSubject: two\r\n\r\nx\r\n.\r\nQUIT\r\n",
            )
            self.assertEqual(codes, "220 250 250 250 354 250 250 250 354 250 221".split(), done)
            self.assertEqual(len(self.names(mx)), 2)
            mx.start()
            for name in ("ada", "bob", "eve"):
                mx.virtual_box(name).wait(1)
            mx.wait_empty_queue()
            self.assertEqual(self.box(mx, "ada")[0].get_payload().replace("\r\n", "\n"), ".dot\n")
            self.assertIn("Action: delivered", self.box(mx, "bob")[0].as_string())
            self.assertEqual(self.box(mx, "eve")[0]["Return-Path"], "<>")

    def test_what_ends_before_its_dot_or_is_too_large_is_not_submitted(self):
        with self.instance({"message_size_limit": "5000"}, start=False) as mx:
            mx.tool("penstock", "start", check=True)
            mx.stop()
            envelope = "EHLO me\r\nMAIL FROM:<>\r\nRCPT TO:<ada@virtual.test.example>\r\nDATA\r\n"
            self.assertEqual(self.talk(mx, envelope + "half\r\n")[0][-1], "354")
            self.assertEqual(self.talk(mx, envelope + "x" * 6000 + "\r\n.\r\nQUIT\r\n")[0][-2:], ["552", "221"])
            self.assertEqual(self.talk(mx, "EHLO me\r\nMAIL FROM:<> SIZE=6000\r\nQUIT\r\n")[0][-2:], ["552", "221"])
            self.assertEqual(self.names(mx), [])


class Rights(Submission):
    NOBODY = {"user": 65534, "group": 65534, "extra_groups": []}

    def commands(self, mx):
        """Puts sendmail and a setgid pendrop into a directory of the instance."""
        if os.geteuid() != 0:
            self.skipTest("needs root: makes pendrop setgid and runs it as another user")
        if sanitizers:
            self.skipTest("LeakSanitizer ends a setgid process, which it may not look into")
        where = os.path.join(mx.dir, "bin")
        os.makedirs(where)
        if os.statvfs(where).f_flag & os.ST_NOSUID:
            self.skipTest("the file system of the scratch directory is nosuid")
        for name in ("sendmail", "pendrop"):
            shutil.copy(os.path.join(BIN, name), where)
        shutil.chown(os.path.join(where, "pendrop"), 0, os.stat(mx.path("spool", "maildrop")).st_gid)
        os.chmod(os.path.join(where, "pendrop"), 0o2755)
        return where

    def run_as_nobody(self, where, etc, *words, status=0, **more):
        done = subprocess.run([os.path.join(where, "sendmail"), "-C", etc, *words], input=TEXT, cwd="/", text=True,
                              capture_output=True, timeout=60, **self.NOBODY, **more)
        self.assertEqual(done.returncode, status, done)
        return done.stderr

    def test_an_ordinary_user_submits_through_the_group(self):
        with self.instance() as mx:
            where = self.commands(mx)
            self.assertEqual(os.stat(mx.path("spool", "maildrop")).st_mode & 0o7777, 0o1730)
            mx.stop()
            self.run_as_nobody(where, mx.etc, "ada@virtual.test.example", env={"LD_PRELOAD": "/x", "TZ": "UTC"})
            file = mx.path("spool", "maildrop", self.names(mx)[0])
            self.assertEqual(os.stat(file).st_uid, 65534)
            listed = subprocess.run(["ls", os.path.dirname(file)], capture_output=True, **self.NOBODY)
            self.assertNotEqual(listed.returncode, 0)
            mx.start()
            mx.virtual_box("ada").wait(1)
            mx.wait_log(r"uid=65534 from=<nobody@mx\.test\.example>|uid=65534 from=<nobody>")
            # Without the group, and without pickup, which takes mail at a socket then, the reason is printed.
            mx.stop()
            os.chmod(os.path.join(where, "pendrop"), 0o755)
            self.assertIn("setgid", self.run_as_nobody(where, mx.etc, "ada@virtual.test.example", status=77))

    def test_a_user_who_is_not_permitted_and_a_configuration_of_his_own(self):
        with self.instance({"authorized_submit_users": "!nobody, static:anyone"}) as mx:
            where = self.commands(mx)
            said = self.run_as_nobody(where, mx.etc, "ada@virtual.test.example", status=77)
            self.assertIn("authorized_submit_users", said)
            own = os.path.join(mx.dir, "own")
            shutil.copytree(mx.etc, own)
            for path in (own, os.path.join(own, "main.cf")):
                shutil.chown(path, 65534, 65534)
            with open(os.path.join(own, "main.cf"), "a") as out:
                out.write("authorized_submit_users = static:anyone\n")
            self.assertIn("belong to root", self.run_as_nobody(where, own, "ada@virtual.test.example", status=77))
            self.assertEqual(self.names(mx), [])
            self.sendmail(mx, "ada@virtual.test.example")  # root may submit
            mx.virtual_box("ada").wait(1)


    def test_another_main_cf_of_root_s_lifts_nothing_that_the_instance_s_forbids(self):
        with self.instance({"authorized_submit_users": "!nobody, static:anyone"}) as mx:
            where = self.commands(mx)
            other = os.path.join(mx.dir, "other")
            shutil.copytree(mx.etc, other)
            with open(os.path.join(other, "main.cf"), "a") as out:
                out.write("authorized_submit_users = static:anyone\n")
            self.assertIn(
                "another configuration", self.run_as_nobody(where, other, "ada@virtual.test.example", status=77)
            )
            # However its path is written, the instance's own configuration counts.
            link = os.path.join(mx.dir, "link")
            os.symlink(mx.etc, link)
            self.assertIn(
                "authorized_submit_users", self.run_as_nobody(where, link, "ada@virtual.test.example", status=77)
            )
            self.assertEqual(self.names(mx), [])
            # A configuration whose mail system was never started says nothing of any queue.
            mx.stop()
            os.unlink(mx.path("spool", "config_directory"))
            self.assertIn("not been started", self.run_as_nobody(where, mx.etc, "ada@virtual.test.example", status=69))


class Crash(Submission):
    def test_pickup_or_qmgr_killed_under_load_loses_nothing_and_doubles_nothing(self):
        with Peer() as peer:
            peer.close()  # no delivery is in flight when qmgr dies
            with self.instance({**relay_to(peer), "minimal_backoff_time": "1h", "maximal_backoff_time": "1h"}) as mx:
                mx.stop()
                for i in range(150):
                    size = 70000 if i % 10 == 0 else 10
                    self.sendmail(mx, f"u{i}@rcpt.example", stdin="Subject: x\n\n" + "x" * size + "\n")
                mx.start()
                for victim in ("pickup", "pickup", "qmgr", "pickup"):
                    left = len(self.names(mx))
                    mx.kill(victim)
                    eventually(lambda: len(self.names(mx)) < left or left == 0, "it goes on", 60)
                eventually(lambda: not self.names(mx), "all taken", 60)
                eventually(lambda: len(mx.queue()) == 150, lambda: f"all queued, each once: {len(mx.queue())}", 20)
                with Peer(port=peer.port) as up:
                    mx.flush()
                    up.wait_messages(150, seconds=60)
                    mx.wait_empty_queue(60)
                    self.assertEqual(sorted(r for m in up.messages for r in m.recipients),
                                     sorted(f"u{i}@rcpt.example" for i in range(150)))
                # Both at once: a message that qmgr had accepted may come twice (docs/submission.md), but none is lost.
                for i in range(40):
                    self.sendmail(mx, f"v{i}@rcpt.example")
                    if i == 30:
                        mx.kill_all()
                mx.start()
                eventually(lambda: not self.names(mx), "all taken", 60)
                def there():  # what has gone by a connection that was open still, and what waits
                    queued = {r["address"] for m in mx.queue() for r in m["recipients"]}
                    return queued | {r for m in up.messages for r in m.recipients if r[0] == "v"}
                eventually(lambda: there() == {f"v{i}@rcpt.example" for i in range(40)},
                           lambda: f"nothing lost: {sorted(there())}", 30)
                self.assertEqual(self.names(mx, "corrupt"), [])


class Others(Submission):
    def test_the_queue_and_the_aliases_by_the_names_of_sendmail(self):
        with Peer() as peer:
            peer.close()
            settings = {**relay_to(peer), "alias_maps": "lmdb:$config_directory/aliases", "maximal_backoff_time": "1h",
                        "alias_database": "$alias_maps", "minimal_backoff_time": "1h"}
            with self.instance(settings) as mx:
                self.assertIn("empty", subprocess.run([os.path.join(BIN, "sendmail"), "-bp", "-C", mx.etc], text=True,
                                                      capture_output=True, check=True).stdout)
                with open(os.path.join(mx.etc, "aliases"), "a") as out:
                    out.write("team: ada@virtual.test.example\n")
                for words in (
                    ["newaliases", "-C", mx.etc],
                    ["sendmail", "-bi", "-C", mx.etc],
                    ["sendmail", "-I", "-C", mx.etc],
                ):
                    subprocess.run([os.path.join(BIN, words[0]), *words[1:]], check=True, timeout=60)
                self.sendmail(mx, "team@local.test.example")
                mx.virtual_box("ada").wait(1)
                self.sendmail(mx, "x@rcpt.example")
                mx.wait_log("status=deferred")
                with Peer(port=peer.port) as up:
                    listed = subprocess.run([os.path.join(BIN, "sendmail"), "-bp", "-C", mx.etc], text=True,
                                            capture_output=True, check=True).stdout
                    self.assertIn("x@rcpt.example", listed)
                    self.sendmail(mx, "-qRrcpt.example")
                    up.wait_messages(1)
                mx.wait_empty_queue()
                self.sendmail(mx, "-q")

    def test_always_bcc_and_notices_as_asked(self):
        with self.instance({"always_bcc": "all@virtual.test.example"}) as mx:
            self.sendmail(mx, "-N", "success,failure", "-V", "my id", "-R", "hdrs", "-f", "bob@virtual.test.example",
                          "ada@virtual.test.example")
            for name in ("ada", "all", "bob"):
                mx.virtual_box(name).wait(1)
            notice = self.box(mx, "bob")[0]
            self.assertIn("Original-Envelope-Id: my", notice.as_string())


if __name__ == "__main__":
    unittest.main()
