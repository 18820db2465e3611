"""The running mail system becomes another version: nothing refused, broken, lost or doubled; and what keeps it from it.

PEN_UPGRADES=20: so many upgrades under load, over 200 connections. PEN_DEATHS=20: so many deaths of master in the same
load.
"""
import os
import re
import shutil
import signal
import stat
import struct
import subprocess

from certificates import Authority
from harness import *
from service_store import Store
from tools import Load, Sink, compare, missing_tools

NEXT = os.path.join(os.path.dirname(LIBEXEC), "next", "master")
UPGRADES = int(os.environ.get("PEN_UPGRADES", "3"))
DEATHS = int(os.environ.get("PEN_DEATHS", "5"))


def version_of(master):
    return subprocess.run([master, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]


def other_version(folder):
    """The programs of another version: master is a build of its own; the others have that version's name."""
    ours, theirs = version_of(os.path.join(LIBEXEC, "master")), version_of(NEXT)
    assert len(ours) == len(theirs) and ours != theirs
    os.makedirs(folder)
    for name in os.listdir(LIBEXEC):
        source, target = os.path.join(LIBEXEC, name), os.path.join(folder, name)
        if os.path.isdir(source):
            shutil.copytree(source, target)
        elif name == "master":
            shutil.copy(NEXT, target)
        elif not os.access(source, os.X_OK):
            shutil.copy(source, target)
        else:
            with open(source, "rb") as file:
                content = file.read()
            mark = b"penstock-version "
            assert mark + ours.encode() in content, source
            with open(target, "wb") as file:
                file.write(content.replace(mark + ours.encode(), mark + theirs.encode()))
            shutil.copymode(source, target)
    return theirs


class Versions(Suite):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dir = cls.folder()
        os.chmod(cls.dir, 0o755)
        cls.next = os.path.join(cls.dir, "next")
        cls.version = version_of(os.path.join(LIBEXEC, "master"))
        cls.next_version = other_version(cls.next)

    def another(self):
        """The other version in a directory that the test may spoil."""
        folder = os.path.join(self.folder(), "programs")
        os.chmod(os.path.dirname(folder), 0o755)
        shutil.copytree(self.next, folder)
        return folder

    def spoil(self, folder, program, script):
        path = os.path.join(folder, program)
        os.unlink(path)
        with open(path, "w") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(path, stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)

    def upgrade(self, mx, status=0):
        done = mx.tool("penstock", "upgrade", timeout=300)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr + mx.log())
        return done

    def service(self, mx, program):
        return next(s for s in mx.status()["services"] if s["program"] == program)


class UnderLoad(Versions):
    def test_upgrades_one_after_the_other(self):
        if missing_tools():
            self.skipTest(missing_tools())
        certificate = Authority(self.folder()).issue("mx.test.example")
        full = UPGRADES > 3
        connections, rate = ("200", os.environ.get("PEN_RATE", "2000")) if full else ("40", "300")
        with Sink() as sink, Instance({**relay_to(sink), "smtpd_tls_security_level": "may",
                                       "smtpd_tls_cert_file": certificate.pem, "smtpd_tls_key_file": certificate.key,
                                       "smtpd_client_connection_count_limit": "0"}) as mx:
            with Load(mx.port, "-n", "10000000", "-c", connections, "-m", "100", "--rate", rate, "--tls", "--domain",
                      "rcpt.example", "--from", "ada@sender.example", "--retries", "0", "--limit", "3000") as load:
                mx.wait_log("status=sent")
                for i in range(UPGRADES):
                    forward = i % 2 == 0
                    mx.set(daemon_directory=self.next if forward else LIBEXEC)
                    done = self.upgrade(mx)
                    wanted = self.next_version if forward else self.version
                    self.assertIn(f"done: version {wanted} runs", done.stdout)
                    status = mx.status()
                    self.assertEqual(status["version"], wanted)
                    for service in status["services"]:
                        self.assertIn(service.get("version", wanted), wanted, service)
                    eventually(load.running, "the load goes on")
                status, figures = load.stop(600)
                self.assertEqual(
                    (status, *(figures[k] for k in ("refused", "in_doubt", "given_up", "unanswered",
                                                    "connect_failures"))), (0, 0, 0, 0, 0, 0), figures)
                self.assertGreater(figures["taken"], 100)
                mx.wait_empty_queue(300)
                counts = sink.stop()
                same, found = compare(load, sink)
                self.assertTrue(same, found)
                self.assertEqual((counts["messages"], counts["duplicates"]), (figures["taken"], 0))
                self.assertEqual(re.findall(r".*status=deferred.*|.*(?:error|panic|fatal):.*", mx.log())[:5], [])
                print(f"{UPGRADES} upgrades, {figures['taken']} messages, {figures['per_s']}/s", flush=True)

    def test_an_open_session_ends_with_the_program_that_began_it(self):
        with Instance({"local_transport": "discard:"}) as mx, Client(mx.port) as client:
            client.expect("MAIL FROM:<ada@sender.example>", "250")
            before = self.service(mx, "smtpd")["pid"]
            master = mx.status()["master"]
            mx.set(daemon_directory=self.next)
            self.upgrade(mx)
            now = self.service(mx, "smtpd")
            self.assertNotEqual(now["pid"], before)
            self.assertEqual(now["draining"], [before])
            self.assertEqual(mx.status()["master"], master, "it is the same process")
            self.assertIn(f"version {self.next_version}", mx.tool("penstock", "status").stdout)
            # The old program speaks with the new queue manager.
            client.expect("RCPT TO:<ben@local.test.example>", "250")
            client.expect("DATA", "354")
            client.expect("Subject: x\r\n\r\nx\r\n.", "250")
            client.expect("QUIT", "221")
            eventually(lambda: not self.service(mx, "smtpd")["draining"], "the old program ends")
            # What comes later: a reload, a log rotation, a stop.
            mx.reload()
            eventually(lambda: self.service(mx, "smtpd").get("pid") not in (None, now["pid"]), "reloaded")
            self.assertEqual(mx.stop().returncode, 0)


