"""The queue has an account of its own: no program of mail_owner's, and nobody else, opens it; older instances are moved
over once; who has no such account, or no root, keeps what there was."""
import os
import pwd
import shutil
import socket
import stat
import subprocess

from harness import *
from instance import mail_owner

QUEUE = "games"  # an account that every Debian has, with a group of its own
SLOW = {"transport_maps": "inline:{ { waits.example = smtp:[127.0.0.1]:1 } }"}


def ids(name):
    entry = pwd.getpwnam(name)
    return entry.pw_uid, entry.pw_gid


def owner_of(path):
    status = os.lstat(path)
    return pwd.getpwuid(status.st_uid).pw_name


def mode_of(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def files_below(directory):
    return [os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names]


def uids_of(pid):
    with open(f"/proc/{pid}/status") as text:
        lines = dict(line.rstrip("\n").split(":\t", 1) for line in text if ":\t" in line)
    return {int(uid) for uid in lines["Uid"].split()}, {int(gid) for gid in lines["Gid"].split()}


def as_account(name, *command, **options):
    uid, gid = ids(name)
    return subprocess.run(command, user=uid, group=gid, extra_groups=[], capture_output=True, text=True,
                          errors="replace", timeout=60, **options)


@unittest.skipIf(os.geteuid() != 0, "only root can use several accounts")
class QueueAccount(Suite):
    def instance(self, settings=None, **more):
        return Instance({"queue_owner": QUEUE, **SLOW, **(settings or {})}, **more)

    def queue_places(self, mx):
        return [mx.path("spool", "log"), mx.path("spool", "spool"), mx.path("data", "destdb")]

    def wait_queued(self, mx, n):
        eventually(lambda: len(mx.queue()) == n, lambda: mx.queue())

    def queue_up(self, mx, n, size=0):
        for k in range(n):
            body = f"number {k}\r\n" + ("x" * 70 + "\r\n") * size
            send(mx.port, "ada@sender.example", [f"u{k}@waits.example"], mail(f"number {k}", body))
        self.wait_queued(mx, n)

    def test_each_program_has_the_account_of_the_table(self):
        with self.instance(services={"penapi": "unix n - n - - penapi"}) as mx:
            self.queue_up(mx, 1)
            with Client(mx.port) as client:
                client.expect("EHLO there", "250")
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(mx.path("spool", "public", "penapi"))
            mx_ids, queue_ids = ids(mail_owner()), ids(QUEUE)

            def running():
                return {s["program"]: s["pid"] for s in mx.status()["services"] if s["state"] == "serving"}
            pids = eventually(lambda: {"qmgr", "smtpd", "smtp", "trivial-rewrite", "anvil", "pickup", "penapi"}
                              <= set(running()) and running(), running)
            for program, pid in pids.items():
                with self.subTest(program):
                    uids, gids = uids_of(pid)
                    if program == "qmgr":
                        self.assertEqual((uids, gids), ({queue_ids[0]}, {queue_ids[1]}))
                    elif program == "penapi":
                        self.assertEqual((uids, gids), ({mx_ids[0]}, {queue_ids[1]}))
                    else:
                        self.assertEqual((uids, gids), ({mx_ids[0]}, {mx_ids[1]}))
            said = mx.tool("penstock", "status").stdout
            self.assertIn(f"accounts: {mail_owner()}; the queue belongs to {QUEUE}", said)

    def test_the_account_of_the_mail_programs_opens_nothing_of_the_queue(self):
        with self.instance() as mx:
            self.queue_up(mx, 2, size=2000)
            tried = [f for place in self.queue_places(mx) for f in files_below(place)]
            self.assertGreater(len(tried), 4)
            for directory in self.queue_places(mx):
                self.assertEqual((owner_of(directory), mode_of(directory)), (QUEUE, 0o700))
                self.assertNotEqual(as_account(mail_owner(), "ls", directory).returncode, 0)
            for path in tried:
                self.assertEqual(owner_of(path), QUEUE, path)
                self.assertEqual(mode_of(path) & 0o077, 0, path)
                self.assertNotEqual(as_account(mail_owner(), "head", "-c1", path).returncode, 0, path)
                self.assertEqual(as_account(QUEUE, "head", "-c1", path).returncode, 0, path)  # the control
            # Nor does it change names on the way there, or those of sockets.
            for path in [*self.queue_places(mx), mx.path("spool", "private", "rewrite"),
                         mx.path("spool", "public", "qmgr"), mx.path("spool", "private"), mx.path("spool", "public")]:
                self.assertNotEqual(as_account(mail_owner(), "mv", path, path + ".gone").returncode, 0, path)
            for directory in ("private", "public", "open"):
                self.assertEqual(owner_of(mx.path("spool", directory)), "root")
            self.assertEqual((owner_of(mx.path("data")), mode_of(mx.path("data"))), ("root", 0o711))

    def ask(self, mx, name, group, *words):
        """A tool with the account of mail_owner and the groups of its programs."""
        uid, gid = ids(name)
        return subprocess.run([os.path.join(BIN, words[0]), "-c", mx.etc, *words[1:]], user=uid, group=group or gid,
                              extra_groups=[gid, os.stat(mx.path("spool", "public")).st_gid], capture_output=True,
                              text=True, timeout=60)

    def test_the_account_of_the_mail_programs_reads_and_changes_no_mail_through_the_queue_manager(self):
        with self.instance() as mx:
            for path in (mx.path("log"), *files_below(mx.path("log"))):
                os.chown(path, *ids(mail_owner()))  # tools refuse to work without their log
            self.queue_up(mx, 1)
            (message,) = mx.queue()
            owner = mail_owner()
            listed = self.ask(mx, owner, None, "penqueue", "-p")
            self.assertIn(message["queue_id"], listed.stdout)  # as every user may
            for words in (["pencat", message["queue_id"]], ["pensuper", "-d", message["queue_id"]],
                          ["pensuper", "-h", message["queue_id"]], ["pendest", "suspend", "waits.example"]):
                done = self.ask(mx, owner, None, *words)
                self.assertNotEqual(done.returncode, 0, done)
                self.assertNotIn("number 0", done.stdout)
            self.assertEqual([m["queue_id"] for m in mx.queue()], [message["queue_id"]])
            # Nor with the group of the queue's account, as penapi has it: that one shows a badge besides.
            done = self.ask(mx, owner, ids(QUEUE)[1], "pensuper", "-d", message["queue_id"])
            self.assertNotEqual(done.returncode, 0, done)
            self.assertEqual([m["queue_id"] for m in mx.queue()], [message["queue_id"]])
            mx.tool("pensuper", "-d", message["queue_id"], check=True)  # the control
            self.assertEqual(mx.queue(), [])

    def test_maildrop_is_looked_at_and_cleared_through_the_keeper(self):
        with self.instance(services={"pickup": None}) as mx:
            done = subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, "-f", "ada@local.test.example",
                                   "who@waits.example"], input=b"Subject: dropped\n\nx\n", timeout=60)
            self.assertEqual(done.returncode, 0)
            for running in (True, False):
                if not running:
                    mx.stop()
                listed = mx.tool("penqueue", "-p", check=True).stdout
                (name,) = os.listdir(mx.path("spool", "maildrop"))
                self.assertIn(name, listed)
                self.assertIn("who@waits.example", listed)
            self.assertIn("dropped", mx.tool("pencat", name, check=True).stdout)
            mx.tool("pensuper", "-d", name, "maildrop", check=True)
            self.assertEqual(os.listdir(mx.path("spool", "maildrop")), [])

    def test_an_older_instance_is_moved_over_once_and_back(self):
        with Instance({"queue_owner": mail_owner(), **SLOW}) as mx:
            self.queue_up(mx, 3, size=2000)
            mx.stop()
            places = [mx.path("spool", "log"), mx.path("spool", "spool"), mx.path("data", "destdb")]
            for owner in (QUEUE, mail_owner()):
                mx.set(queue_owner=owner)
                mx.start()
                for path in places + [f for place in places for f in files_below(place)]:
                    self.assertEqual(owner_of(path), owner, path)
                self.assertEqual(len(mx.queue()), 3)
                for message in mx.queue():
                    self.assertIn("number ", mx.tool("pencat", message["queue_id"], check=True).stdout)
                told = mx.log().count("files now belong to uid")
                mx.stop()
                mx.start()
                self.assertEqual(mx.log().count("files now belong to uid"), told)
                mx.stop()
            self.assertIn("start this one once with queue_owner = $mail_owner", mx.log())

    def test_a_move_that_was_killed_goes_on(self):
        with Instance({"queue_owner": mail_owner(), **SLOW}) as mx:
            self.queue_up(mx, 3, size=2000)
            mx.stop()
            # As a killed start leaves it: closed to all but root, with some files given away.
            log = mx.path("spool", "log")
            names = sorted(files_below(log))
            self.assertGreater(len(names), 1)
            os.chown(log, 0, 0)
            os.chown(names[0], *ids(QUEUE))
            mx.set(queue_owner=QUEUE)
            mx.start()
            self.assertEqual({owner_of(f) for f in files_below(log)}, {QUEUE})
            self.assertEqual(len(mx.queue()), 3)

    def test_what_is_no_file_of_the_queue_is_not_given_away(self):
        with Instance({"queue_owner": mail_owner()}) as mx:
            mx.stop()
            log = mx.path("spool", "log")
            secret = mx.write("secret", "root's\n")
            os.chmod(secret, 0o600)
            os.symlink(secret, os.path.join(log, "link"))
            os.link(secret, os.path.join(log, "second-name"))
            mx.set(queue_owner=QUEUE)
            mx.start()
            self.assertEqual((owner_of(secret), mode_of(secret)), ("root", 0o600))
            self.assertEqual(owner_of(os.path.join(log, "link")), "root")
            self.assertIn("second-name stays as it is", mx.log())

    def test_a_missing_account_and_one_without_a_group_of_its_own_are_errors(self):
        with Instance(start=False) as mx:
            for owner, why in (("no-such-account", "there is no such account"), ("root", "root cannot be")):
                mx.set(queue_owner=owner)
                for done in (mx.tool("penstock", "check"), mx.tool("penstock", "start")):
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn(why, done.stdout + done.stderr)
            mx.set(queue_owner="_apt", mail_owner="nobody")  # both have the group nogroup
            done = mx.tool("penstock", "check")
            self.assertIn("its group must be another than that of mail_owner", done.stdout)

    def test_a_reload_does_not_move_a_queue_that_runs(self):
        """As when a package has made the account: the next start moves the queue, a reload goes on as before."""
        with Instance({"queue_owner": mail_owner(), **SLOW}) as mx:
            self.queue_up(mx, 1)
            mx.set(queue_owner=QUEUE)
            before = mx.pids()["qmgr"]
            mx.tool("penstock", "reload", check=True)
            eventually(lambda: mx.pids().get("qmgr") not in (None, [], before), lambda: mx.status())
            send(mx.port, "ada@sender.example", ["more@waits.example"], mail("more"))
            self.wait_queued(mx, 2)
            self.assertEqual(owner_of(mx.path("spool", "log")), mail_owner())
            self.assertIn("the next start gives it to queue_owner", mx.tool("penstock", "check").stdout)

    def test_a_snapshot_is_restored_for_the_account(self):
        with self.instance() as mx:
            self.queue_up(mx, 2, size=2000)
            copy = os.path.join(mx.dir, "copy")
            mx.tool("penstock", "snapshot", copy, check=True)
            mx.stop()
            for name in ("log", "spool"):
                shutil.rmtree(mx.path("spool", name))
            mx.tool("penstock", "restore", copy, check=True)
            for place in (mx.path("spool", "log"), mx.path("spool", "spool")):
                self.assertEqual({owner_of(p) for p in [place, *files_below(place)]}, {QUEUE})
            mx.start()
            self.wait_queued(mx, 2)  # they are tried at once, and a list may miss one that moves
            with self.instance() as other:
                other.tool("penstock", "restore", "--merge", copy, check=True)
                self.wait_queued(other, 2)
                for message in other.queue():
                    self.assertIn("number ", other.tool("pencat", message["queue_id"], check=True).stdout)


if __name__ == "__main__":
    unittest.main()
