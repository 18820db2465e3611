#!/usr/bin/env python3
"""The packages, units and the AppArmor profile on a real Debian 12 machine (machine.py): systemd starts, watches and
stops Penstock, the kernel enforces the profile, packages come and go, and the power is cut.

By hand, as root; it takes the better part of an hour, because every instruction of the machine is emulated:
    scripts/install-dependencies --packaging --vm && scripts/build-packages
    tests/vm/test_machine.py -v [-k NAME]
PEN_VM_KEEP=1: goes on with the machine that runs, else boots it, and leaves it running for tests/vm/machine.py.
Each test is one promise, in the order of its name; each leaves a mail system that runs. The clock is the host's: a
limit in seconds that a machine without KVM cannot keep is not loosened, but waited for longer.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from guest_load import Load as Sender, Session  # noqa: E402
from machine import Machine  # noqa: E402

KEEP = os.environ.get("PEN_VM_KEEP")
SITE = {"main_mailer_type": "select Internet Site", "mailname": "string test.example",
        "destinations": "string test.example, localhost", "root_address": "string anna"}
PROGRAMS = "/usr/libexec/penstock"
# Each way that mail can go: virtual, a command as a transport, another server, a command of a user who submits, a list.
EVERY_WAY = r"""
set -e
id vmail >/dev/null 2>&1 || useradd --system -m -d /var/mail/virtual vmail
id ben >/dev/null 2>&1 || useradd -m -s /bin/bash ben
uid=$(id -u vmail)
mkdir -p /var/mail/virtual
chown vmail: /var/mail/virtual
echo 'box@virtual.example box/' >/etc/penstock/boxes
penmap lmdb:/etc/penstock/boxes
penconf -e virtual_mailbox_domains=virtual.example virtual_mailbox_base=/var/mail/virtual \
  virtual_mailbox_maps=lmdb:/etc/penstock/boxes virtual_minimum_uid=$uid virtual_uid_maps=static:$uid \
  virtual_gid_maps=static:$(id -g vmail) \
  'transport_maps=inline:{piped.example=piped:,out.example=smtp:[127.0.0.1]:2525}'
penconf -M 'piped/unix=piped unix - n n - - pipe flags=Fq user=ben argv=/usr/bin/tee -a /home/ben/piped'
services='127.0.0.1:2525 inet n - n - - smtpd -o mydestination=out.example -o transport_maps='
penconf -M "127.0.0.1:2525/inet=$services"
cat >/home/ben/.forward <<'END'
|"cat >>/home/ben/by-command; /usr/sbin/sendmail -f ben anna@test.example </home/ben/note"
END
printf 'Subject: from-forward\n\nx\n' >/home/ben/note
chown ben: /home/ben/.forward /home/ben/note
grep -q ^list /etc/aliases || echo 'list: anna, ben' >>/etc/aliases
newaliases
penalias -q list lmdb:/etc/aliases
systemctl reload penstock
"""
machine = Machine()


def setUpModule():
    if os.geteuid() != 0:
        raise unittest.SkipTest("needs root: makes a root file system")
    if KEEP:
        try:
            machine.attach()
            machine.await_boot(timeout=60)
            return
        except (OSError, AssertionError):
            pass
    machine.fresh()
    machine.boot()


def tearDownModule():
    if not KEEP:
        machine.cut()


def run(script, check=True, timeout=180):
    return machine.run(script, check, timeout)


def show(name, unit="penstock"):
    """A property of a unit."""
    return run(f"systemctl show -P {name} {unit}").strip()


def programs(name=""):
    """pid -> name of what runs of Penstock's programs."""
    out = run(f"for p in /proc/[0-9]*; do e=$(readlink $p/exe) && case $e in {PROGRAMS}/{name or '*'}*) "
              "echo ${p#/proc/} ${e##*/};; esac; done; true")
    return {int(line.split()[0]): line.split()[1] for line in out.splitlines()}


def await_active(unit="penstock", timeout=180):
    machine.until(f"[ \"$(systemctl is-active {unit})\" = active ] && penstock status >/dev/null", timeout)


def setting(*pairs):
    run("penconf -e " + " ".join(f"'{p}'" for p in pairs))


def reload():
    run("systemctl reload penstock", timeout=120)


def await_mail(subject, box="/var/mail/anna", count=1, timeout=120):
    machine.until(f"[ $(cat {box} 2>/dev/null | grep -c '^Subject: {subject}$') -ge {count} ]", timeout)