class NotTaken(Versions):
    """The new version cannot take over: nothing changes, and the reason is told."""

    def refused(self, mx, reason, status=78):
        pids = {s["service"]: s.get("pid") for s in mx.status()["services"]}
        done = self.upgrade(mx, status)
        self.assertRegex(done.stderr, reason)
        self.assertIn("goes on as it was", done.stderr)
        self.assertEqual(mx.status()["version"], self.version)
        self.assertEqual({s["service"]: s.get("pid") for s in mx.status()["services"]}, pids)
        self.assertTrue(answers(mx.port))

    def test_programs_that_cannot_be_run(self):
        with Instance() as mx:
            folder = self.another()
            mx.set(daemon_directory=folder)
            self.spoil(folder, "smtpd", "echo 'error while loading shared libraries: libx.so' >&2; exit 127\n")
            self.refused(mx, "smtpd cannot be run: error while loading shared libraries: libx.so")
            shutil.copy(os.path.join(LIBEXEC, "smtpd"), os.path.join(folder, "smtpd"))
            self.refused(mx, f"smtpd has version {self.version}, master {self.next_version}: .* is not whole")
            with open(os.path.join(folder, "master"), "r+b") as file:
                file.write(b"no program of this machine")
            self.refused(mx, "master cannot be run")

    def test_a_configuration_that_is_wrong(self):
        with Instance() as mx:
            master = mx.status()["master"]
            mx.set(daemon_directory=self.next, message_size_limit="many")
            self.assertIn("message_size_limit", self.upgrade(mx, 78).stderr)
            os.kill(master, signal.SIGUSR1)  # as if it had become wrong a moment later
            mx.wait_log("upgrade: .*message_size_limit.*; the mail system goes on as it was")
            mx.set(message_size_limit="10240000")
            self.assertEqual(mx.status()["version"], self.version)

    def test_a_port_that_another_has(self):
        with Instance() as mx, Peer() as other:
            mx.set_services({f"127.0.0.1:{other.port}": "inet n - n - - smtpd"})
            mx.set(daemon_directory=self.next)
            self.refused(mx, f"127.0.0.1.*:{other.port}: Address already in use")

    def test_a_queue_that_the_new_version_does_not_read(self):
        with Instance() as mx:
            folder = self.another()
            mx.set(daemon_directory=folder)
            self.spoil(folder, "qmgr", f"""
case $1 in
--version) echo qmgr {self.next_version};;
--check-queue) echo 'segment-00000001 was written by version 2'; exit 65;;
esac
""")
            self.refused(mx, "the queue: segment-00000001 was written by version 2")

    def test_messages_that_the_new_version_does_not_read(self):
        with Instance({"smtpd_authorized_verp_clients": "127.0.0.1", "local_transport": "discard:",
                       "defer_transports": "discard"}) as mx:
            mark = mx.path("spool", "log", "payload-layout")
            send(mx.port, "ada@sender.example", ["ben@local.test.example"], mail())
            mx.wait_log("status=deferred")
            self.assertFalse(os.path.exists(mark))
            with Client(mx.port) as client:
                client.send("ada@sender.example", ["ben@local.test.example"], mail(), mail="XVERP")
            with open(mark) as file:
                self.assertEqual(file.read(), "layout 5\n")
            # Of a version that is newer still.
            with open(mark, "w") as file:
                file.write("layout 99\n")
            mx.set(daemon_directory=self.next)
            self.refused(mx, "the queue: messages in .* may have layout 99, and this version reads up to 8")
            # Not while there is mail; and then the next start finds that there is none.
            mx.set(daemon_directory=LIBEXEC)
            for gone in (False, True):
                if gone:
                    mx.tool("pensuper", "-d", "ALL", check=True)
                    mx.wait_empty_queue()
                mx.stop()
                mx.start()
                eventually(lambda: mx.log().count("queue recovered") == 2 + gone, "recovered")
                if gone:
                    eventually(lambda: not os.path.exists(mark), lambda: "the mark is gone\n" + mx.log())
                else:
                    self.assertTrue(os.path.exists(mark))

    def test_a_new_master_that_does_not_answer(self):
        with Instance({"upgrade_program_timeout": "1s"}) as mx:
            folder = self.another()
            mx.set(daemon_directory=folder)
            self.spoil(folder, "master", "# penstock-version: a script that names what marks our programs\nsleep 100\n")
            shutil.copy(NEXT, os.path.join(folder, "real"))
            with open(os.path.join(folder, "master"), "ab") as file, open(NEXT, "rb") as real:
                file.write(b"exit\n" + real.read())
            self.refused(mx, "does not answer")

    def gives_back(self, folder, etc):
        """A master that is asked, says yes, and begins with a configuration that it cannot use."""
        self.spoil(folder, "master", f"""
case " $* " in
*" --check-handover "*) echo ok {self.next_version}; exit;;
esac
shift 2
exec {NEXT} -c {etc} "$@"
exit
""")
        with open(os.path.join(folder, "master"), "ab") as file, open(NEXT, "rb") as real:
            file.write(real.read())

    def test_a_new_master_that_gives_back(self):
        """It is asked, says yes, and cannot read what it is given."""
        with Instance() as mx:
            folder = self.another()
            mx.set(daemon_directory=folder)
            self.gives_back(folder, "/nonexistent")
            done = self.upgrade(mx, 78)
            self.assertRegex(done.stderr, "the new version gave back: .*/nonexistent")
            self.assertEqual(mx.status()["version"], self.version)
            self.assertTrue(answers(mx.port))
            mx.set(daemon_directory=self.next)
            self.upgrade(mx)
            self.assertEqual(mx.status()["version"], self.next_version)

    def test_a_master_that_gives_back_leaves_the_service_manager_to_the_former_one(self):
        with Instance(start=False) as mx, Store(mx) as store:
            store.start()
            folder, etc = self.another(), os.path.join(self.folder(), "etc")
            shutil.copytree(mx.etc, etc)
            with open(os.path.join(etc, "main.cf"), "a") as main:
                # A directory: the log cannot be opened.
                main.write(f"maillog_file = {folder}\nmaillog_file_prefixes = {os.path.dirname(folder)}\n")
            mx.set(daemon_directory=folder)
            self.gives_back(folder, etc)
            ready = store.said("READY")
            done = self.upgrade(mx, 78)
            self.assertIn("the new version gave back", done.stderr)
            eventually(lambda: store.said("READY") > ready, lambda: "the former version is ready\n" + mx.log())
            store.stop()
            self.assertTrue(store.said("STOPPING"))

    def test_not_running(self):
        with Instance(start=False) as mx:
            self.assertIn("not running", self.upgrade(mx, 69).stderr)


