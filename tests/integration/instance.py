"""A Penstock instance of its own for one test: scratch directory, own ports, real programs.

Use:     with Instance({"mydestination": "here.example"}) as mx:
             send(mx.port, "a@example.org", ["b@here.example"], content)
             mx.wait_log("status=sent")
If the block fails, the log is printed. PEN_BIN names the directory of the commands (bin/); its sibling
libexec/penstock holds the programs. PEN_KEEP=1 keeps the scratch directory.
"""
import contextlib
import glob
import grp
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from in_flight import Kill
from queue_client import QueueClient
from sanitizers import Sanitizers
from waiting import answers, eventually, free_port

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("PEN_BIN", os.path.join(TOP, "build", "dev", "bin"))
LIBEXEC = os.path.join(os.path.dirname(BIN), "libexec", "penstock")
PROGRAMS = ("keeper", "become", "smtpd", "qmgr", "trivial-rewrite", "smtp", "local", "virtual", "bounce", "keys",
            "anvil", "tlsrpt", "dmarcrpt", "verify", "penevents", "cyrus")
sanitizers = Sanitizers(BIN)


def missing():
    """Returns which programs are not built, as a reason to skip; None: all are there."""
    gone = [p for p in ("master",) + PROGRAMS if not os.path.exists(os.path.join(LIBEXEC, p))]
    gone += [t for t in ("penstock",) if not os.path.exists(os.path.join(BIN, t))]
    return "not built: " + ", ".join(gone) if gone else None


