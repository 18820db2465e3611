"""Every program of a running suite is taken over, and tries what docs/security.md says that it cannot: to read the
queue, a key, other files and other processes' memory, to write, start, connect and signal. Without confinement it
succeeds. And it tries to be heard where docs/who-may-talk.md does not have it: with its badge, without, as another."""
import fcntl
import glob
import json
import os
import pwd
import signal
import socket
import struct
import subprocess

import badges
import takeover
import test_confinement
import unit_filter
from badges import Badges, may_hold
from certificates import Authority
from harness import *
from instance import mail_owner, queue_owner
from service_store import Store
from takeover import AT_FDCWD, Refused, Taken
from test_confinement import has_landlock_here, uses_every_program
from test_root_helper import children_of

READ, WRITE = os.O_RDONLY | os.O_CLOEXEC, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
OFF = {"confine_privileges": "no", "confine_system_calls": "no", "confine_files": "no", "confine_limits": "no"}
SEIZE = 0x4206
# The table of docs/security.md once more: whom a program may reach by TCP, and who opens what.
ANYWHERE = {"smtp", "lmtp", "tlsrpt", "penevents", "local", "cyrus"}
QUEUE_BY = {"qmgr"}
MAILDROP_BY = {"pickup", "maildrop"}
KEYS_BY = {"keys"}
# What each keeps in data_directory. Those of mail_owner's without confinement reach what all of them keep.
STATE = {"senders": "anvil", "mta_sts": "trivial-rewrite", "tlsrpt": "tlsrpt", "dmarcrpt": "dmarcrpt",
         "events": "penevents", "penapi": "penapi", "verify_cache": "verify", "postscreen_cache": None,
         "destdb": "qmgr"}


class Tried:
    """What one program can do: each is whether it succeeded."""
    def __init__(self, program):
        self.program = program

    def reads(self, path):
        return self.opens(path, READ)

    def opens(self, path, flags):
        try:
            fd = self.program.call("openat", AT_FDCWD, self.program.text(path), flags, 0o600)
        except Refused:
            return False
        if fd >= 0:
            self.program.call("close", fd)
        return fd >= 0

    def makes(self, path):
        made = self.opens(path, WRITE)
        self.gone(path)
        return made

    def gone(self, path):
        if os.path.exists(path):
            os.unlink(path)

    def does(self, name, *arguments):
        try:
            return self.program.call(name, *arguments) >= 0
        except Refused:
            return False

    def looks_into(self, victim, address):
        copy = self.program.bytes(b"\0" * 8)
        here = self.program.bytes(struct.pack("<QQ", copy, 8))
        there = self.program.bytes(struct.pack("<QQ", address, 8))
        return self.does("process_vm_readv", victim, here, 1, there, 1, 0)

    def connects(self, port):
        try:
            fd = self.program.call("socket", socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, 0)
            if fd < 0:
                return False
            address = self.program.bytes(struct.pack("<H", socket.AF_INET) + struct.pack(">H", port) + b"\x7f\0\0\x01" +
                                         b"\0" * 8)
            done = self.program.call("connect", fd, address, 16)
            self.program.call("close", fd)
            return done == 0
        except Refused:
            return False


class Socket:
    """A connection of a program that was taken over."""
    def __init__(self, program, path):
        self.program = program
        self.fd = program.call("socket", socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, 0)
        assert self.fd >= 0, self.fd
        name = path.encode() + b"\0"
        address = program.bytes(struct.pack("<H", socket.AF_UNIX) + name)
        done = program.call("connect", self.fd, address, 2 + len(name))
        assert done == 0, (path, done)
        self.room = program.room(64)

    def say(self, data):
        return self.program.call("sendto", self.fd, self.program.bytes(data), len(data), 0x4000, 0, 0)

    def is_answered(self):
        """What the other end sends first: anything, or the end."""
        return self.program.call("read", self.fd, self.room, 64) > 0

    def rest(self):
        """Reads to the end."""
        data = b""
        while (n := self.program.call("read", self.fd, self.room, 64)) > 0:
            data += self.program.memory(self.room, n)
        return data

    def close(self):
        self.program.call("close", self.fd)