class Kept(Versions):
    """A program of the new version does not come to serve: the old one stays."""

    def stays(self, program, front=()):
        """front: what the mail system is started by."""
        with Instance({"upgrade_program_timeout": "2s", "stop_drain_time": "1s", "local_transport": "discard:"},
                      start=False) as mx:
            subprocess.run([*front, os.path.join(BIN, "penstock"), "-c", mx.etc, "start"], check=True, timeout=60,
                           capture_output=True)
            folder = self.another()
            mx.set(daemon_directory=folder)
            os.rename(os.path.join(folder, program), os.path.join(folder, program + ".real"))
            with open(os.path.join(folder, program), "w") as script:
                script.write(f"""#!/bin/sh
case $1 in
--version) echo {program} {self.next_version}; exit;;
--check-queue) exit;;
esac
exec sleep 1000
""")
            os.chmod(os.path.join(folder, program), 0o755)
            done = self.upgrade(mx, 75)
            self.assertRegex(done.stdout, f"{program} stays {self.version}: the new one ")
            self.assertRegex(done.stderr, f"version {self.next_version} runs, but for ")
            service = self.service(mx, program)
            self.assertEqual((service["version"], service["state"]), (self.version, "serving"))
            self.assertRegex(mx.tool("penstock", "status").stdout, f"{program} version {self.version}")
            send(mx.port, "ada@sender.example", ["ben@local.test.example"], b"Subject: x\r\n\r\nx\r\n")
            mx.wait_log("status=sent")
            # The next upgrade, to programs that serve, brings it up to date.
            os.rename(os.path.join(folder, program + ".real"), os.path.join(folder, program))
            self.upgrade(mx)
            self.assertEqual(self.service(mx, program)["version"], self.next_version)

    def test_a_server(self):
        self.stays("smtpd")

    def test_a_service_that_nobody_asks_is_replaced_too(self):
        """verify runs because it was asked once. It is alone in its service, and nobody connects after the old one."""
        with Instance({"local_transport": "discard:"}) as mx:
            mx.tool("penverify", "check", "ben@local.test.example")
            before = self.service(mx, "verify")
            self.assertEqual(before["state"], "serving", before)
            mx.set(daemon_directory=self.next)
            done = self.upgrade(mx)
            self.assertIn(f"verify {self.version} -> {self.next_version}", done.stdout)
            now = self.service(mx, "verify")
            self.assertEqual((now["version"], now["state"]), (self.next_version, "serving"))

    def test_the_queue_manager(self):
        self.stays("qmgr")

    @unittest.skipUnless(os.geteuid() == 0, "other users have no such right to give up")
    def test_the_queue_manager_where_master_may_not_look_at_programs(self):
        self.stays("qmgr", ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-all"])  # as under the packaged unit


class Reload(Suite):
    """What listens where changes by a reload; what stays misses nothing."""

    def test_interfaces_and_ports(self):
        if missing_tools():
            self.skipTest(missing_tools())
        other = free_port()
        with Sink() as sink, Instance(relay_to(sink)) as mx:
            listens = lambda *wanted: eventually(
                lambda: {(h, p) for h in ("127.0.0.1", "127.0.0.2") for p in (mx.port, other) if answers(p, h)} ==
                set(wanted), lambda: f"{wanted} answer\n{mx.log()}")
            with Load(mx.port, "-n", "10000000", "-c", "10", "-m", "5", "--rate", "200", "--domain", "rcpt.example",
                      "--from", "ada@sender.example", "--retries", "0", "--limit", "600") as load:
                listens(("127.0.0.1", mx.port))
                mx.set(inet_interfaces="127.0.0.1, 127.0.0.2")
                mx.reload()
                listens(("127.0.0.1", mx.port), ("127.0.0.2", mx.port))
                mx.set_services({str(other): "inet n - n - - smtpd"})
                mx.reload()
                listens(*((h, p) for h in ("127.0.0.1", "127.0.0.2") for p in (mx.port, other)))
                mx.set(inet_interfaces="127.0.0.1")
                mx.set_services({str(other): None})
                mx.reload()
                listens(("127.0.0.1", mx.port))
                status, figures = load.stop()
                self.assertEqual((status, figures["refused"], figures["in_doubt"], figures["connect_failures"]),
                                 (0, 0, 0, 0), figures)
            # One address and all of them, which overlap.
            mx.set(inet_interfaces="all")
            mx.reload()
            listens(("127.0.0.1", mx.port), ("127.0.0.2", mx.port))
            mx.set(inet_interfaces="127.0.0.2")
            mx.reload()
            listens(("127.0.0.2", mx.port))
            self.assertFalse(re.findall(r"error:.*", mx.log()))


    def test_a_program_that_does_not_serve_leaves_the_one_before(self):
        with Instance() as mx:
            smtpd = lambda: next(s for s in mx.status()["services"] if s["program"] == "smtpd")
            before = smtpd()["pid"]
            folder = os.path.join(self.folder(), "programs")
            os.chmod(os.path.dirname(folder), 0o755)
            shutil.copytree(LIBEXEC, folder)
            real = os.path.join(LIBEXEC, "smtpd")
            os.unlink(os.path.join(folder, "smtpd"))
            with open(os.path.join(folder, "smtpd"), "w") as script:
                script.write(f'#!/bin/sh\ncase " $* " in *" --look "*) exec {real} "$@";; esac\nexit 1\n')
            os.chmod(os.path.join(folder, "smtpd"), 0o755)
            mx.set(daemon_directory=folder)
            done = mx.tool("penstock", "reload")
            self.assertEqual(done.returncode, 75, done.stdout + done.stderr)
            self.assertIn(f"service {mx.port}/inet: the new program does not serve", done.stderr)
            now = smtpd()
            self.assertEqual((now["pid"], now["state"], now["former_settings"]), (before, "serving", True))
            self.assertTrue(answers(mx.port))
            mx.set(daemon_directory=LIBEXEC)
            done = mx.tool("penstock", "reload")
            self.assertEqual(done.returncode, 0, done.stderr)
            now = smtpd()
            self.assertNotEqual(now["pid"], before)
            self.assertEqual((now["state"], now.get("former_settings")), ("serving", None))
            # What master alone finds is told as well.
            with Peer() as other:
                mx.set_services({f"127.0.0.1:{other.port}": "inet n - n - - smtpd"})
                done = mx.tool("penstock", "reload")
                self.assertEqual(done.returncode, 78, done.stdout + done.stderr)
                self.assertRegex(done.stderr, "Address already in use.*; the mail system goes on with what it has")
            self.assertEqual(smtpd()["pid"], now["pid"])


def write_state(fd, text):
    """As master/handover.cc does: a turn, the size, and a checksum (FNV-1a) of both."""
    check, turn = 0xcbf29ce484222325 ^ 1 << 40, 1 << 40
    for byte in text:
        check = (check ^ byte) * 0x100000001b3 & (1 << 64) - 1
    os.pwrite(fd, struct.pack("=QQQ", turn, len(text), check) + text, 0)


class Death(Versions):
    """The service manager keeps the descriptors: programs go on without master, and the next one takes them over."""

    def pids(self, mx):
        return {s["service"]: s["pid"] for s in mx.status()["services"] if "pid" in s}

    def test_programs_outlive_master(self):
        with Instance({"local_transport": "discard:"}, start=False) as mx, Store(mx) as store:
            store.start()
            eventually(lambda: len(self.pids(mx)) > 3, "services run")
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                before = self.pids(mx)
                store.kill_master()
                # Nobody is master now.
                client.expect("RCPT TO:<ben@local.test.example>", "250")
                client.expect("DATA", "354")
                client.expect("Subject: x\r\n\r\nx\r\n.", "250")
                send(mx.port, "ada@sender.example", ["ben@local.test.example"], b"Subject: y\r\n\r\ny\r\n")
                status = mx.tool("penstock", "status")
                self.assertEqual(status.returncode, 75, status.stdout + status.stderr)
                self.assertIn("programs of a former master go on", status.stderr)
                store.start()
                self.assertEqual(before, {k: v for k, v in self.pids(mx).items() if k in before})
                mx.wait_log("programs of a former master")
                client.expect("QUIT", "221")
            # They are its own from here on: it sees their death, and replaces them.
            smtpd = self.service(mx, "smtpd")["pid"]
            os.kill(smtpd, signal.SIGKILL)
            eventually(lambda: self.service(mx, "smtpd").get("pid") not in (None, smtpd), "smtpd is started again")
            eventually(lambda: answers(mx.port), "it serves")
            mx.set(daemon_directory=self.next)
            self.upgrade(mx)
            store.kill_master()
            store.start()
            self.assertEqual(self.service(mx, "qmgr")["version"], self.next_version)
            self.assertEqual(store.stop(), 0)
            self.assertEqual({}, {k: v for k, v in mx.pids().items()})

    def test_programs_and_those_that_the_next_master_starts_know_each_other(self):
        with Instance({"local_transport": "discard:"}, start=False) as mx, Store(mx) as store:
            store.start()
            send(mx.port, "ada@sender.example", ["ben@local.test.example"], b"Subject: x\r\n\r\nx\r\n")
            mx.wait_empty_queue()
            before = self.pids(mx)
            store.kill_master()
            store.start()
            for program in ("qmgr", "trivial-rewrite"):
                pid = self.service(mx, program)["pid"]
                os.kill(pid, signal.SIGKILL)
                eventually(lambda: self.service(mx, program).get("pid") not in (None, pid), f"{program} starts again")
            send(mx.port, "ada@sender.example", ["ben@local.test.example"], b"Subject: y\r\n\r\ny\r\n")
            mx.wait_empty_queue()
            now = self.pids(mx)
            for label in ("discard/unix", f"{mx.port}/inet"):
                self.assertEqual(now[label], before[label])
            self.assertNotRegex(mx.log(), "badge|status=deferred")
            self.assertEqual(store.stop(), 0)

    def test_what_died_meanwhile_is_started(self):
        with Instance({"local_transport": "discard:"}, start=False) as mx, Store(mx) as store:
            store.start()
            eventually(lambda: len(self.pids(mx)) > 3, "services run")
            before = self.pids(mx)
            qmgr = self.service(mx, "qmgr")["pid"]
            store.kill_master()
            os.kill(qmgr, signal.SIGKILL)
            store.start()
            eventually(lambda: self.service(mx, "qmgr").get("pid") not in (None, qmgr), "another queue manager")
            self.assertEqual(self.service(mx, "smtpd")["pid"], next(v for k, v in before.items() if "inet" in k))
            send(mx.port, "ada@sender.example", ["ben@local.test.example"], b"Subject: x\r\n\r\nx\r\n")
            mx.wait_log("status=sent")

    def test_a_stop_leaves_nothing_for_the_next_start(self):
        with Instance(start=False) as mx, Store(mx) as store:
            store.start()
            eventually(lambda: len(self.pids(mx)) > 3, "services run")
            self.assertTrue(store.kept)
            self.assertEqual(store.stop(), 0)
            eventually(lambda: not store.kept, lambda: f"nothing is kept: {store.kept}")
            store.start()
            self.assertNotIn("of a former master", mx.log())

    def test_a_manager_that_lets_go_ends_them(self):
        with Instance(start=False) as mx, Store(mx) as store:
            store.start()
            eventually(lambda: len(self.pids(mx)) > 3, "services run")
            pids = list(self.pids(mx).values())
            store.kill_master()
            store.let_go()
            eventually(lambda: not any(os.path.exists(f"/proc/{pid}/exe") and self.lives(pid) for pid in pids),
                       "every program ends")
            store.start()
            self.assertTrue(answers(mx.port))

    def test_a_state_that_cannot_be_used_is_let_go(self):
        """Its programs would hold their lock, and master wait for it, for as long as the manager has its copies."""
        def of_another_format(store):
            write_state(next(fd for name, fd in store.kept if name == "state"), b'{"handover":1000000}')
            return "1000000"

        def lost(store):
            with store.lock:
                for fd in [fd for name, fd in store.kept if name == "state"]:
                    os.close(fd)
                store.kept = [k for k in store.kept if k[0] != "state"]
            return ""
        for spoil, lease in ((of_another_format, "none"), (lost, "none"), (lost, "file")):
            with self.subTest(spoil.__name__, standby_lease=lease), \
                    Instance({"local_transport": "discard:", "standby_lease": lease}, start=False) as mx, \
                    Store(mx) as store:
                store.start()
                eventually(lambda: len(self.pids(mx)) > 3, "services run")
                before = self.pids(mx)
                store.kill_master()
                said = spoil(store)
                self.assertTrue(all(map(self.lives, before.values())))
                store.start()
                mx.wait_log(f"{said}.*: every program is started anew")
                self.assertFalse([pid for pid in before.values() if self.lives(pid)])
                send(mx.port, "ada@sender.example", ["ben@local.test.example"], b"Subject: x\r\n\r\nx\r\n")
                mx.wait_log("status=sent")
                names = [name for name, _ in store.kept]
                self.assertEqual(len(names), len(set(names)), "of the former ones none is left")
                # What is kept now can be used.
                serving = self.pids(mx)
                store.kill_master()
                store.start()
                self.assertEqual(serving, {k: v for k, v in self.pids(mx).items() if k in serving})
                self.assertEqual(store.stop(), 0)

    def test_there_is_a_state_before_a_program_outlives_master(self):
        with Instance(start=False) as mx, Store(mx) as store:
            store.start()
            kept = [m["FDNAME"] for m in store.messages if m.get("FDSTORE") == "1"]
            programs = [i for i, name in enumerate(kept) if re.fullmatch(r"s\d+", name)]
            self.assertTrue(programs)
            self.assertLess(kept.index("state"), programs[0])
            self.assertEqual(store.stop(), 0)

    def test_a_death_in_the_middle_of_an_upgrade_leaves_one_program(self):
        with Instance({"local_transport": "discard:"}, start=False) as mx, Store(mx) as store:
            store.start()
            eventually(lambda: len(self.pids(mx)) > 3, "services run")
            before = self.service(mx, "smtpd")["pid"]
            folder, begun = self.another(), os.path.join(self.folder(), "begun")
            self.spoil(folder, "smtpd", f"""
[ "$1" != --version ] || {{ echo smtpd {self.next_version}; exit; }}
echo $$ >{begun}.new && mv {begun}.new {begun}
exec sleep 1000
""")
            mx.set(daemon_directory=folder)
            upgrade = subprocess.Popen([os.path.join(BIN, "penstock"), "-c", mx.etc, "upgrade"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            eventually(lambda: os.path.exists(begun), lambda: "the new smtpd begins\n" + mx.log())
            with open(begun) as file:
                fresh = int(file.read())
            mx.tool("penstock", "health")  # the state that the next master finds has both
            store.kill_master()
            upgrade.wait(60)
            mx.set(daemon_directory=LIBEXEC)
            store.start()
            eventually(lambda: not self.lives(fresh), lambda: "the new one ends\n" + mx.log())
            self.assertEqual(self.service(mx, "smtpd")["pid"], before)
            self.assertTrue(answers(mx.port))
            self.assertTrue(self.lives(before))
            # What is left of it does not serve on after a reload.
            mx.reload()
            eventually(lambda: not self.lives(before), lambda: "the old one ends\n" + mx.log())

    def lives(self, pid):
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
        except OSError:
            return False

    def sends_more(self, mx, count):
        with open(mx.path("log", "mail.log")) as log:
            log.seek(0, os.SEEK_END)
            sent = 0

            def enough():
                nonlocal sent
                sent += log.read().count("status=sent")
                return sent >= count
            eventually(enough, lambda: f"{count} messages are sent", 120)

    def test_deaths_under_load(self):
        if missing_tools():
            self.skipTest(missing_tools())
        certificate = Authority(self.folder()).issue("mx.test.example")
        connections, rate = ("200", os.environ.get("PEN_RATE", "2000")) if DEATHS > 5 else ("20", "300")
        with Sink() as sink, Instance({**relay_to(sink), "smtpd_tls_security_level": "may",
                                       "smtpd_tls_cert_file": certificate.pem, "smtpd_tls_key_file": certificate.key,
                                       "smtpd_client_connection_count_limit": "0"}, start=False) as mx, \
                Store(mx) as store:
            store.start()
            with Load(mx.port, "-n", "10000000", "-c", connections, "-m", "100", "--rate", rate, "--tls", "--domain",
                      "rcpt.example", "--from", "ada@sender.example", "--retries", "0", "--limit", "3000") as load:
                mx.wait_log("status=sent")  # every program that it takes is there
                for _ in range(DEATHS):
                    store.kill_master()
                    self.sends_more(mx, 1000 if DEATHS > 5 else 1)  # without master
                    store.start()
                status, figures = load.stop(600)
                self.assertEqual(
                    (status, *(figures[k] for k in ("refused", "in_doubt", "given_up", "unanswered",
                                                    "connect_failures"))), (0, 0, 0, 0, 0, 0), figures)
                mx.wait_empty_queue(300)
                counts = sink.stop()
                same, found = compare(load, sink)
                self.assertTrue(same, found)
                self.assertEqual((counts["messages"], counts["duplicates"]), (figures["taken"], 0))
                print(f"{DEATHS} deaths of master, {figures['taken']} messages, {figures['per_s']}/s", flush=True)


if __name__ == "__main__":
    unittest.main()