def await_empty_queue(timeout=180):
    # What waits because a program was late in a slow machine is tried again at once.
    machine.until("penqueue -p | grep -q 'Mail queue is empty' || { penqueue -f; sleep 3; false; }", timeout)


def send(subject, recipient="anna@test.example"):
    """From another host, as the machine sees it."""
    session = Session(machine.port)
    session.begin()
    session.finish(recipient, subject)
    session.end()


class Load:
    """A load in the machine, from its begin to its end; what it reports."""

    def __init__(self, name, *options, port=25, recipient="anna@test.example"):
        self.report = f"/run/{name}"
        run(f"rm -f {self.report} {self.report}.stop; systemd-run --quiet --collect --unit=load-{name} "
            f"python3 /mnt/guest_load.py {self.report} {port} {recipient} {' '.join(options)}")
        machine.until(f"[ -s {self.report}.acknowledged ]", 60)

    def end(self):
        run(f"touch {self.report}.stop")
        machine.until(f"[ -s {self.report} ]", 180)
        return json.loads(run(f"cat {self.report}", timeout=60))


def boxes(name):
    """How often each subject of a load is in the mailbox."""
    found = {}
    for line in run(f"grep -h '^Subject: {name}-' /var/mail/anna || true").splitlines():
        found[line[9:]] = found.get(line[9:], 0) + 1
    return found


class InTheMachine(unittest.TestCase):
    def tell(self, *what):
        """What the test has seen, for who runs it by hand."""
        print("\n   ", *what, file=sys.stderr, flush=True)

    def log_since(self, mark):
        return run(f"journalctl -o short-monotonic --no-pager --after-cursor='{mark}'")

    def mark(self):
        return run("journalctl -n 1 --show-cursor -q -o cat | sed -n 's/^-- cursor: //p'").strip()

    def all_arrived(self, said, name, once=True):
        """Every acknowledged message is in the mailbox."""
        wanted = said["acknowledged"]
        self.assertTrue(wanted)
        await_empty_queue()
        found = boxes(name)
        self.assertEqual([s for s in wanted if s not in found], [], "acknowledged, and gone")
        if once:
            self.assertEqual({s: n for s, n in found.items() if n > 1}, {}, "more than once")
        return len(wanted)


class T01_FirstBoot(InTheMachine):
    def test_01_the_package_is_installed_and_starts(self):
        answers = "".join(f"penstock penstock/{n} {v}\n" for n, v in SITE.items())
        out = run(f"printf '%s' '{answers}' | debconf-set-selections && DEBIAN_FRONTEND=noninteractive "
                  "dpkg -i /mnt/penstock_*.deb /mnt/penstock-postfix-commands_*.deb 2>&1", timeout=600)
        self.assertNotRegex(out.lower(), r"error|warning|fail", out)
        await_active()
        self.assertEqual(show("Type"), "notify")
        self.assertEqual(run("systemctl is-enabled penstock").strip(), "enabled")

    def test_02_it_is_started_by_a_boot(self):
        machine.reboot()
        machine.until("case $(systemctl is-system-running) in running|degraded) ;; *) false;; esac", 300)
        self.assertEqual(run("systemctl is-system-running; systemctl --failed --no-legend", check=False).strip(),
                         "running")
        self.assertEqual((show("ActiveState"), show("SubState"), show("NRestarts")), ("active", "running", "0"))
        self.tell(run("systemctl status --no-pager -l penstock"))

    def test_03_it_is_active_when_it_says_so_and_not_before(self):
        text = show("StatusText")
        self.assertRegex(text, r"\d+ services")
        log = run("journalctl -b --no-pager -o short-monotonic -u penstock")
        self.assertRegex(log, r"(?s)Starting penstock.service.*master\[\d+\]: all services are ready.*"
                              r"Started penstock.service")
        order = run("systemctl show -P After penstock")
        self.assertIn("network-online.target", order)
        times = {unit: int(show("ActiveEnterTimestampMonotonic", unit)) for unit in ("network-online.target",
                                                                                     "penstock.service")}
        self.assertLess(times["network-online.target"], int(show("InactiveExitTimestampMonotonic")))
        self.tell("status:", text, times)

    def test_04_mail_by_sendmail_and_by_smtp(self):
        run("echo x | su anna -c 'mail -s by-sendmail root'")
        await_mail("by-sendmail")
        send("by-smtp")
        await_mail("by-smtp")
        log = run("journalctl -b --no-pager -u penstock")
        for words in (r"smtpd\[\d+\]: connect from ", r"pickup\[\d+\]: \w+: uid=", r"qmgr\[\d+\]: \w+: from=<",
                      r"local\[\d+\]: \w+: to=<anna@test.example>.*status=sent", r"qmgr\[\d+\]: \w+: removed"):
            self.assertRegex(log, words)

    def test_05_its_tools_speak_of_it(self):
        status = run("penstock status")
        self.assertRegex(status, r"confined \(privileges limits files calls\): .*qmgr")
        self.assertNotIn("not confined", status)
        check = machine.ask("penstock check", 60)
        self.assertEqual(check["status"], 0, check["printed"])
        self.assertNotIn("error:", check["printed"])
        doctor = machine.ask("penstock doctor", 180)
        self.tell(status, check["printed"], doctor["printed"])
        self.assertEqual(doctor["status"], 0, doctor["printed"])



