"""The first steps of a new user who makes an instance and starts it: only the settings of penstock init."""
import os
import pwd
import shutil
import socket
import subprocess
import tempfile

from harness import *


def a_user():
    """A user of this host with a mailbox of his own: this one, or one that every system has."""
    return pwd.getpwuid(os.geteuid()).pw_name if os.geteuid() else "daemon"


class FirstSteps(Suite):
    def test_a_fresh_instance_knows_local_users_and_postmaster_at_once(self):
        with Instance(start=False) as mx:
            fresh = os.path.join(mx.dir, "fresh")
            port = free_port()
            mx.tool("penstock", "init", fresh, "--port", str(port), check=True)
            self.assertTrue(os.path.exists(os.path.join(fresh, "etc", "aliases.lmdb")))
            mx.etc = os.path.join(fresh, "etc")
            mx.root = fresh
            mx.port = port
            mx.set(daemon_directory=LIBEXEC, myhostname="mx.test.example", mydestination="local.test.example",
                   **sanitizers.settings())
            mx.start()
            self.assertNotIn("warning", mx.log())
            with Client(port) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                for who in ("postmaster", "postmaster@local.test.example", f"{a_user()}@local.test.example",
                            "Abuse@local.test.example"):
                    client.expect(f"RCPT TO:<{who}>", "250")
                client.expect("RCPT TO:<nosuchuser@local.test.example>", "550")

    def test_an_ordinary_user_makes_starts_and_uses_one(self):
        who = pwd.getpwuid(os.geteuid()) if os.geteuid() else pwd.getpwnam("games")
        as_user = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
        scratch = tempfile.mkdtemp(prefix="pen-user-")
        self.addCleanup(shutil.rmtree, scratch, ignore_errors=True)
        os.chown(scratch, who.pw_uid, who.pw_gid)
        where, port = os.path.join(scratch, "mine"), free_port()

        def penstock(*words):
            done = subprocess.run([os.path.join(BIN, "penstock"), *words], capture_output=True, text=True, timeout=60,
                                  cwd=scratch, **as_user)
            self.assertEqual(done.returncode, 0, done)
            return done.stdout
        try:
            self.assertIn("this user", penstock("init", where, "--port", str(port)))
        except PermissionError:
            self.skipTest("the programs are where an ordinary user cannot reach them")
        with open(os.path.join(where, "etc", "main.cf"), "a") as out:
            out.write("".join(f"{name} = {value}\n" for name, value in sanitizers.settings().items()))
        with open(os.path.join(where, "etc", "master.cf"), "a") as out:
            out.write(f"spawned unix - n n - 2 spawn user={who.pw_name} argv=/bin/cat\n"
                      "another unix - n n - 2 spawn user=nobody argv=/bin/cat\n")
        penstock("-c", where + "/etc", "start")
        self.assertIn(f"accounts: {who.pw_name} alone", penstock("-c", where + "/etc", "status"))
        try:
            with socket.socket(socket.AF_UNIX) as served, socket.socket(socket.AF_UNIX) as refused:
                for connection, name in ((served, "spawned"), (refused, "another")):
                    connection.settimeout(60)
                    connection.connect(os.path.join(where, "spool", "private", name))
                served.sendall(b"said")
                self.assertEqual(served.recv(10), b"said")
                (log,) = os.listdir(os.path.join(where, "log"))
                with open(os.path.join(where, "log", log)) as text:
                    eventually(lambda: f"runs as uid {who.pw_uid} and cannot" in text.read(), "it is refused")
            send(port, "ada@sender.example", [who.pw_name], mail())
            Maildir(os.path.join(where, "mail", who.pw_name)).wait(1)
            self.assertIn("not run by root", penstock("-c", where + "/etc", "check"))
            penstock("-c", where + "/etc", "reload")
            eventually(lambda: answers(port), "it serves after the reload")
        finally:
            penstock("-c", where + "/etc", "stop")

    def test_a_missing_alias_table_says_what_to_do(self):
        with Instance({"alias_maps": "lmdb:$config_directory/nowhere", "local_recipient_maps": "$alias_maps"}) as mx:
            mx.wait_log(r"smtpd\[\d+\]: warning: .*nowhere\.lmdb.*penalias")
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                client.expect("RCPT TO:<ada@local.test.example>", "451")

    def test_a_directory_may_be_named_from_where_one_stands(self):
        with Instance(start=False) as mx:
            tool = os.path.join(BIN, "penstock")
            for word, status in (("start", 0), ("status", 0), ("stop", 0)):
                done = subprocess.run([tool, "-c", "etc", word], cwd=mx.root, capture_output=True, text=True)
                self.assertEqual(done.returncode, status, done.stdout + done.stderr)

    def test_a_queue_keeps_its_segment_size_and_the_log_says_so(self):
        with Instance({"queue_log_segment_size": "1m"}) as mx:
            mx.stop()
            mx.set(queue_log_segment_size="2m")
            mx.start()
            mx.wait_log("warning: queue_log_segment_size is 2097152, but this queue was made with 1048576")

    def test_second_start_and_second_stop_are_told(self):
        with Instance() as mx:
            again = mx.tool("penstock", "start")
            self.assertEqual(again.returncode, 69)
            self.assertIn("already running", again.stderr)
            self.assertEqual(mx.tool("penstock", "flush").returncode, 0)
            self.assertEqual(mx.tool("penstock", "abort").returncode, 0)
            eventually(lambda: not mx.pids(), "every program ended")
            for word in ("stop", "abort", "reload", "flush", "status"):
                done = mx.tool("penstock", word)
                self.assertEqual(done.returncode, 69, (word, done.stdout, done.stderr))
                self.assertRegex(done.stderr, "not running|queue manager")

    def test_start_in_the_foreground(self):
        with Instance(start=False) as mx:
            front = subprocess.Popen([os.path.join(BIN, "penstock"), "-c", mx.etc, "start-fg"])
            try:
                eventually(lambda: answers(mx.port), "it serves")
                mx.tool("penstock", "stop", check=True)
                self.assertEqual(front.wait(30), 0)
            finally:
                if front.poll() is None:
                    front.kill()
                    front.wait()