def restricted_tracing():
    """Yama, where a host has it: not even its own account may look into a process."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope") as scope:
            return scope.read().strip() != "0"
    except FileNotFoundError:
        return False


def some_address(pid):
    with open(f"/proc/{pid}/maps") as maps:
        return int(next(line for line in maps if " rw-p " in line).split("-")[0], 16)


@unittest.skipIf(os.geteuid() != 0, "only root can take other accounts' processes over")
@unittest.skipIf(sanitizers.settings(), "a sanitizer's build is confined in part only")
class Takeover(Suite):
    SERVICES = test_confinement.Confinement.SERVICES

    def setUp(self):
        why = takeover.missing() or (None if has_landlock_here() else "no Landlock here")
        if why:
            self.skipTest(why)

    def instance(self, settings, start=True):
        mx = Instance({**test_confinement.Confinement.SETTINGS, "smtp_mta_sts_enable": "yes", **settings},
                      services=self.SERVICES, start=False)
        try:
            cert = Authority(os.path.join(mx.dir, "tls")).issue("mx.test.example")
            # As many have it: a key of the account that the programs run as.
            os.chown(cert.key, *self.ids(mail_owner()))
            mx.set(smtpd_tls_cert_file=cert.pem, smtpd_tls_key_file=cert.key, smtpd_tls_security_level="may")
            if start:
                mx.start()
        except BaseException:
            mx.close()
            raise
        self.key = cert.key
        return mx

    @staticmethod
    def ids(name):
        return pwd.getpwnam(name)[2:4]

    def prepare(self, mx):
        """Mail in the queue and in the spool, and every program running: (program, pid) of each."""
        send(mx.port, "ada@sender.example", ["who@there.example"], mail("large", ("x" * 70 + "\r\n") * 4000))
        uses_every_program(mx)
        wanted = {"smtpd", "qmgr", "trivial-rewrite", "smtp", "lmtp", "error", "discard", "local", "pipe", "bounce",
                  "anvil", "pickup", "tlsrpt", "dmarcrpt", "spawn", "virtual", "verify", "retry", "penevents", "keys",
                  "penapi", "cyrus", "qmqpd"}
        serving = eventually(lambda: wanted <= {s["program"] for s in self.serving(mx)} and self.serving(mx),
                             lambda: mx.status())
        self.segment = glob.glob(mx.path("spool", "log", "*"))[0]
        self.body = next(p for p in glob.glob(mx.path("spool", "spool", "**"), recursive=True) if os.path.isfile(p))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.listener.close)
        self.port = self.listener.getsockname()[1]
        self.elsewhere = mx.write("elsewhere/file", "secret")
        self.open_place = os.path.join(mx.dir, "open")
        os.mkdir(self.open_place)
        os.chmod(self.open_place, 0o1777)
        return {s["program"]: s["pid"] for s in serving}

    @staticmethod
    def serving(mx):
        return [s for s in mx.status()["services"] if s["state"] == "serving" and "confined" in s]

    def try_all(self, mx, taken):
        # Another process of the same account, which anybody of the account may look into.
        uid, gid = self.ids(mail_owner())
        victim = subprocess.Popen(["/bin/sleep", "1000"], user=uid, group=gid, extra_groups=[])
        try:
            return self.try_all_with(mx, Tried(taken), victim.pid)
        finally:
            victim.kill()
            self.addCleanup(victim.wait)  # who traces it must end first

    def try_all_with(self, mx, tried, victim):
        return {
            "queue": tried.reads(self.segment), "spool": tried.reads(self.body), "key": tried.reads(self.key),
            "shadow": tried.reads("/etc/shadow"), "elsewhere": tried.reads(self.elsewhere),
            "memory file": tried.reads(f"/proc/{victim}/mem"),
            "memory": tried.looks_into(victim, some_address(victim)),
            "maildrop": tried.makes(mx.path("spool", "maildrop", "taken")),
            "settings": tried.makes(os.path.join(mx.etc, "taken")), "write": tried.makes(self.open_place + "/taken"),
            "signal": tried.does("kill", victim, 0), "trace": tried.does("ptrace", SEIZE, victim, 0, 0),
            "connect": tried.connects(self.port), "data": tried.makes(mx.path("data", "taken")),
            "state": {name for name in STATE if tried.makes(mx.path("data", name, "taken"))},
            "tickets": tried.opens(mx.path("data", "tls_ticket_keys"), os.O_RDWR | os.O_CLOEXEC),
            "policies": tried.opens(mx.path("data", "mta_sts", "data.mdb"), os.O_RDWR | os.O_CLOEXEC),
        }

    def test_who_takes_a_program_over_gets_no_further(self):
        with self.instance({}) as mx:
            self.gets_no_further(mx)

    def test_nor_under_what_the_unit_forbids_and_permits(self):
        why = unit_filter.missing()
        if why:
            self.skipTest(why)
        unit = "penstock.service"
        with self.instance({}, start=False) as mx:
            penstock = [os.path.join(BIN, "penstock"), "-c", mx.etc, "start-fg"]
            front = subprocess.Popen([*unit_filter.bounded(unit), *penstock], preexec_fn=unit_filter.enforced(unit))
            try:
                mx.wait_log("all services are ready")
                self.gets_no_further(mx)
                for service in self.serving(mx):  # the unit's filter, and the program's own
                    self.assertEqual(test_confinement.status_of(service["pid"])["Seccomp_filters"], "2", service)
            finally:
                front.terminate()
                front.wait(timeout=60)

    def gets_no_further(self, mx):
        pids = self.prepare(mx)
        self.assertNotEqual(queue_owner(), mail_owner())
        (pids["maildrop"],) = children_of(pids["qmgr"])
        for program, pid in sorted(pids.items()):
            with self.subTest(program):
                with Taken(pid) as taken:
                    got = self.try_all(mx, taken)
                    for name in ("execve", "fork", "listen"):
                        with self.assertRaises(Refused):
                            taken.call(name, taken.text("/bin/true"), 0, 0)
                self.assertEqual(got, {
                    "queue": program in QUEUE_BY, "spool": program in QUEUE_BY, "key": program in KEYS_BY,
                    "shadow": False, "elsewhere": False, "memory file": False, "memory": False,
                    "maildrop": program in MAILDROP_BY, "settings": False, "write": False, "signal": False,
                    "trace": False,
                    "connect": program in ANYWHERE, "data": False,
                    "state": {name for name, owner in STATE.items() if owner == program},
                    "tickets": program == "smtpd", "policies": program == "trivial-rewrite"})
        # None of them noticed, and each does its work still.
        del pids["maildrop"]
        self.assertEqual({s["program"]: s["pid"] for s in self.serving(mx)}, pids)
        send(mx.port, "ada@sender.example", ["who@piped.example"], mail("after"))
        mx.wait_log(r"pipe\[\d+\]: \w+: to=<who@piped\.example>.*status=sent")

    def test_who_starts_a_command_ends_with_a_line_in_the_log(self):
        with self.instance({}) as mx:
            pids = self.prepare(mx)
            for program, pid in sorted(pids.items()):
                with self.subTest(program):
                    with Taken(pid) as taken:
                        self.assertEqual(taken.give_in("execve", taken.text("/bin/true"), 0, 0), 77)
                    mx.wait_log(rf"master\[\d+\]: warning: service \S+: {program} pid {pid} made a system call that it "
                                r"must not make: execve \(59\): the process ends")
            send(mx.port, "ada@sender.example", ["who@piped.example"], mail("after"))
            mx.wait_log(r"pipe\[\d+\]: \w+: to=<who@piped\.example>.*status=sent")

    def test_what_it_may_call_it_may_not_turn_against_others(self):
        with self.instance({}) as mx:
            pids = self.prepare(mx)
            victim = pids["anvil"]
            before = len(mx.log())
            for program, pid in sorted(pids.items()):
                with self.subTest(program), Taken(pid) as taken:
                    tried = Tried(taken)
                    files = {fd: os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
                    log = int(next(fd for fd, path in files.items() if path.startswith(mx.path("log") + "/")))
                    if program not in ("qmgr", "penevents"):  # docs/security.md
                        self.assertFalse(tried.does("ftruncate", log, 0))
                    self.assertFalse(tried.does("fallocate", log, 3, 0, 1 << 20))
                    action = taken.bytes(b"\0" * 32)
                    self.assertFalse(tried.does("mmap", 0, 4096, 7, 0x22, -1, 0))
                    self.assertFalse(tried.does("mprotect", taken.place, 4096, 5))
                    self.assertFalse(tried.does("link", taken.text("/etc/hosts"), taken.text(self.open_place + "/x")))
                    self.assertFalse(tried.does("rt_sigaction", signal.SIGSYS, action, 0, 8))
                    self.assertTrue(tried.does("rt_sigaction", signal.SIGUSR2, 0, action, 8))
                    pair = taken.bytes(b"\0" * 8)
                    self.assertTrue(tried.does("socketpair", socket.AF_UNIX, socket.SOCK_STREAM, 0, pair))
                    self.assertFalse(tried.does("fcntl", log, fcntl.F_SETOWN, victim))
                    self.assertFalse(tried.does("fcntl", log, fcntl.F_SETSIG, signal.SIGKILL))
                    address = taken.bytes(struct.pack("<H", socket.AF_INET) + struct.pack(">H", self.port) +
                                          b"\x7f\0\0\x01" + b"\0" * 8)
                    try:
                        fresh = taken.call("socket", socket.AF_INET, socket.SOCK_STREAM, 0)
                    except Refused:
                        continue
                    self.assertFalse(tried.does("sendto", fresh, address, 1, 0x20000000, address, 16))
                    taken.call("close", fresh)
            self.assertGreaterEqual(len(mx.log()), before)
            path = mx.path("data", "mta_sts", "taken")
            with Taken(pids["trivial-rewrite"]) as taken:
                tried = Tried(taken)
                for mode in (0o4755, 0o2755, 0o666):
                    self.assertFalse(tried.does("openat", AT_FDCWD, taken.text(path), WRITE, mode))
                made = taken.call("openat", AT_FDCWD, taken.text(path), WRITE, 0o600)
                self.assertGreaterEqual(made, 0)
                self.assertFalse(tried.does("fchmod", made, 0o4755))
            self.assertEqual(os.stat(path).st_mode & 0o7777, 0o600)

    def test_what_it_tells_master_forges_no_line_and_no_terminal(self):
        with self.instance({}) as mx:
            pid = self.prepare(mx)["smtpd"]
            with Taken(pid) as taken:
                for word in (b"failed \x1b]0;evil\x07\x1b[2J", b"violation \x1b[2J evil",
                             b"violation execve (59)\nOct 1 host penstock/qmgr[1]: evil"):
                    self.assertEqual(taken.call("sendto", 5, taken.bytes(word), len(word), 0, 0, 0), len(word))
            mx.wait_log(rf"smtpd pid {pid} made a system call that it must not make: what it tells of it is no system")
            mx.wait_log(rf"smtpd pid {pid} made a system call that it must not make: execve \(59\)\n")
            self.assertNotIn("evil", "".join(line for line in mx.log().splitlines() if "must not make" in line))
            self.assertNotIn("\x1b", mx.log() + mx.tool("penstock", "status").stdout + str(mx.status()))

    def services_of(self, mx):
        """program -> the services that it serves with a socket of the queue directory: (label, path)."""
        found = {}
        for service in mx.status()["services"]:
            for path in service["listens"]:
                if path.startswith("/"):
                    found.setdefault(service["program"], []).append((service["service"], path))
        return found

    def hears(self, taken, path, conversation, *shown):
        connection = Socket(taken, path)
        try:
            connection.say(badges.hello(conversation, *shown))
            return connection.is_answered()
        finally:
            connection.close()

    def test_a_program_is_heard_where_the_table_has_it_and_nowhere_else(self):
        self.try_to_be_heard({}, own_queue=True)

    def test_so_it_is_where_the_queue_has_no_account_of_its_own(self):
        self.try_to_be_heard({"queue_owner": mail_owner()}, own_queue=False)

    def try_to_be_heard(self, settings, own_queue):
        with self.instance(settings, start=False) as mx, Store(mx) as store:
            store.start()
            pids = self.prepare(mx)
            made, places, heard = Badges(store), self.services_of(mx), set()
            for program, pid in sorted(pids.items()):
                with self.subTest(program), Taken(pid) as taken:
                    for conversation, (servers, _) in badges.TALKS.items():
                        for server in set(servers.split()) - {program}:  # which stands still
                            label, path = places[server][0]
                            may = may_hold(program, conversation)
                            got = {"own badge": self.hears(taken, path, conversation, program,
                                                           made.badge(label, program)),
                                   "no badge": self.hears(taken, path, conversation),
                                   "another's name": any(
                                       self.hears(taken, path, conversation, other, made.badge(label, program))
                                       for other in ("qmgr", "smtpd", "penapi") if other != program),
                                   "another's badge": self.hears(taken, path, conversation, program,
                                                                 made.badge("pickup/unix", program))}
                            if program == "qmgr" and own_queue:  # its account says who it is
                                wanted = dict.fromkeys(got, may)
                            else:
                                wanted = {"own badge": may, "no badge": conversation in badges.OF_USERS,
                                          "another's name": False, "another's badge": False}
                            self.assertEqual(got, wanted, (conversation, server))
                            if may:
                                heard.add(conversation)
                    if program == "pickup":
                        continue
                    # Nor is it a user who submits, where the programs' accounts are nobody else's.
                    connection = Socket(taken, mx.path("spool", "open", "submit"))
                    connection.say(struct.pack("<I", 1) + b"x")
                    code = b"77 the account" if own_queue else b"65 "
                    self.assertTrue(connection.rest().startswith(code))
                    connection.close()
            self.assertEqual(heard, set(badges.TALKS) - {"trace"})
            # Root alone traces.
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(places["smtp"][0][1])
                connection.sendall(badges.hello("trace"))
                self.assertNotEqual(connection.recv(100), b"")
            self.assertEqual({s["program"]: s["pid"] for s in self.serving(mx)}, pids)
            send(mx.port, "ada@sender.example", ["who@piped.example"], mail("after"))
            mx.wait_log(r"pipe\[\d+\]: \w+: to=<who@piped\.example>.*status=sent")

    def test_a_program_tells_events_of_itself_alone(self):
        with self.instance({}, start=False) as mx, Store(mx) as store:
            store.start()
            pid = self.prepare(mx)["smtpd"]
            made, path = Badges(store), mx.path("spool", "private", "events")
            with Taken(pid) as taken:
                for name, heard in (("smtpd", True), ("qmgr", False)):
                    connection = Socket(taken, path)
                    connection.say(badges.hello("events", "smtpd", made.badge("events/unix", "smtpd")))
                    self.assertTrue(connection.is_answered())
                    connection.say(badges.told(name))
                    if not heard:
                        self.assertFalse(connection.is_answered())
                    connection.close()
            mx.wait_log(rf"penevents\[\d+\]: warning: events of pid {pid}: smtpd tells events of qmgr: a message out "
                        "of place")
            self.assertNotIn("events of smtpd", mx.log())

    def test_an_envelope_has_what_its_program_may_set_and_nothing_else(self):
        with self.instance({}, start=False) as mx, Store(mx) as store:
            store.start()
            pids = self.prepare(mx)
            made, path = Badges(store), mx.path("spool", "public", "qmgr")
            forbidden = {"transport": {"transport": "piped:"}, "transport error:": {"transport": "error:5.0.0 no"},
                         "purpose traced": {"purpose": 1}, "purpose probe": {"purpose": 2},
                         "filter, which no setting names": {"filter": "piped:"}}
            with Taken(pids["smtpd"]) as taken:
                for n, (field, values) in enumerate([*forbidden.items(), (None, {"hold": True, "tenant": "acme"})]):
                    with self.subTest(field):
                        connection = Socket(taken, path)
                        connection.say(badges.hello("enqueue", "smtpd", made.badge("qmgr/unix", "smtpd")))
                        connection.say(badges.enqueue(f"4bTaken{n}", **values))
                        if field:
                            mx.wait_log(rf"qmgr\[\d+\]: warning: 4bTaken{n}: message refused: an envelope of smtpd may "
                                        rf"not have this: {field}\n")
                        connection.close()
            taken = lambda: [m["queue_id"] for m in mx.queue() if m["queue_id"].startswith("4bTaken")]
            eventually(lambda: taken() == ["4bTaken5"], taken)

    def bodies_of(self, pid):
        """number -> path, of the files of the spool that the process has open."""
        links = {fd: os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        return {int(fd): path for fd, path in links.items() if "/spool/body-" in path}

    def test_who_keeps_a_body_sees_and_changes_no_other_message(self):
        large, size = ("x" * 70 + "\r\n") * 8000, 1 << 19
        with self.instance({}) as mx:
            (pid,) = mx.pids()["smtpd"]
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                client.expect("RCPT TO:<who@discarded.example>", "250")
                client.expect("DATA", "354")
                client.raw(b"Subject: mine\r\n\r\n" + large.encode())
                fd, kept = min(eventually(lambda: self.bodies_of(pid), "smtpd writes a body").items())
                with Taken(pid) as taken:
                    copy = taken.call("dup", fd)
                    mapped = taken.call("mmap", 0, size, 3, 1, fd, 0)
                    ends = taken.room(8)
                    self.assertEqual(taken.call("pipe2", ends, os.O_NONBLOCK), 0)
                    out, into = struct.unpack("<ii", taken.memory(ends, 8))
                    self.assertGreater(taken.call("splice", fd, taken.room(8), into, 0, 65536, 2), 0)
                client.raw(b".\r\n")
            mx.wait_log(r"to=<who@discarded\.example>.*status=sent")

            def others(count):
                for _ in range(count):
                    send(mx.port, "eve@sender.example", ["who@there.example"], mail("secret", large))
                return {path for path in self.spooled(mx)}

            self.assertNotIn(kept, others(20))
            with Taken(pid) as taken:
                room = taken.room(4096)
                seen = taken.memory(mapped, size)
                for at in range(0, size, 4096):
                    self.assertEqual(taken.call("pread64", copy, room, 4096, at), 4096)
                    seen += taken.memory(room, 4096)
                while taken.call("read", out, room, 4096) > 0:
                    seen += taken.memory(room, 4096)
                self.assertIn(b"Subject: mine", seen)
                for word in (b"secret", b"eve@sender.example"):
                    self.assertNotIn(word, seen)
                text = b"changed afterwards"
                self.assertEqual(taken.call("pwrite64", copy, taken.bytes(text), len(text), 5000), len(text))
            shown = "".join(mx.tool("pencat", m["queue_id"], check=True).stdout for m in mx.queue())
            self.assertEqual((shown.count("Subject: secret"), "changed" in shown), (20, False))
            # Given back, the file takes the next message; what is in the pipe is nobody's.
            with Taken(pid) as taken:
                self.assertGreater(taken.call("splice", copy, taken.room(8), into, 0, 65536, 2), 0)
                taken.call("munmap", mapped, size)
                taken.call("close", copy)
            eventually(lambda: kept in others(1), "the file is used again")
            with Taken(pid) as taken:
                room, seen = taken.room(4096), b""
                while taken.call("read", out, room, 4096) > 0:
                    seen += taken.memory(room, 4096)
            self.assertIn(b"Subject: mine", seen)
            self.assertNotIn(b"secret", seen)

    def spooled(self, mx):
        """The files of the spool that messages are in."""
        listed = mx.tool("penqueue", "--spool", "-j", check=True).stdout.splitlines()
        return [f["path"] for f in map(json.loads, listed) if f["state"] == "in use"]

    def test_without_confinement_it_gets_further(self):
        with self.instance({**OFF, "queue_owner": mail_owner()}) as mx:
            pids = self.prepare(mx)
            for program, pid in sorted(pids.items()):
                with self.subTest(program):
                    with Taken(pid) as taken:
                        got = self.try_all(mx, taken)
                        looks = ("memory file", "memory", "trace") if not restricted_tracing() else ()
                        self.assertTrue(all(got[what] for what in (
                            "queue", "spool", "key", "elsewhere", "maildrop", "write", "signal", "connect", "tickets",
                            "policies", *looks)), got)
                        self.assertEqual(got["state"], set(STATE))
                        # What modes and owners keep closed.
                        self.assertFalse(got["shadow"] or got["settings"] or got["data"], got)


if __name__ == "__main__":
    unittest.main()