class T02_AppArmor(InTheMachine):
    """The profile in force, and everything that delivers under it."""
    PROFILE = "/etc/apparmor.d/usr.libexec.penstock.master"

    @classmethod
    def setUpClass(cls):
        run(f"aa-enforce {cls.PROFILE} && systemctl restart penstock")
        await_active()

    @classmethod
    def tearDownClass(cls):
        run("penconf -X transport_maps; penconf -MX 127.0.0.1:2525/inet; penstock reload; pensuper -d ALL", check=False)

    def denied(self, mark):
        return [l for l in self.log_since(mark).splitlines() if 'apparmor="DENIED"' in l or 'apparmor="ALLOWED"' in l]

    def test_01_every_program_is_in_it(self):
        self.assertRegex(run("aa-status"), r"(?s)profiles are in enforce mode.*\n +penstock\n")
        running = programs()
        found = {}
        for pid, name in running.items():
            found.setdefault(name, set()).add(run(f"cat /proc/{pid}/attr/current").strip())
        self.assertGreaterEqual(set(found), {"master", "become", "qmgr", "smtpd", "pickup"})
        for name, contexts in found.items():
            self.assertEqual((name, contexts), (name, {"unconfined" if name == "become" else "penstock (enforce)"}))

    def test_02_mail_goes_every_way_and_nothing_is_denied(self):
        mark = self.mark()
        run(EVERY_WAY)
        send("to-virtual", "box@virtual.example")
        send("to-local", "anna@test.example")
        send("to-alias", "list@test.example")
        run("echo x | su anna -c 'mail -s to-pipe someone@piped.example' && "
            "echo x | su anna -c 'mail -s to-smtp anna@out.example' && mailq && su anna -c mailq")
        await_mail("to-virtual", "/var/mail/virtual/box/new/*")
        for subject in ("to-local", "to-alias", "from-forward"):
            await_mail(subject)
        await_mail("to-pipe", "/home/ben/piped")
        await_mail("to-alias", "/home/ben/by-command")
        machine.until("journalctl -u penstock -b | grep 'smtp\\[.*to=<anna@out.example>.*status='", 120)
        run("penstock status; penstock check; penqueue -p; penqueue -f; pendest list; systemctl reload penstock; "
            "penstock doctor; penshape; penstock upgrade", check=False, timeout=300)
        await_active()
        self.assertEqual(self.denied(mark), [])

    def test_03_what_is_forbidden_is_denied(self):
        run("echo 'a@b.example x' >/srv/table && chmod 644 /srv/table")
        mark = self.mark()
        setting("transport_maps=texthash:/srv/table")
        reload()
        send("under-a-table-that-is-denied")
        self.assertRegex("\n".join(machine.until(
            f"journalctl -k --after-cursor='{mark}' | grep 'apparmor=\"DENIED\".*name=\"/srv/table\"'", 60)
            .splitlines()), "DENIED")
        setting("transport_maps=")
        reload()
        await_mail("under-a-table-that-is-denied")


