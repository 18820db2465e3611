"""Without a service manager: a keeper starts master, keeps what is open when it dies, and starts the next one.

PEN_DEATHS=20, PEN_UPGRADES=20: so many deaths of master, and upgrades, in one load, over 200 connections.
"""
import array
import json
import os
import re
import signal
import socket
import subprocess
import time

import test_package_scripts
import test_upgrade
from certificates import Authority
from harness import *
from instance import runs
from tools import Load, Sink, compare, missing_tools

# A fifth death in a minute ends all programs: more than four are farther apart.
DEATHS = int(os.environ.get("PEN_DEATHS", "4"))
UPGRADES = int(os.environ.get("PEN_UPGRADES", "2"))


def parent_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


class Kept(test_upgrade.Versions):
    def pids(self, mx):
        return {s["service"]: s["pid"] for s in mx.status()["services"] if "pid" in s}

    def keeper(self, mx):
        """Its process; a child that is about to be master, or writes to the log, has its name as well."""
        return parent_of(mx.status()["master"])

    def serves(self, mx):
        eventually(lambda: len(self.pids(mx)) > 3, "services run")

    def kill_master(self, mx):
        """Returns when the next one is ready."""
        before = mx.log().count("all services are ready")
        master = mx.status()["master"]
        os.kill(master, signal.SIGKILL)
        eventually(lambda: mx.log().count("all services are ready") > before and
                   (mx.status() or {}).get("master") not in (None, master),
                   lambda: "the next master is ready\n" + mx.log(), 60)
        return master

    def message(self, mx, subject):
        sent = mx.log().count("status=sent")
        send(mx.port, "ada@sender.example", ["ben@local.test.example"], f"Subject: {subject}\r\n\r\nx\r\n".encode())
        eventually(lambda: mx.log().count("status=sent") > sent, lambda: "it is sent\n" + mx.log())


SETTINGS = {"local_transport": "discard:"}