def mail_owner():
    """Returns the account for an instance that root runs: penstock if it exists, else one that every Debian has."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    for name in ("penstock", "daemon"):
        try:
            pwd.getpwnam(name)
            return name
        except KeyError:
            pass
    return "nobody"


def queue_owner():
    """Returns the account that the queue of such an instance belongs to, as in an installed one."""
    if os.geteuid() != 0:
        return mail_owner()
    for name in ("penstock-queue", "backup"):
        try:
            if pwd.getpwnam(name).pw_gid != pwd.getpwnam(mail_owner()).pw_gid:
                return name
        except KeyError:
            pass
    return mail_owner()


def a_group():
    for name in ("pendrop", "mail", "daemon"):
        try:
            grp.getgrnam(name)
            return name
        except KeyError:
            pass
    return grp.getgrgid(os.getgid()).gr_name


COMPLAINT = re.compile(r"\]: (\w+: )?(warning|error|fatal|panic|NOQUEUE|reload|daemon|reject)")


class Instance:
    """One instance. `settings` go into main.cf, `services` (name -> line without the name, or None to leave the
    service out) into master.cf. Everything is under self.dir."""

    def __init__(self, settings=None, services=None, start=True, directory=None):
        self.own_dir = directory is None
        self.kills = []
        self.dir = directory or tempfile.mkdtemp(prefix="pen-test-")
        os.chmod(self.dir, 0o755)
        self.root = os.path.join(self.dir, "instance")
        self.etc = os.path.join(self.root, "etc")
        self.port = free_port()
        self.virtual_base = os.path.join(self.dir, "vmail")
        self.mail_spool = os.path.join(self.dir, "mail")
        self.owner_uid = 20000 if os.geteuid() == 0 else os.geteuid()
        self.owner_gid = 20000 if os.geteuid() == 0 else os.getegid()
        os.makedirs(self.virtual_base)
        os.makedirs(self.mail_spool)
        os.chmod(self.mail_spool, 0o1777)
        if os.geteuid() == 0:
            os.chown(self.virtual_base, self.owner_uid, self.owner_gid)
        self.tool("penstock", "init", self.root, "--port", str(self.port), check=True)
        base = {
            "myhostname": "mx.test.example",
            "mydestination": "local.test.example",
            "mynetworks": "127.0.0.0/8",
            "inet_interfaces": "127.0.0.1",
            "inet_protocols": "ipv4",
            "relay_domains": "",
            "alias_maps": "",
            "local_recipient_maps": "",
            "mail_spool_directory": self.mail_spool + "/",
            "virtual_mailbox_domains": "virtual.test.example",
            "virtual_mailbox_maps": "inline:{ { nobody@elsewhere.test.example = nobody } }",
            "virtual_mailbox_base": self.virtual_base,
            "virtual_uid_maps": f"static:{self.owner_uid}",
            "virtual_gid_maps": f"static:{self.owner_gid}",
            "virtual_minimum_uid": "1",
            "queue_log_segment_size": "1m",
            "mail_owner": mail_owner(),
            "queue_owner": queue_owner(),
            "setgid_group": a_group(),
            "daemon_directory": LIBEXEC,
            "command_directory": BIN,
            "dns_resolver_addresses": "127.0.0.1",
            "dns_resolver_port": "9",  # nobody answers there: a test that needs names brings its own server
            "dns_resolver_timeout": "1s",
            "notify_classes": "",  # no mail unless a test asks for it
            **sanitizers.settings(),
        }
        base.update(settings or {})
        self.set(**base)
        if services:
            self.set_services(services)
        if start:
            try:
                self.start()
            except BaseException:  # nobody else will end what has started
                self.kill_all()
                raise

    # -- configuration

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def set(self, **settings):
        """Appends to main.cf; the last line for a name counts."""
        with open(os.path.join(self.etc, "main.cf"), "a") as out:
            for name, value in settings.items():
                out.write(f"{name} = {value}\n")

    def set_services(self, services):
        file = os.path.join(self.etc, "master.cf")
        with open(file) as text:
            lines = text.read().split("\n")
        kept, skipping = [], False
        for line in lines:
            if line[:1] not in (" ", "\t"):
                skipping = bool(line) and line.split()[0] in services
            if not skipping:
                kept.append(line)
        for name, rest in services.items():
            if rest is not None:
                kept.append(f"{name} {rest}")
        with open(file, "w") as out:
            out.write("\n".join(kept).rstrip("\n") + "\n")

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as out:
            out.write(text)
        return path

    # -- running

    def tool(self, name, *arguments, check=False, text=True, stdin=None, timeout=60):
        """Runs a command; `pen*` tools other than init get -c."""
        where = [] if name == "penstock" and arguments[:1] == ("init",) else ["-c", self.etc]
        done = subprocess.run([os.path.join(BIN, name), *where, *arguments], capture_output=True, text=text,
                              input=stdin, timeout=timeout)
        if check and done.returncode != 0:
            raise AssertionError(f"{name} {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def start(self, wait=True):
        done = self.tool("penstock", "start")
        if done.returncode != 0:
            raise AssertionError(f"start failed: {done.stdout}{done.stderr}\n{self.log()}")
        if wait:
            eventually(lambda: answers(self.port), lambda: f"smtpd answers on {self.port}\n{self.log()}")

    def stop(self):
        return self.tool("penstock", "stop")

    def reload(self):
        self.tool("penstock", "reload", check=True)

    def reload_whole(self):
        """Reloads, and waits until no program is left that has the old configuration. None may have an open session.
        keeper, master and become go on: they read it anew."""
        lasting = ("keeper", "master", "become")
        before = {pid for program, pids in self.pids().items() if program not in lasting for pid in pids}
        self.reload()
        eventually(lambda: not before & {pid for pids in self.pids().values() for pid in pids},
                   lambda: f"all programs are replaced\n{self.log()}")

    def status(self):
        done = self.tool("penstock", "status", "--json")
        try:
            return json.loads(done.stdout)
        except json.JSONDecodeError:
            return None

    def pids(self):
        """Returns every process of this instance: name -> pids. Its command line contains the directory. Without the
        one that looks into maildrop for qmgr, and ends with it."""
        found = {}
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/exe".replace("exe", "cmdline"), "rb") as raw:
                    words = raw.read().split(b"\0")
                with open(f"/proc/{entry}/environ", "rb") as raw:
                    environment = raw.read()
                exe = os.readlink(f"/proc/{entry}/exe").replace(" (deleted)", "")
                with open(f"/proc/{entry}/comm") as name:
                    helper = name.read() == "maildrop\n"
            except OSError:
                continue
            mine = any(self.root.encode() in w for w in words) or self.root.encode() in environment
            if mine and not helper and os.path.dirname(exe) == os.path.realpath(LIBEXEC):
                found.setdefault(os.path.basename(exe), []).append(int(entry))
        return found

    def ask_status(self, program):
        """Has every process of that program write its status to the log. One may end meanwhile, as after a reload."""
        for pid in self.pids().get(program, []):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR1)

    def kill(self, program):
        """Kills every process of that program with -9 and records the kill in self.kills; returns how many there
        were."""
        sent, before = time.monotonic(), self.log_size()
        dead, stopped = [], set()
        # Stop them first: a running process could start another that the list does not have.
        while new := set(self.pids().get(program, [])) - stopped:
            for pid in new:
                try:
                    os.kill(pid, signal.SIGSTOP)
                except ProcessLookupError:
                    pass
            stopped |= new
        for pid in stopped:
            try:
                os.kill(pid, signal.SIGKILL)
                dead.append(pid)
            except ProcessLookupError:
                pass
        eventually(lambda: not any(map(runs, dead)), f"{program} dead", 20)
        if dead:
            self.kills.append(Kill(program, sent, time.monotonic(), before, self.log_size()))
        return len(dead)

    def kill_all(self):
        """Kills everything with -9, the keeper and master first so that they restart nothing."""
        sent, before, seen = time.monotonic(), self.log_size(), set()
        for _ in range(3):
            pids = self.pids()
            first = ("keeper", "master")
            for pid in [p for name in first for p in pids.get(name, [])] + [
                    p for name, ps in pids.items() if name not in first for p in ps]:
                seen.add(pid)
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.all_gone(seen)
        self.kills.append(Kill("all", sent, time.monotonic(), before, self.log_size()))

    def kill_master(self):
        """Kills master with -9, and its keeper; the others end when they notice. One kill, which lasts until they have
        ended."""
        sent, before = time.monotonic(), self.log_size()
        pids = self.pids()
        for name in ("keeper", "master"):
            for pid in pids.get(name, []):
                os.kill(pid, signal.SIGKILL)
        self.all_gone({pid for group in pids.values() for pid in group})
        self.kills.append(Kill("master", sent, time.monotonic(), before, self.log_size()))

    def all_gone(self, seen):
        """Waits until no process is left, including ending ones that were seen before and that pids() no longer
        shows."""
        eventually(
            lambda: not self.pids() and not any(map(runs, seen)),
            lambda: f"every process gone, still there: {self.pids()}",
        )

    def close(self):
        try:
            self.stop()
        finally:
            self.kill_all()
            if self.own_dir and not os.environ.get("PEN_KEEP"):
                shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None and not issubclass(kind, KeyboardInterrupt):
            lines = self.log().split("\n")
            sys.stderr.write(f"---- log of {self.root} (complaints, then the last 200 lines)\n")
            sys.stderr.write("\n".join(l for l in lines[:-200] if COMPLAINT.search(l)) + "\n")
            sys.stderr.write("\n".join(lines[-200:]) + "\n----\n")
        self.close()

    # -- looking

    def log_size(self):
        """Returns the size of the log so far; every line of any program adds to it."""
        folder = self.path("log")
        return sum(os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder)) if os.path.isdir(folder) else 0

    def log(self):
        texts = []
        folder = self.path("log")
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            with open(os.path.join(folder, name), errors="replace") as text:
                texts.append(text.read())
        return "".join(texts)

    def wait_log(self, pattern, seconds=30.0):
        return eventually(lambda: re.search(pattern, self.log()), f"log has {pattern!r}", seconds)

    def ask_qmgr(self, ask):
        """Calls ask(client), again with the next queue manager if one was replaced before it answered."""
        def once():
            try:
                with QueueClient(self.path("spool", "public", "qmgr")) as client:
                    return [ask(client)]
            except ConnectionError as error:
                if isinstance(error, ConnectionRefusedError):
                    raise  # the suite is down
                return None
        return eventually(once, "qmgr answers")[0]

    def queue(self):
        """Returns qmgr's list of the queue: dicts with the names of penqueue -j."""
        return self.ask_qmgr(QueueClient.list)

    def figures(self):
        """Returns qmgr's counters: name -> text."""
        return self.ask_qmgr(QueueClient.status)

    def flush(self):
        """Has every deferred message tried again now."""
        self.ask_qmgr(QueueClient.flush)

    def wait_empty_queue(self, seconds=30.0):
        def empty():
            try:
                return self.queue() == []
            except (OSError, ConnectionError):
                return False  # qmgr is being started again
        eventually(empty, lambda: f"queue empty: {self.queue()}", seconds)

    def virtual_box(self, name):
        return Maildir(os.path.join(self.virtual_base, name))

    def spool_box(self, user):
        return Maildir(os.path.join(self.mail_spool, user))


def runs(pid):
    """Whether a thread of the process still runs, if only to its end: the process may still hold sockets and locks. A
    process that only waits to be reaped does not."""
    for path in glob.glob(f"/proc/{pid}/task/*/stat"):
        try:
            with open(path, "rb") as raw:
                if raw.read().rsplit(b")", 1)[1].split()[0] not in (b"Z", b"X"):
                    return True
        except OSError:
            pass  # ended meanwhile
    return False


class Maildir:
    """Reads the delivered messages."""

    def __init__(self, path):
        self.path = path

    def messages(self):
        found = []
        for sub in ("new", "cur"):
            folder = os.path.join(self.path, sub)
            for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
                with open(os.path.join(folder, name), "rb") as raw:
                    found.append(raw.read())
        return found

    def wait(self, count=1, seconds=30.0):
        eventually(lambda: len(self.messages()) >= count,
                   lambda: f"{count} message(s) in {self.path}, has {len(self.messages())}", seconds)
        return self.messages()

    def leftovers(self):
        folder = os.path.join(self.path, "tmp")
        return os.listdir(folder) if os.path.isdir(folder) else []