class T03_Watchdog(InTheMachine):
    def test_a_master_that_hangs_is_replaced_and_its_programs_go_on(self):
        before, pid = programs(), int(show("MainPID"))
        load, mark = Load("hang"), self.mark()
        begin = time.time()
        run(f"kill -STOP {pid}")
        machine.until(f"[ $(systemctl show -P MainPID penstock) != {pid} ] && "
                      "[ $(systemctl is-active penstock) = active ]", 300)
        seconds = time.time() - begin
        said = load.end()
        after = programs()
        log = run(f"journalctl --no-pager --after-cursor='{mark}' -u penstock _PID=1")
        self.assertRegex(log, r"[Ww]atchdog timeout \(limit 1min\)")
        self.assertNotIn(pid, after)
        managers = [{p for p, n in found.items() if n == "qmgr"} for found in (before, after)]
        self.assertEqual(managers[0], managers[1], "the queue manager goes on")
        self.assertEqual((said["refused"], said["broken"]), ([], []))
        self.tell(f"replaced after {seconds:.0f} s; {self.all_arrived(said, 'hang')} messages meanwhile")


class T04_Descriptors(InTheMachine):
    def test_listeners_and_sessions_outlive_master(self):
        load = Load("kill", "--session", "--threads 3")
        before = programs()
        for _ in range(3):
            pid = int(show("MainPID"))
            self.assertGreater(int(show("NFileDescriptorStore")), 10)
            run(f"kill -9 {pid}")
            machine.until(f"p=$(systemctl show -P MainPID penstock); [ $p != {pid} ] && [ $p != 0 ] && "
                          "[ $(systemctl is-active penstock) = active ]", 120)
            time.sleep(5)
        said, after = load.end(), programs()
        same = {p for p, n in before.items() if n in ("smtpd", "qmgr", "pickup")}
        self.assertLessEqual(same, set(after), "the programs go on")
        self.assertEqual((said["refused"], said["broken"], said["session"]), ([], [], "whole"))
        self.tell(f"{said['connections']} connections, {self.all_arrived(said, 'kill')} messages")


class T05_Orders(InTheMachine):
    def test_01_reload(self):
        pid = show("MainPID")
        load = Load("reload", "--session")
        setting("smtpd_banner=$myhostname ESMTP changed")
        reload()
        self.assertIn("ESMTP changed", machine.until(
            "python3 -c 'import socket; print(socket.create_connection((\"127.0.0.1\", 25)).recv(99))' | grep changed"))
        self.assertEqual((show("MainPID"), show("ActiveState")), (pid, "active"))
        said = load.end()
        self.assertEqual((said["refused"], said["broken"], said["session"]), ([], [], "whole"))
        self.all_arrived(said, "reload")
        run("penconf -X smtpd_banner")
        reload()

    def test_02_restart(self):
        load = Load("restart")
        before = programs()
        run("systemctl restart penstock", timeout=200)
        await_active()
        time.sleep(3)
        said = load.end()
        self.assertFalse(set(before) & set(programs()), "all are new")
        self.all_arrived(said, "restart")
        self.tell(f"refused while it restarts: {len(said['refused'])}, sessions broken: {said['broken'][:3]}")

    def test_03_stop_drains(self):
        load = Load("stop", "--threads 1", "--pause 0.5")
        run("python3 - <<'END' >/run/drained 2>&1 &\nimport sys, time\nsys.path.insert(0, '/mnt')\n"
            "from guest_load import Session\ns = Session(25)\ns.begin()\nopen('/run/drain-begun', 'w').close()\n"
            "time.sleep(6)\ns.finish('anna@test.example', 'drained')\nprint('drained')\nEND\n"
            "while [ ! -e /run/drain-begun ]; do sleep 0.1; done; rm /run/drain-begun")
        begin = time.time()
        run("systemctl stop penstock", timeout=200)
        seconds = time.time() - begin
        self.assertEqual((show("ActiveState"), show("Result")), ("inactive", "success"))
        self.assertEqual(programs(), {})
        drained = run("cat /run/drained")
        run("systemctl start penstock")
        await_active()
        said = load.end()
        self.all_arrived(said, "stop")
        self.tell(f"stopped in {seconds:.1f} s; the open session: {drained}")

    def test_04_kill(self):
        pid = show("MainPID")
        run("systemctl kill penstock")  # SIGTERM to every process of it
        machine.until("[ $(systemctl is-active penstock) = inactive ]", 120)
        self.assertEqual((show("Result"), programs()), ("success", {}))
        run("systemctl start penstock")
        await_active()
        run("systemctl kill -s KILL penstock")  # every process of it
        machine.until("[ $(systemctl is-active penstock) = active ] && "
                      f"[ $(systemctl show -P MainPID penstock) != {pid} ]")
        await_active()
        send("after-kill")
        await_mail("after-kill")

    def test_05_mail_waits_through_a_reboot(self):
        setting("defer_transports=local")
        reload()
        for number in range(5):
            send(f"waits-{number}")
        run("echo x | su anna -c 'mail -s waits-5 anna'")
        machine.until("[ $(penqueue -j | wc -l) = 6 ]")
        begin = time.time()
        machine.reboot()
        await_active(timeout=300)
        self.tell(f"rebooted in {time.time() - begin:.0f} s")
        log = run("journalctl -b -1 --no-pager -u penstock | tail -20")
        self.assertRegex(log, r"Stopped penstock.service|Stopped Penstock")
        self.assertNotRegex(log, r"[Tt]imed out|SIGKILL|Killing process")
        self.assertEqual(run("penqueue -j | wc -l").strip(), "6")
        setting("defer_transports=")
        reload()
        run("penqueue -f")
        for number in range(6):
            await_mail(f"waits-{number}")
        await_empty_queue()