class Deaths(Kept):
    def test_programs_outlive_master(self):
        with Instance(SETTINGS) as mx:
            self.serves(mx)
            keeper = self.keeper(mx)
            self.assertEqual(mx.pids()["keeper"], [keeper])
            self.assertIn(f"(keeper pid {keeper} keeps what is open)", mx.tool("penstock", "status").stdout)
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                before = self.pids(mx)
                master = self.kill_master(mx)
                self.assertEqual(before, {k: v for k, v in self.pids(mx).items() if k in before})
                self.assertEqual(self.keeper(mx), keeper)
                mx.wait_log(rf"keeper\[\d+\]: warning: master pid {master} was killed by signal 9: the next one starts "
                            "at once; programs go on, and it takes them over")
                client.expect("RCPT TO:<ben@local.test.example>", "250")
                client.expect("DATA", "354")
                client.expect("Subject: x\r\n\r\nx\r\n.", "250")
                client.expect("QUIT", "221")
            # They are the next one's own from here on: it sees their death, and replaces them.
            smtpd = self.service(mx, "smtpd")["pid"]
            os.kill(smtpd, signal.SIGKILL)
            eventually(lambda: self.service(mx, "smtpd").get("pid") not in (None, smtpd), "smtpd is started again")
            eventually(lambda: answers(mx.port), "it serves")
            reloaded = self.pids(mx)
            mx.reload()
            self.assertFalse(set(self.pids(mx).values()) & set(reloaded.values()) - {mx.pids()["become"][0]})
            self.message(mx, "after a reload")
            self.assertEqual(mx.stop().returncode, 0)
            self.assertEqual(mx.pids(), {}, "a stop ends the keeper as well")
            self.assertNotRegex(mx.log(), "(panic|fatal):")
            # Nothing is left for the next start.
            mx.start()
            self.assertEqual(mx.log().count("of a former master"), 1)

    def test_started_by_one_that_ignores_the_end_of_children(self):
        with Instance(SETTINGS, start=False) as mx:
            subprocess.run([os.path.join(BIN, "penstock"), "-c", mx.etc, "start"], stdout=subprocess.DEVNULL,
                           check=True, timeout=60, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
            self.serves(mx)
            keeper, before = self.keeper(mx), self.pids(mx)
            self.kill_master(mx)
            self.assertEqual(before, {k: v for k, v in self.pids(mx).items() if k in before})
            self.assertEqual(mx.stop().returncode, 0)
            eventually(lambda: not runs(keeper), "a stop ends the keeper as well")
            self.assertEqual(mx.pids(), {})

    def test_started_with_nothing_open(self):
        """As by a daemon that has closed its standard descriptors: the pipe of the start must not get their numbers."""
        with Instance(SETTINGS, start=False) as mx:
            done = subprocess.run([os.path.join(BIN, "penstock"), "-c", mx.etc, "start"], timeout=60,
                                  preexec_fn=lambda: os.closerange(0, 3))
            self.assertEqual(done.returncode, 0)
            self.serves(mx)
            for name, pids in mx.pids().items():
                for number in range(3):
                    self.assertTrue(os.path.exists(f"/proc/{pids[0]}/fd/{number}"), (name, number))
            self.message(mx, "it works")

    def test_upgrades_below_a_keeper(self):
        with Instance(SETTINGS) as mx:
            self.serves(mx)
            keeper = self.keeper(mx)
            self.kill_master(mx)
            mx.set(daemon_directory=self.next)
            self.upgrade(mx)
            self.assertEqual(self.keeper(mx), keeper, "it stays")
            before = self.pids(mx)
            self.kill_master(mx)
            self.assertEqual(before, {k: v for k, v in self.pids(mx).items() if k in before})
            status = mx.status()
            self.assertEqual((status["version"], self.service(mx, "qmgr")["version"]),
                             (self.next_version, self.next_version))
            mx.set(daemon_directory=LIBEXEC)
            self.upgrade(mx)
            self.message(mx, "after the way back")
            self.assertEqual(mx.stop().returncode, 0)
            self.assertEqual(mx.pids(), {})

    def test_deaths_and_upgrades_in_one_load(self):
        if missing_tools():
            self.skipTest(missing_tools())
        certificate = Authority(self.folder()).issue("mx.test.example")
        full = DEATHS > 4
        connections, rate = ("200", os.environ.get("PEN_RATE", "2000")) if full else ("20", "300")
        with Sink() as sink, Instance({**relay_to(sink), "smtpd_tls_security_level": "may",
                                       "smtpd_tls_cert_file": certificate.pem, "smtpd_tls_key_file": certificate.key,
                                       "smtpd_client_connection_count_limit": "0"}) as mx:
            with Load(mx.port, "-n", "10000000", "-c", connections, "-m", "100", "--rate", rate, "--tls", "--domain",
                      "rcpt.example", "--from", "ada@sender.example", "--retries", "0", "--limit", "3000") as load:
                mx.wait_log("status=sent")  # every program that it takes is there
                keeper = self.keeper(mx)
                for i in range(max(DEATHS, UPGRADES)):
                    if i < DEATHS:
                        before = self.pids(mx)
                        self.kill_master(mx)
                        self.assertEqual(before, {k: v for k, v in self.pids(mx).items() if k in before})
                        self.sends_more(mx, 2500 if full else 400, 16 if full else 0)  # more than a second takes
                    if i < UPGRADES:
                        forward = i % 2 == 0
                        mx.set(daemon_directory=self.next if forward else LIBEXEC)
                        self.upgrade(mx)
                        self.assertEqual(mx.status()["version"], self.next_version if forward else self.version)
                        self.sends_more(mx, 1)
                self.assertEqual(self.keeper(mx), keeper)
                self.assertNotIn("times in a row", mx.log())
                status, figures = load.stop(600)
                self.assertEqual(
                    (status, *(figures[k] for k in ("refused", "in_doubt", "given_up", "unanswered",
                                                    "connect_failures"))), (0, 0, 0, 0, 0, 0), figures)
                mx.wait_empty_queue(300)
                counts = sink.stop()
                same, found = compare(load, sink)
                self.assertTrue(same, found)
                self.assertEqual((counts["messages"], counts["duplicates"]), (figures["taken"], 0))
                print(f"{DEATHS} deaths of master below a keeper, {UPGRADES} upgrades, {figures['taken']} messages, "
                      f"{figures['per_s']}/s", flush=True)

    def sends_more(self, mx, count, seconds=0):
        end = time.monotonic() + seconds
        with open(mx.path("log", "mail.log")) as log:
            log.seek(0, os.SEEK_END)
            sent = 0

            def enough():
                nonlocal sent
                sent += log.read().count("status=sent")
                return sent >= count and time.monotonic() >= end
            eventually(enough, lambda: f"{count} messages are sent", 120)


class AgainAndAgain(Kept):
    """A master that does not live. SIGHUP has the keeper not wait until it tries again."""

    def another_master(self, script):
        folder = self.another()
        os.chmod(os.path.dirname(folder), 0o755)
        self.spoil(folder, "master", "# @(#) a program of the Penstock mail system\n" + script)
        return folder

    def dies(self, mx, keeper, until):
        """Until the log says so of a death. Returns what it says of all."""
        def so_often():
            rows = "\n".join(re.findall(r"keeper\[\d+\]: \w+: master pid \d+ .*", mx.log()))
            if until in rows:
                return rows
            if runs(keeper) and not mx.pids().get("master"):
                os.kill(keeper, signal.SIGHUP)
            return None
        return eventually(so_often, lambda: f"{until}\n{mx.log()}", 60)

    def test_one_that_is_killed_by_what_it_takes_over_begins_anew(self):
        with Instance(SETTINGS) as mx:
            self.serves(mx)
            keeper, before = self.keeper(mx), self.pids(mx)
            # Such a master, whatever it is given.
            mx.set(daemon_directory=self.another_master('[ "$LISTEN_FDS" ] || exec ' + LIBEXEC +
                                                        '/master "$@"\nkill -9 $$\n'))
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                os.kill(mx.status()["master"], signal.SIGKILL)
                mx.wait_log("5 times in (60 s|a row): the next one starts in [48] s; all programs end then, and start "
                            "anew with it")
                client.expect("RCPT TO:<ben@local.test.example>", "250")  # until then they serve
            self.assertIn("2 times in a row: the next one starts in 1 s; programs go on", mx.log())
            eventually(lambda: (mx.status() or {}).get("services") and
                       not set(self.pids(mx).values()) & set(before.values()) and answers(mx.port),
                       lambda: "other programs serve\n" + mx.log(), 60)
            self.message(mx, "anew")
            self.assertEqual(self.keeper(mx), keeper)
            mx.set(daemon_directory=LIBEXEC)

    def test_one_that_never_lives(self):
        with Instance(SETTINGS) as mx:
            self.serves(mx)
            keeper = self.keeper(mx)
            mx.set(daemon_directory=self.another_master("kill -11 $$\n"))
            os.kill(mx.status()["master"], signal.SIGKILL)
            rows = self.dies(mx, keeper, "no other one is started")
            self.assertNotRegex(rows, "signal 1[,:]", "a reload that is asked for too early ends nobody")
            self.assertRegex(rows, "error: master pid .* was killed by signal 11, 10 times in a row: no other one "
                                       "is started")
            eventually(lambda: not mx.pids(), lambda: f"everything has ended: {mx.pids()}")
            mx.set(daemon_directory=LIBEXEC)
            mx.start()
            self.message(mx, "started by hand")

    def test_programs_serve_while_an_error_is_mended(self):
        with Instance(SETTINGS) as mx:
            self.serves(mx)
            keeper, master, before = self.keeper(mx), mx.status()["master"], self.pids(mx)
            main = os.path.join(mx.etc, "main.cf")
            with open(main) as file:
                good = file.read()
            mx.set(message_size_limit="many")
            os.kill(master, signal.SIGKILL)
            self.dies(mx, keeper, "11 times in a row")
            self.assertRegex(mx.log(), "master pid .* ended with status 78, .* times in a row: .*; programs go on")
            with Client(mx.port) as client:
                client.send("ada@sender.example", ["ben@local.test.example"], b"Subject: x\r\n\r\nx\r\n")
            with open(main, "w") as file:
                file.write(good)
            os.kill(keeper, signal.SIGHUP)
            eventually(lambda: (mx.status() or {}).get("services"), lambda: "a master\n" + mx.log())
            self.assertEqual(before, {k: v for k, v in self.pids(mx).items() if k in before})
            self.message(mx, "mended")

    def between(self, mx):
        """Programs serve, and there is no master for a while."""
        self.serves(mx)
        keeper, pids = self.keeper(mx), list(self.pids(mx).values())
        mx.set(daemon_directory=self.another_master("exit 71\n"))
        os.kill(mx.status()["master"], signal.SIGKILL)
        self.dies(mx, keeper, "4 times in a row")
        return keeper, pids

    def test_tools_between_two_masters(self):
        with Instance(SETTINGS) as mx:
            self.serves(mx)
            copy = self.folder() + "/snapshot"
            mx.tool("penstock", "snapshot", copy, check=True)
            keeper, pids = self.between(mx)
            between = (rf"between two masters: keeper pid {keeper}: master pid \d+ ended with status 71, \d+ times in "
                       "a row: the next one starts ")
            for words in (["status"], ["health"], ["reload"], ["upgrade"]):
                refused = mx.tool("penstock", *words)
                self.assertEqual(refused.returncode, 75, (words, refused.stdout + refused.stderr))
                self.assertRegex(refused.stderr, between, words)
            status = mx.tool("penstock", "status", "--json")
            self.assertEqual(status.returncode, 75)
            shown = json.loads(status.stdout)
            self.assertEqual((shown["running"], shown["keeper"]), (False, keeper))
            self.assertRegex(shown["why"], between)
            found = json.loads(mx.tool("penstock", "doctor", "--json", "--no-network").stdout)
            self.assertEqual([f["level"] for f in found if f["what"].startswith("there is none at the moment: keeper")],
                             ["warning"])
            start = mx.tool("penstock", "start")
            self.assertEqual(start.returncode, 69, start.stdout + start.stderr)
            self.assertIn(f"already running (keeper pid {keeper}", start.stderr)
            self.assertTrue(answers(mx.port))
            # What would take the queue or the log from programs that run.
            for words, status in ((["logrotate"], 75), (["export", "--queue", self.folder() + "/out"], 75),
                                  (["restore", copy], 69)):
                refused = mx.tool("penstock", *words)
                self.assertEqual(refused.returncode, status, (words, refused.stdout + refused.stderr))
                self.assertRegex(refused.stderr, "programs write to the log|the mail system .*runs", words)
            # No second queue manager where there is one, even if it cannot be reached.
            public = mx.path("spool", "public")
            os.rename(public + "/qmgr", public + "/elsewhere")
            refused = mx.tool("penqueue", "-p")
            self.assertEqual(refused.returncode, 75, refused.stdout + refused.stderr)
            self.assertRegex(refused.stderr, between.replace("masters: ", r"masters \("))
            stop = mx.stop()
            self.assertEqual(stop.returncode, 0, stop.stderr)
            eventually(lambda: not mx.pids() and not any(map(runs, pids)), lambda: f"all has ended: {mx.pids()}")
            self.assertIn("not running", mx.stop().stderr)
            mx.set(daemon_directory=LIBEXEC)
            mx.start()
            self.message(mx, "started again")

    @unittest.skipIf(test_package_scripts.OTHERS, "this host has instances that the scripts would find")
    def test_the_package_s_scripts_between_two_masters(self):
        with Instance(SETTINGS) as mx:
            keeper, pids = self.between(mx)
            run = {"capture_output": True, "text": True, "timeout": 300, "env": test_package_scripts.environment(mx)}
            done = subprocess.run(["/bin/sh", test_package_scripts.SCRIPT], **run)
            self.assertEqual(done.returncode, 75, done.stdout + done.stderr)
            self.assertRegex(done.stderr, rf"has no master now, and its programs stay old: .*keeper pid {keeper}")
            self.assertTrue(answers(mx.port))
            done = subprocess.run(["/bin/sh", "-c", test_package_scripts.removal(), "prerm", "remove"], **run)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            eventually(lambda: not any(map(runs, [keeper, *pids])), lambda: f"all has ended: {mx.pids()}")

    def test_status_waits_for_a_master_that_is_due(self):
        with Instance(SETTINGS) as mx:
            self.serves(mx)
            master = mx.status()["master"]
            mx.set(daemon_directory=self.another_master('sleep 0.5; exec ' + LIBEXEC + '/master "$@"\n'))
            os.kill(master, signal.SIGKILL)
            status = mx.tool("penstock", "status", "--json")
            self.assertEqual(status.returncode, 0, status.stdout + status.stderr)
            self.assertNotIn(json.loads(status.stdout)["master"], (None, master))
            mx.set(daemon_directory=LIBEXEC)

    def test_a_first_master_that_does_not_start(self):
        with Instance(SETTINGS, start=False) as mx, Peer() as other:
            mx.set_services({f"127.0.0.1:{other.port}": "inet n - n - - smtpd"})
            start = mx.tool("penstock", "start")
            self.assertEqual(start.returncode, 71, start.stdout + start.stderr)
            self.assertIn("Address already in use", start.stderr)
            self.assertEqual(mx.pids(), {})
            mx.set(daemon_directory=self.another_master("kill -11 $$\n"))
            start = mx.tool("penstock", "start")
            self.assertEqual(start.returncode, 70, start.stdout + start.stderr)
            self.assertIn("died while it was starting", start.stderr)
            eventually(lambda: not mx.pids(), "no keeper is left")
            mx.set(daemon_directory=LIBEXEC)


class TheKeeper(Kept):
    def address(self, mx):
        with open(f"/proc/{mx.status()['master']}/environ", "rb") as file:
            return re.search(rb"NOTIFY_SOCKET=([^\0]*)", file.read())[1].decode()

    def test_killed_it_takes_nothing_with_it(self):
        with Instance(SETTINGS) as mx:
            self.serves(mx)
            before, master, keeper = self.pids(mx), mx.status()["master"], self.keeper(mx)
            folder = os.path.dirname(self.address(mx))
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                os.kill(keeper, signal.SIGKILL)
                mx.wait_log(rf"master\[{master}\]: warning: the keeper, pid {keeper}, has ended: the mail system goes "
                            "on")
                client.expect("QUIT", "221")
            eventually(lambda: "its programs end with it" in mx.tool("penstock", "status").stdout, "status says so")
            self.assertEqual((self.pids(mx), mx.status()["master"]), (before, master))
            self.message(mx, "without")
            mx.reload()
            self.message(mx, "reloaded")
            mx.set(daemon_directory=self.next)
            self.upgrade(mx)
            self.message(mx, "upgraded")
            os.kill(master, signal.SIGKILL)
            eventually(lambda: not mx.pids(), lambda: f"everything ends with master: {mx.pids()}")
            mx.set(daemon_directory=LIBEXEC)
            mx.start()
            self.assertIn("keeps what is open", mx.tool("penstock", "status").stdout)
            self.assertFalse(os.path.exists(folder), "what it left is cleared away")
            self.assertTrue(os.path.exists(self.address(mx)))

    def test_signals_go_to_master(self):
        for signo in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            with self.subTest(signo), Instance(SETTINGS) as mx:
                self.serves(mx)
                keeper = self.keeper(mx)
                reloads = mx.status()["reload"]["number"]
                os.kill(keeper, signal.SIGHUP)
                eventually(lambda: mx.status()["reload"]["number"] > reloads, "it reloads")
                os.kill(keeper, signo)
                eventually(lambda: not mx.pids() and not runs(keeper), lambda: f"all has ended: {mx.pids()}")
                self.assertNotIn("the next one starts", mx.log())

    def test_it_hears_nobody_but_master(self):
        with Instance(SETTINGS) as mx:
            self.serves(mx)
            keeper = self.keeper(mx)
            address = self.address(mx)
            folder = os.path.dirname(address)
            self.assertEqual(os.stat(folder).st_mode & 0o777, 0o700)
            before = len(os.listdir(f"/proc/{keeper}/fd"))
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
                stranger.connect(address)
                stranger.send(b"STOPPING=1")  # of a master that says so no other one would follow
                for i in range(3):
                    stranger.sendmsg([f"FDSTORE=1\nFDNAME=x{i}".encode()],
                                     [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * (i + 1)))])
                stranger.send(b"FDSTOREREMOVE=1\nFDNAME=state")
                stranger.send(b"x" * 100000)
            programs = self.pids(mx)
            self.kill_master(mx)
            self.assertEqual(programs, {k: v for k, v in self.pids(mx).items() if k in programs})
            self.assertLessEqual(len(os.listdir(f"/proc/{keeper}/fd")), before + 2)
            mx.stop()
            self.assertFalse(os.path.exists(folder), "nothing is left")

    def test_where_somebody_listens_there_is_none(self):
        with Instance(SETTINGS, start=False) as mx, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(os.path.join(mx.dir, "notify"))
            manager.settimeout(60)
            start = subprocess.Popen([os.path.join(BIN, "penstock"), "-c", mx.etc, "start"], stdout=subprocess.DEVNULL,
                                     env={**os.environ, "NOTIFY_SOCKET": manager.getsockname()})
            while b"READY=1" not in manager.recv(10000):
                pass
            self.assertEqual(start.wait(60), 0)
            self.assertNotIn("keeper", mx.pids())
            self.assertIn("(the service manager keeps what is open)", mx.tool("penstock", "status").stdout)
            manager.close()
            mx.stop()


if __name__ == "__main__":
    unittest.main()
