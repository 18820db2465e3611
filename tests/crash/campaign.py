"""Runs one instance under load of every kind, kills programs at random moments, and compares the ledgers afterwards.

Use:     with Campaign(seed) as c:
             c.run(kills=25); faults = c.finish()
Load:    penload (its ledger says what got 250): small and large bodies, one and two recipients, by DATA and BDAT, to
         pensink (its ledger says what arrived when), which refuses now and then; to a virtual Maildir;
         through an alias to a local user's Maildir; to an address that fails, for bounces to the sender; and messages
         that end smtp each time they are delivered.
Kills:   of a running program, of master, of everything; some soon after the one before. "again and again": of qmgr
         alone, each time it has just recovered, so that receivers must ask more than one successor.
Others:  reloads, and stops with a start: deliveries in hand end first, so these excuse no second arrival.
"""
import collections
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))

from harness import *  # noqa: E402
from in_flight import Arrival, in_maildir, judge, queue_id_of, synced  # noqa: E402
from test_crash import GRACE, system_user  # noqa: E402
from test_poison import Killer  # noqa: E402
from tools import Load, Sink  # noqa: E402

WEIGHTS = {"smtpd": 2, "qmgr": 4, "smtp": 4, "trivial-rewrite": 1, "virtual": 3, "local": 3, "bounce": 2, "master": 1,
           "master alone": 2, "become": 2, "all": 2, "again and again": 1, "reload": 2, "stop": 1}
# name, domain, messages per second, options of penload. Within a load only the first line of the body differs.
LOADS = (
    ("small", "rcpt.example", 60, ["-c", "6", "-s", "2000", "--pipelining"]),
    ("large", "rcpt.example", 12, ["-c", "3", "-s", "60000", "--pipelining", "--bdat"]),
    ("huge", "rcpt.example", 1, ["-c", "1", "-s", "1500000"]),
    ("pair", "rcpt.example", 10, ["-c", "2", "-s", "3000", "-r", "2", "--domains", "5", "--pipelining"]),
    ("vsmall", "virtual.test.example", 12, ["-c", "2", "-s", "1000", "--pipelining"]),
    ("vlarge", "virtual.test.example", 4, ["-c", "1", "-s", "40000"]),
    ("local", "alias.test.example", 6, ["-c", "1", "-s", "20000", "--pipelining"]),
    ("fails", "fails.test.example", 5, ["-c", "1", "-s", "1000", "--pipelining"]),
)


def body_of(size):
    """Returns penload's body after the first line (made by the same generator)."""
    x, body = 12345, bytearray()
    while len(body) < size:
        room = size - len(body)
        for _ in range(0 if room <= 2 else min(76, room - 2)):
            x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
            body += b"abcdefghijklmnopqrstuvwxyz ABCDEF"[(x >> 24) % 33:][:1]
        body += b"\r\n"
    return bytes(body)