class T06_PowerCut(InTheMachine):
    ROUNDS = int(os.environ.get("PEN_VM_CUTS", "3"))

    def test_what_was_acknowledged_is_there(self):
        total = 0
        for number in range(self.ROUNDS):
            name = f"cut{number}-{int(time.time())}"
            report = machine.path(name)
            sender = Sender(argparse.Namespace(report=report, port=machine.port, recipient="anna@test.example",
                                               threads=4, pause=0.0, session=False, stop=None))
            if number % 2:
                setting("defer_transports=local")  # in the log and not yet in the mailbox
                reload()
            thread = threading.Thread(target=sender.run, daemon=True)
            thread.start()
            time.sleep(15 + 3 * number)
            with sender.lock:
                machine.cut(kept=number % 2 == 0)
            open(report + ".stop", "w").close()
            thread.join(150)
            machine.boot()
            await_active(timeout=600)
            # The lock of a delivery that was cut holds others until it is stale (stale_lock_time, 500 seconds).
            run("rm -f /var/mail/anna.lock")
            if number % 2:
                setting("defer_transports=")
                reload()
                run("penqueue -f")
            wanted = sender.said["acknowledged"]
            self.assertGreater(len(wanted), 10)
            await_empty_queue(300)
            found = boxes(name)
            self.assertEqual([s for s in wanted if s not in found], [], "acknowledged, and gone")
            total += len(wanted)
            self.tell(f"{len(wanted)} acknowledged, {len(found)} there, "
                      f"{sum(n > 1 for n in found.values())} of them more than once")



class T07_Sandboxes(InTheMachine):
    def test_services_without_privileges_submit_mail(self):
        for name, properties in (("nnp", "-p NoNewPrivileges=yes -p User=anna"), ("dynamic", "-p DynamicUser=yes"),
                                 ("strict", "-p DynamicUser=yes -p ProtectSystem=strict -p ProtectHome=yes "
                                            "-p PrivateTmp=yes -p NoNewPrivileges=yes -p PrivateDevices=yes "
                                            "-p RestrictSUIDSGID=yes -p CapabilityBoundingSet=")):
            with self.subTest(name):
                run(f"printf 'Subject: sandbox-{name}\\n\\nx\\n' >/run/note && chmod 644 /run/note && "
                    f"systemd-run --quiet --wait --pipe --collect {properties} "
                    "sh -c '/usr/sbin/sendmail anna@test.example' </run/note")
                await_mail(f"sandbox-{name}")
        # Otherwise by the set-group-id program, whose file is the user's own.
        self.assertRegex(run("journalctl -b --no-pager -u penstock | grep 'pickup.*uid=' | tail -3"), r"uid=6\d{4}")