class EveryTool(Suite):
    def run_tool(self, *words):
        return subprocess.run([os.path.join(BIN, words[0]), *words[1:]], capture_output=True, text=True, timeout=20,
                              stdin=subprocess.DEVNULL, env={"PATH": os.environ["PATH"]})

    def test_help_version_and_wrong_options(self):
        for tool in sorted(os.listdir(BIN)):
            with self.subTest(tool):
                help_text = self.run_tool(tool, "--help")
                self.assertEqual((help_text.returncode, help_text.stderr), (0, ""))
                self.assertIn("usage", help_text.stdout.lower())
                version = self.run_tool(tool, "--version")
                self.assertEqual(version.returncode, 0)
                self.assertRegex(version.stdout, r"\d+\.\d+\.\d+")
                wrong = self.run_tool(tool, "--no-such-option")
                self.assertEqual(wrong.returncode, 64, wrong)
                self.assertTrue(wrong.stderr)

    def test_a_missing_configuration_directory(self):
        for words in (("penstock", "-c", "/nonexistent/etc", "start"), ("penstock", "-c", "/nonexistent/etc", "check"),
                      ("penconf", "-c", "/nonexistent/etc"), ("penqueue", "-c", "/nonexistent/etc", "-p"),
                      ("pensuper", "-c", "/nonexistent/etc", "-d", "ALL"),
                      ("pencat", "-c", "/nonexistent/etc", "-q", "ABC"),
                      ("penmap", "-c", "/nonexistent/etc", "table")):
            with self.subTest(words[0]):
                done = self.run_tool(*words)
                self.assertEqual(done.returncode, 78, done)
                self.assertIn("/nonexistent/etc", done.stderr + done.stdout)


if __name__ == "__main__":
    unittest.main()