class Campaign:
    def __init__(self, seed):
        self.seed, self.dice = seed, random.Random(seed)
        self.counts = collections.Counter()
        self.user = system_user()
        self.sizes = {name: int(words[words.index("-s") + 1]) for name, _, _, words in LOADS}

    def __enter__(self):
        with contextlib.ExitStack() as ends:
            self._start(ends)
            self.ends = ends.pop_all()
        return self

    def __exit__(self, *exc):
        return self.ends.__exit__(*exc)

    def _start(self, ends):
        dice = self.dice
        self.scratch = ends.enter_context(tempfile.TemporaryDirectory(prefix="pen-crash-"))
        notices = os.path.join(self.scratch, "notices")
        os.mkdir(notices)
        # It never hangs up after it took a message: that also makes mail come twice, and is for other tests.
        self.sink = ends.enter_context(
            Sink(
                "--chunking",
                "--detail",
                "--dot-delay",
                str(dice.choice((0, 5, 30))),
                "--refuse-rcpt",
                "23:450 4.2.1 later",
                "--refuse-dot",
                "31:451 4.3.0 not now",
            )
        )
        self.sender = ends.enter_context(Sink("--detail", "--save", notices))
        self.killer = Killer(lambda: [] if self.mx.kill("smtp") else [])
        ends.callback(self.killer.close)
        hops = {
            d: f"smtp:[127.0.0.1]:{self.sink.port}" for d in ["rcpt.example"] + [f"d{i}.rcpt.example" for i in range(5)]
        }
        hops["poison.test.example"] = f"smtp:[127.0.0.1]:{self.killer.port}"
        hops["load.example"] = f"smtp:[127.0.0.1]:{self.sender.port}"
        hops["fails.test.example"] = "error:5.1.1 no such user"
        settings = {
            "minimal_backoff_time": "1s", "maximal_backoff_time": "2s", "queue_run_delay": "1s",
            "virtual_mailbox_maps": "static:box/", "virtual_alias_domains": "alias.test.example",
            "virtual_alias_maps": inline({"@alias.test.example": f"{self.user}@local.test.example"}),
            "relay_domains": ", ".join(hops), "transport_maps": inline(hops),
        }
        self.mx = ends.enter_context(Instance(settings, {"qmgr": "unix n - n 300 1 qmgr -v"}))
        self.loads = {
            name: ends.enter_context(
                Load(
                    self.mx.port,
                    "--id",
                    name,
                    "--domain",
                    domain,
                    "--rate",
                    str(rate),
                    "-n",
                    "1000000000",
                    "--limit",
                    "100000",
                    "--retries",
                    "100000",
                    "--timeout",
                    "150",
                    "--from",
                    f"{name}@load.example",
                    *words,
                )
            )
            for name, domain, rate, words in LOADS
        }

    # -- the run

    def accepted(self):
        """Returns how many recipients got 250 so far."""
        return sum(open(load.ledger, "rb").read().count(b"\nsent ") for load in self.loads.values()
                   if os.path.exists(load.ledger))

    def run(self, kills):
        """Kills this many times; returns when everything is up again and takes mail."""
        dice = self.dice
        self.progress(10)
        for number in range(kills):
            if number % 12 == 5:
                self.poison()
            if dice.random() < 0.85:
                self.progress(dice.randrange(1, 60))  # else the next kill comes before recovery from this one has ended
            name = dice.choices(list(WEIGHTS), WEIGHTS.values())[0]
            if name == "again and again":
                self.kill_qmgr_repeatedly()
            elif name == "reload":
                self.mx.reload()
            elif name == "stop":
                self.mx.stop()
                eventually(lambda: not self.mx.pids(), "everything has ended", 60)
            elif name == "all":
                self.mx.kill_all()
            elif name == "master":
                self.mx.kill_master()
            elif name == "master alone":
                self.kill_master_alone()
            elif self.mx.kill(name) == 0:
                self.counts["not running"] += 1
                continue
            self.counts[name] += 1
            if name in ("all", "master", "stop"):
                self.mx.start(wait=False)
        self.progress(10)

    def kill_master_alone(self):
        """Its keeper starts the next one, and no program ends."""
        master = self.mx.status()["master"]
        os.kill(master, signal.SIGKILL)
        eventually(lambda: (self.mx.status() or {}).get("master") not in (None, master), "the next master", 60)

    def kill_qmgr_repeatedly(self):
        """Kills qmgr two or three times in a row: its positions are saved by then, and receivers may not have
        reconnected. After more kills master would wait a minute between two starts."""
        for _ in range(self.dice.randrange(2, 4)):
            before = self.mx.log().count("queue recovered: ")
            if self.mx.kill("qmgr") == 0:
                continue
            eventually(lambda: self.mx.log().count("queue recovered: ") > before, "qmgr has recovered", 90)

    def progress(self, more):
        goal = self.accepted() + more
        eventually(lambda: self.accepted() >= goal, lambda: f"{goal} recipients accepted, has {self.accepted()}", 120)

    def poison(self):
        """Sends one more message that kills smtp each time. It may be refused while smtpd starts: then there is one
        less."""
        try:
            send(self.mx.port, "eve@load.example", ["bad@poison.test.example"], mail("bad", "POISON\r\n"))
            self.counts["poison"] += 1
        except (OSError, ConnectionError, Refused):
            pass

    # -- the end

    def finish(self):
        """Ends the load, waits until the queue has drained, and compares; returns the faults."""
        for load in self.loads.values():
            load.process.send_signal(signal.SIGTERM)
        stuck, end = [], time.monotonic() + 400
        for name, load in self.loads.items():
            try:
                told = load.wait(max(1, end - time.monotonic()))[1]
            except subprocess.TimeoutExpired:
                load.process.send_signal(signal.SIGTERM)  # the second: it reports at once
                told = load.wait(10)[1]
                stuck.append(f"load {name} does not come to its end: {told}")
            if told["unanswered"]:
                stuck.append(f"load {name}: sessions without an answer: {told}")
        self.drain()
        kills = sorted(self.mx.kills)
        log = self.mx.log()
        results = synced(log.encode())
        acknowledged, sums, arrivals = set(), {}, []
        for load in self.loads.values():
            for word, key, checksum, recipient in map(str.split, open(load.ledger)):
                sums[key] = checksum
                if word == "sent":
                    acknowledged.add((key, recipient))
        for _, key, checksum, recipient, at, queue_id in map(str.split, open(self.sink.ledger)):
            damage = None if sums.get(key) == checksum else f"checksum {checksum}, sent {sums.get(key)}"
            arrivals.append(Arrival(key, recipient, queue_id, float(at), "smtp", damage))
        arrivals += self.in_maildir(self.mx.virtual_box("box"), "virtual")
        arrivals += self.in_maildir(self.mx.spool_box(self.user), "local")
        arrivals += self.notices(acknowledged)
        verdict = judge(acknowledged, arrivals, kills, results, GRACE)
        self.counts.update(acknowledged=len(acknowledged), arrived=verdict.arrived, doubled=verdict.doubled,
                           resent=verdict.resent, kills=len(kills), killed_by_poison=self.killer.kills)
        self.counts["worst"] = verdict.worst
        self.counts["reach_ms"] = round(verdict.reach * 1000)
        faults = verdict.faults + self.other_faults(log) + stuck
        if not results:
            faults.append("qmgr's log has no synced result: the check of what was in flight is blind")
        return faults

    def drain(self):
        """Waits until only poison is left, which is on hold then. Releases other messages that met three deaths."""
        def drained():
            try:
                left = self.mx.queue()
                held = [m for m in left if m["queue_name"] == "hold"]
                for m in held:
                    if m["sender"] != "eve@load.example":
                        self.counts["held"] += 1
                        self.mx.tool("pensuper", "-H", m["queue_id"])
                if all(m["sender"] == "eve@load.example" and m["queue_name"] == "hold" for m in left):
                    return True
                self.mx.flush()
            except (OSError, ConnectionError):
                pass  # a poison message has just ended a program
            time.sleep(0.2)
            return False
        eventually(drained, lambda: f"queue drained, left: {self.mx.queue()[:5]}", 240)

    def in_maildir(self, box, by):
        """Returns the arrivals of penload's messages; compares the content byte for byte."""
        bodies = {name: body_of(size).replace(b"\r\n", b"\n") for name, size in self.sizes.items()}
        for path, content, at in in_maildir(box.path):
            header, _, body = content.partition(b"\n\n")
            key = re.search(rb"(?m)^X-Load-Id: (\S+)$", header).group(1).decode()
            recipient = re.search(rb"(?m)^X-Original-To: (\S+)$", header).group(1).decode()
            wanted = b"message " + key.encode() + b"\n" + bodies[key.split(".")[0]]
            yield Arrival(key, recipient, queue_id_of(header), at, by,
                          None if body == wanted else f"body differs: {path}")

    def notices(self, acknowledged):
        """A message that cannot be delivered counts as arrived when its sender got the bounce."""
        shift = time.time() - time.monotonic()
        folder = os.path.join(self.scratch, "notices")
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            with open(path, "rb") as raw:
                text = raw.read()
            key = re.search(rb"(?m)^X-Load-Id: (\S+)\r$", text)
            recipient = re.search(rb"(?mi)^Final-Recipient: rfc822; *(\S+)\r$", text)
            damage = None if key and recipient else f"not a notification about a message of ours: {path}"
            yield Arrival(key.group(1).decode() if key else "?", recipient.group(1).decode() if recipient else "?",
                          queue_id_of(text), os.stat(path).st_mtime - shift, "smtp", damage)

    def other_faults(self, log):
        """Returns what is wrong in the log and in the mailboxes' directories."""
        # A kill may cut a write of several pages, and qmgr says so.
        faults = [
            line
            for line in log.splitlines()
            if re.search(r"/qmgr.*(panic|fatal): |panic: |damage|corrupt|is missing", line)
            and "not whole records: writes that a crash cut" not in line
        ]
        files = self.mx.tool("penqueue", "-p").stdout.count("eve@load.example")
        if files != sum(m["sender"] == "eve@load.example" for m in self.mx.queue()):
            faults.append("penqueue -p and the queue do not agree")
        return faults