class T08_Instances(InTheMachine):
    def test_01_one_beside_the_main_one(self):
        run("[ -e /etc/penstock-out ] || penstock multi -e create -I penstock-out; "
            "penstock multi -e enable -i penstock-out; "
            "penconf -c /etc/penstock-out -e master_service_disable= authorized_submit_users=static:anyone "
            "smtpd_tls_security_level= inet_interfaces=all && "
            "penconf -c /etc/penstock-out -MX smtp/inet; penconf -c /etc/penstock-out -M "
            "'127.0.0.1:2526/inet=127.0.0.1:2526 inet n - n - - smtpd' && systemctl enable --now penstock@out")
        self.assertEqual(show("ActiveState", "penstock@out"), "active")
        listed = run("penstock list")
        self.assertRegex(listed, r"(?m)^penstock-out .*yes.*yes.*/etc/penstock-out$", listed)
        self.tell(listed, run("penstock -a status"), run("systemctl status --no-pager penstock@out | head -12"))
        run("python3 - <<'END'\nimport sys\nsys.path.insert(0, '/mnt')\nfrom guest_load import Session\n"
            "s = Session(2526)\ns.begin()\ns.finish('anna@test.example', 'by-the-other')\nEND")
        await_mail("by-the-other")
        self.assertIn("penstock-out/local[", run("journalctl -b --no-pager -u penstock@out"))
        main = show("MainPID")
        run("systemctl restart penstock@out")
        self.assertEqual(show("MainPID"), main)

    def test_02_one_without_root(self):
        run("[ -e /etc/penstock-edge ] || penstock multi -e create -I penstock-edge; "
            "penconf -c /etc/penstock-edge -e master_service_disable= 'relayhost=[127.0.0.1]:25' mydestination= "
            "smtpd_tls_security_level= relay_domains=test.example && penconf -c /etc/penstock-edge -MX smtp/inet; "
            "penconf -c /etc/penstock-edge -M '127.0.0.1:24/inet=127.0.0.1:24 inet n - n - - smtpd' && "
            "chown -R penstock: /var/spool/penstock-edge /var/lib/penstock-edge && systemctl start penstock-relay@edge")
        self.assertEqual(show("ActiveState", "penstock-relay@edge"), "active")
        users = run("systemctl show -P MainPID penstock-relay@edge | xargs -I{} ps -o user=,comm= --ppid {} -p {}")
        self.assertEqual({line.split()[0] for line in users.splitlines()}, {"penstock"}, users)
        run("python3 - <<'END'\nimport sys\nsys.path.insert(0, '/mnt')\nfrom guest_load import Session\n"
            "s = Session(24)\ns.begin()\ns.finish('anna@test.example', 'by-the-edge')\nEND")
        await_mail("by-the-edge")
        self.tell(run("systemctl status --no-pager penstock-relay@edge | head -14"))


class T09_Hardening(InTheMachine):
    def test_the_units_in_force_are_as_hard_as_the_pages_say(self):
        limits = {"penstock.service": 3.6, "penstock@out.service": 3.6, "penstock-relay@edge.service": 2.0}
        for unit, limit in limits.items():
            out = run(f"systemctl start {unit}; systemd-analyze security --no-pager {unit}")
            figure = re.search(r"Overall exposure level for \S+: ([\d.]+)", out)
            self.tell(figure.group(0))
            self.assertLessEqual(float(figure.group(1)), limit, out)
        # In force, and not only written: what the kernel says of each master.
        pid = show("MainPID")
        status = run(f"cat /proc/{pid}/status")
        self.assertRegex(status, r"NoNewPrivs:\s+0\n")
        self.assertRegex(status, r"Seccomp:\s+2\n")
        self.assertNotRegex(status, r"CapBnd:\s+000001ffffffffff")
        self.assertIn("Read-only file system", run(f"nsenter -t {pid} -m touch /etc/x 2>&1 || true"))
        edge = show("MainPID", "penstock-relay@edge")
        self.assertRegex(run(f"cat /proc/{edge}/status"),
                         r"(?s)Uid:\s+(?!0\t).*CapBnd:\s+0000000000000400\n.*NoNewPrivs:\s+1")


class T10_Packages(InTheMachine):
    def test_01_an_upgrade_refuses_nobody(self):
        load = Load("upgrade", "--session", "--threads 2", "--pause 0.2")
        before, pid = programs(), show("MainPID")
        out = run("dpkg -i /mnt/penstock-next.deb 2>&1", timeout=900)
        after = programs()
        said = load.end()
        self.assertIn("+next", run("dpkg-query -W -f '${Version}' penstock"))
        self.assertEqual((show("MainPID"), show("ActiveState"), show("NRestarts")), (pid, "active", show("NRestarts")))
        self.assertFalse([p for p, n in after.items() if n == "qmgr" and p in before], out)
        self.assertEqual((said["refused"], said["broken"], said["session"]), ([], [], "whole"), out)
        self.tell(out, f"{said['connections']} connections, {self.all_arrived(said, 'upgrade')} messages")

    def test_02_needrestart_does_not_cut_anything(self):
        load = Load("needrestart", "--session")
        pid = show("MainPID")
        # A library was renewed: another file of the same name.
        run("cd /usr/lib/x86_64-linux-gnu && f=$(readlink -f libuv.so.1) && cp $f $f.new && mv $f.new $f")
        out = run("NEEDRESTART_MODE=a needrestart -r a -b 2>&1; NEEDRESTART_MODE=a needrestart -r a 2>&1", False, 400)
        await_active()
        said = load.end()
        self.tell(out)
        self.assertEqual(show("MainPID"), pid)
        self.assertEqual(run("grep -l 'libuv.*(deleted)' /proc/[0-9]*/maps || true").strip(), "", "the new library")
        self.assertEqual((said["refused"], said["broken"], said["session"]), ([], [], "whole"), out)
        self.all_arrived(said, "needrestart")

    def test_03_removal_and_purge_keep_mail(self):
        run("systemctl stop penstock-relay@edge; true")
        setting("defer_transports=local")
        reload()
        for number in range(3):
            send(f"kept-{number}")
        machine.until("[ $(penqueue -j | wc -l) = 3 ]")
        removed = run("DEBIAN_FRONTEND=noninteractive dpkg --remove penstock-postfix-commands penstock 2>&1",
                      timeout=300)
        self.assertEqual(programs(), {}, removed)
        self.assertNotEqual(show("ActiveState"), "active")
        self.assertEqual(run("systemctl --failed --no-legend").strip(), "")
        purged = run("dpkg --purge penstock penstock-postfix-commands 2>&1", timeout=300)
        self.assertIn("mail may be waiting in /var/spool/penstock: it is kept", purged)
        self.assertEqual(run("ls -d /etc/penstock /var/lib/penstock 2>/dev/null || true").strip(), "")
        answers = "".join(f"penstock penstock/{n} {v}\n" for n, v in SITE.items())
        out = run(f"printf '%s' '{answers}' | debconf-set-selections && DEBIAN_FRONTEND=noninteractive "
                  "dpkg -i /mnt/penstock_*.deb /mnt/penstock-postfix-commands_*.deb 2>&1", timeout=900)
        await_active()
        for number in range(3):
            await_mail(f"kept-{number}")
        self.tell(removed, purged, out)


class T11_Log(InTheMachine):
    def test_01_the_log_is_in_the_journal(self):
        send("in-the-journal")
        await_mail("in-the-journal")
        self.assertIn("anna@test.example", run("journalctl -b --no-pager -t penstock/local || true") +
                      run("journalctl -b --no-pager -u penstock -g 'to=<anna@test.example>.*status=sent' || true"))
        self.assertEqual(run("journalctl --disk-usage >/dev/null && journalctl --rotate && echo x").strip(), "x")
        send("after-rotation")
        await_mail("after-rotation")
        machine.until("journalctl -u penstock --no-pager | tail -20 | grep -q 'status=sent'", 30)

    def test_02_a_file_of_its_own_is_rotated(self):
        setting("maillog_file=/var/log/penstock.log")
        run("systemctl restart penstock")
        await_active()
        send("in-the-file")
        await_mail("in-the-file")
        machine.until("grep -q 'to=<anna@test.example>.*status=sent' /var/log/penstock.log", 30)
        self.tell(run("penstock logrotate 2>&1; ls -l /var/log/penstock.log*"))
        self.assertEqual(run("ls /var/log/penstock.log.*.gz | wc -l").strip(), "1")
        send("in-the-next-file")
        await_mail("in-the-next-file")
        machine.until("grep -q 'to=<anna@test.example>.*status=sent' /var/log/penstock.log", 30)
        run("penconf -X maillog_file && systemctl restart penstock")
        await_active()

    def test_03_ufw_knows_its_ports(self):
        out = run("ufw app list; ufw app info Penstock")
        for name in ("Penstock", "Penstock Submission", "Penstock Submissions"):
            self.assertRegex(out, rf"(?m)^  {name}$")
        self.assertRegex(out, r"25/tcp")


if __name__ == "__main__":
    unittest.main()
