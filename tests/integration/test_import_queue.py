"""penstock import --queue: what a Postfix peer has in its queue directories is taken over once, whatever happens."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import peers
from harness import *

SLOW = {"minimal_backoff_time": "1000s", "maximal_backoff_time": "1000s", "in_flow_delay": "0"}
NOTIFY = {1: "never", 2: "success", 4: "failure", 6: "success,failure", 8: "delay", 10: "success,delay",
          12: "failure,delay", 14: "success,failure,delay"}


def later(_session, line):
    """Recipients named later… are deferred by the next hop, all others taken."""
    return "450 4.2.0 come again" if "<later" in line else None


class PostfixQueue:
    """A stopped Postfix whose queue directories hold mixed messages. expected: subject -> recipients that are left."""

    def __init__(self, count, folder):
        self.path = os.path.join(folder, "postfix")
        self.expected, self.held, self.maildrop, self.envelopes = {}, set(), set(), {}
        with Peer() as hop:
            hop.replies["RCPT"] = later
            with peers.Postfix(free_port(), hop.port, "minimal_backoff_time = 1000s\nmaximal_backoff_time = 1000s\n"
                               "smtp_destination_concurrency_failed_cohort_limit = 0\n") as postfix:
                self.fill(postfix, count)

    def fill(self, postfix, count):
        with Client(postfix.port) as client:
            client.expect("EHLO client.example", "250")
            for i in range(count):
                self.submit(client, i)
        spool = os.path.join(postfix.dir, "spool/postfix")

        def in_queue(*names):
            return sum(len(f) for n in names for _, _, f in os.walk(os.path.join(spool, n)))
        eventually(lambda: in_queue("deferred") == count and in_queue("active", "incoming") == 0,
                   lambda: f"all deferred: {in_queue('deferred')}\n{postfix.log()[-3000:]}", 120)
        ids = sorted(n for _, _, f in os.walk(os.path.join(spool, "deferred")) for n in f)
        for name in ids[::7]:
            postfix.run("/usr/sbin/postsuper", "-h", name)
        postfix.run("/usr/sbin/postfix", "stop")
        eventually(lambda: "stopping" in postfix.log() and not self.locked(spool), "Postfix has stopped", 60)
        for i in range(4):  # no mail system runs: they wait in maildrop
            subject = f"drop{i}"
            text = f"From: root\nSubject: {subject}\n\nfrom a user\n.\nlast"
            source = postfix.write(f"lib/text{i}", text)
            done = postfix.run("/bin/sh", "-c", f"/usr/sbin/sendmail -i -f user@here.example -N failure -V env{i} "
                               f"later@rcpt.example < /var/lib/{os.path.basename(source)}")
            assert done.returncode == 0, done.stdout
            self.expected[subject] = {"later@rcpt.example"}
            self.maildrop.add(subject)
        # As a queue manager leaves them that was killed at work.
        for name, queue in zip(ids[1::7], ("active", "incoming") * len(ids)):
            os.rename(next(os.path.join(d, name) for d, _, f in os.walk(os.path.join(spool, "deferred")) if name in f),
                      os.path.join(spool, queue, name))
        for folder, _, names in os.walk(os.path.join(spool, "hold")):
            self.held |= set(names)
        for name in ids + sorted(os.listdir(os.path.join(spool, "maildrop"))):
            self.envelopes[name] = self.postcat(postfix, name)
        # Half a message: its writer died.
        with open(os.path.join(spool, "incoming", "ABCDEF"), "wb") as half:
            half.write(b"C_")
        os.chmod(os.path.join(spool, "incoming", "ABCDEF"), 0o600)
        shutil.copytree(spool, self.path, ignore=shutil.ignore_patterns("private", "public", "dev", "etc", "lib"))

    @staticmethod
    def locked(spool):
        return subprocess.run(["flock", "-n", os.path.join(spool, "pid/master.pid"), "true"]).returncode != 0

    def submit(self, client, i):
        left = {f"later{i}@rcpt.example"}
        recipients = [f"later{i}@rcpt.example"]
        if i % 3 == 0:
            recipients.append(f"soon{i}@rcpt.example")  # done before the import
        if i % 5 == 0:
            recipients.append(f"later-too{i}@other.example")
            left.add(recipients[-1])
        mail_from, rcpt = f"MAIL FROM:<{'' if i % 11 == 0 else f'ada{i}@one.example'}>", ""
        text = b"plain text\r\n"
        if i % 2 == 0:
            mail_from += f" RET={'HDRS' if i % 4 else 'FULL'} ENVID=e+2B{i}"
            when = ("NEVER", "SUCCESS", "FAILURE,DELAY", "FAILURE")[i // 2 % 4]
            rcpt = f" NOTIFY={when} ORCPT=rfc822;o+2B{i}@x.example"
        if i % 4 == 1:
            mail_from += " BODY=8BITMIME"
            text = "grüße, 你好\r\n".encode() + b"\xff\xfe bytes\r\n"
        if i % 9 == 0:
            text += b"y" * 5000 + b"\r\n" + b"z" * 2048 + b"\r\n..dots\r\n..\r\n"
        if i % 20 == 0:
            text += b"large " * 5000 + b"\r\n" + (b"0123456789" * 7 + b"\r\n") * 3000
        client.expect(mail_from, "250")
        for address in recipients:
            client.expect(f"RCPT TO:<{address}>{rcpt}", "250")
        client.expect("DATA", "354")
        client.raw(f"From: <ada@one.example>\r\nSubject: number{i}\r\n\r\n".encode() + text + b".\r\n")
        assert client.reply().startswith("250")
        self.expected[f"number{i}"] = left

    @staticmethod
    def postcat(postfix, name):
        """What postcat says: fields, recipients that are left, content."""
        postcat = "/usr/sbin/postcat"
        postfix.run("/bin/sh", "-c", f"{postcat} -eq {name} > /var/lib/e; {postcat} -hbq {name} > /var/lib/c")
        with open(os.path.join(postfix.dir, "lib/c"), "rb") as raw:
            content = raw.read()
        return {"text": postfix.read("lib/e"), "content": content}


def fields_of(text):
    """The envelope that postcat -e shows: (attributes, recipients that are left with what is said of each)."""
    attributes, recipients, said = {}, [], {}
    for line in text.splitlines():
        name, colon, value = line.partition(": ")
        if name == "named_attribute":
            name, _, value = value.partition("=")
            if name in ("dsn_orig_rcpt", "notify_flags"):
                said[name] = value
            else:
                attributes[name] = value
        elif name == "original_recipient":
            said[name] = value
        elif name in ("recipient", "done_recipient"):
            if name == "recipient":
                recipients.append({"address": value, **said})
            said = {}
        elif colon:
            attributes[name] = value
    return attributes, recipients


@unittest.skipIf(peers.unavailable(), peers.unavailable() or "")
class ImportQueue(Suite):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.source = PostfixQueue(int(os.environ.get("PEN_IMPORT", "180")), cls.folder())

    def copy(self):
        """A copy of the source, which a test may change."""
        path = os.path.join(self.folder(), "postfix")
        shutil.copytree(self.source.path, path)
        return path

    def instance(self, hop, **settings):
        mx = Instance({"relayhost": f"[127.0.0.1]:{hop.port}", "local_header_rewrite_clients": "",
                       "message_size_limit": "0", "mailbox_size_limit": "0", "virtual_mailbox_limit": "0",
                       "relay_domains": "", **SLOW, **settings})
        self.addCleanup(mx.close)
        return mx

    def take(self, mx, source, *options, status=0):
        done = mx.tool("penstock", "import", "--queue", source, *options, timeout=300)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def assert_each_once(self, mx, hop):
        """Everything that was not on hold arrives once; what was on hold stays there."""
        held = {e["queue_id"] for e in mx.queue() if e["queue_name"] == "hold"}
        self.assertEqual(held, self.source.held)
        for name in held:
            mx.tool("pensuper", "-H", name, check=True)
        mx.flush()
        mx.wait_empty_queue(180)
        seen = {}
        for m in hop.messages:
            subject = re.search(rb"^Subject: (\S+)", m.content, re.M).group(1).decode()
            for recipient in m.recipients:
                self.assertNotIn((subject, recipient), seen, "delivered twice")
                seen[subject, recipient] = m
        self.assertEqual(set(seen), {(s, r) for s, rs in self.source.expected.items() for r in rs})
        return seen

    def test_every_field_is_as_postcat_shows_it(self):
        with Peer() as hop:
            mx = self.instance(hop)
            mx.stop()
            shown = [json.loads(l) for l in self.take(mx, self.copy(), "--json").stdout.splitlines()]
            as_id = {e["queue_id"]: e["taken_as"] for e in shown}
            self.assertEqual(set(as_id), set(self.source.envelopes))
            self.assertTrue(all("come again" in r["delay_reason"] for e in shown if e["queue_name"] == "deferred"
                                for r in e["recipients"]))
            said = mx.tool("pencat", "--json", "-q", *as_id.values(), check=True).stdout.splitlines()
            ours = {e["queue_id"]: e for e in map(json.loads, said)}
            for name, other in self.source.envelopes.items():
                with self.subTest(message=name):
                    self.assert_same(ours[as_id[name]], *fields_of(other["text"]))
                    content = mx.tool("pencat", "-hbq", as_id[name], check=True, text=False).stdout
                    # postcat does not end a last line that its user did not end.
                    self.assertEqual(content.rstrip(b"\n"), other["content"].rstrip(b"\n"))

    def assert_same(self, ours, theirs, recipients):
        self.assertEqual(ours["sender"], theirs["sender"])
        when = time.strptime(theirs["message_arrival_time"])
        self.assertEqual(time.strftime("%F %T", time.localtime(ours["arrival_time"])), time.strftime("%F %T", when))
        self.assertEqual(ours.get("envelope_id"), theirs.get("envelope_id"))
        self.assertEqual(ours.get("ret"), {None: None, "1": "full", "2": "hdrs"}[theirs.get("ret_flags")])
        kinds = {None: None, "8bit": "8BITMIME", "7bit": "7BIT"}
        self.assertEqual(ours.get("body_type"), kinds[theirs.get("encoding")])
        if ours.get("queue_name") == "maildrop":
            self.assertEqual(ours["full_name"], theirs["sender_fullname"])
        else:
            client = ours["client"]
            for name, other in {"address": "client_address", "name": "client_name", "helo": "helo_name",
                                "protocol": "protocol_name"}.items():
                self.assertEqual(client.get(name), theirs[other])
            self.assertEqual(str(client["port"]), theirs["client_port"])
        self.assertEqual(len(ours["recipients"]), len(recipients))
        for mine, other in zip(ours["recipients"], recipients):
            self.assertEqual(mine["address"], other["address"])
            self.assertEqual(mine["original_recipient"], other.get("original_recipient", other["address"]))
            self.assertEqual(mine.get("dsn_orig_rcpt", "").replace("+2B", "+"), other.get("dsn_orig_rcpt", ""))
            self.assertEqual(mine.get("notify"), NOTIFY.get(int(other.get("notify_flags", 0))))

    def test_a_queue_is_taken_while_the_mail_system_is_down(self):
        with Peer() as hop:
            mx = self.instance(hop)
            mx.stop()
            source = self.copy()
            before = self.tree(source)
            self.take(mx, source)
            self.assertEqual(self.tree(source), before, "the source was changed")
            mx.start()
            self.assert_each_once(mx, hop)
            again = self.take(mx, source)
            self.assertIn("took 0 messages", again.stderr)
            self.assertEqual(mx.queue(), [])

    def test_a_queue_is_taken_while_the_mail_system_runs(self):
        with Peer() as hop:
            mx = self.instance(hop)
            source = self.copy()
            dry = self.take(mx, source, "--dry-run")
            self.assertIn("would take", dry.stderr)
            self.assertEqual((mx.queue(), hop.messages), ([], []))
            self.take(mx, source, "--remove")
            self.assert_each_once(mx, hop)
            left = [f for q in ("maildrop", "incoming", "active", "deferred", "hold")
                    for _, _, names in os.walk(os.path.join(source, q)) for f in names]
            self.assertEqual(left, ["ABCDEF"])

    def killed(self, running):
        """An import is killed after each of these numbers of lines in its ledger, and repeated."""
        with Peer() as hop:
            mx = self.instance(hop)
            if not running:
                mx.stop()
            source, ledger = self.copy(), mx.path("spool", "pid", "import", "ledger")

            def written():
                try:
                    return os.path.getsize(ledger)
                except FileNotFoundError:
                    return 0
            kills, size = 0, 0
            for more in (1, 3000, 1, 2000, 1, 1, 4000, 1):
                process = subprocess.Popen([os.path.join(BIN, "penstock"), "-c", mx.etc, "import", "--queue", source],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                while process.poll() is None and written() < size + more:
                    pass
                kills += process.poll() is None
                process.send_signal(signal.SIGKILL)
                process.wait()
                size = written()
            self.assertGreater(kills, 0, "no import was killed at work")
            self.take(mx, source)
            if not running:
                mx.start()
            self.assert_each_once(mx, hop)

    def test_killed_again_and_again_while_the_mail_system_is_down(self):
        self.killed(running=False)

    def test_killed_again_and_again_while_the_mail_system_runs(self):
        self.killed(running=True)

    def test_the_queue_manager_is_killed_under_an_import(self):
        with Peer() as hop:
            mx = self.instance(hop)
            source, ledger = self.copy(), mx.path("spool", "pid", "import", "ledger")
            process = subprocess.Popen([os.path.join(BIN, "penstock"), "-c", mx.etc, "import", "--queue", source],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            eventually(lambda: os.path.exists(ledger) and os.path.getsize(ledger) > 0, "the import has begun")
            mx.kill("qmgr")
            process.wait()
            eventually(lambda: mx.tool("penstock", "import", "--queue", source).returncode == 0, "taken in the end",
                       120)
            self.assert_each_once(mx, hop)

    def test_a_postfix_that_runs_is_left_alone(self):
        with Peer() as hop:
            mx = self.instance(hop)
            source = self.copy()
            held = os.path.join(source, "pid/master.pid")
            with subprocess.Popen(["flock", held, "cat"], stdin=subprocess.PIPE) as lock:
                eventually(lambda: PostfixQueue.locked(source), "locked")
                done = self.take(mx, source, status=os.EX_TEMPFAIL)
                self.assertIn("stop it first", done.stderr)
                lock.stdin.close()
            self.assertEqual(mx.queue(), [])

    def test_what_is_no_message_is_named_and_left(self):
        with Peer() as hop:
            mx = self.instance(hop)
            source = self.copy()
            broken = os.path.join(source, "deferred", "DEADBEEF")
            with open(broken, "wb") as out:
                out.write(b"C_ nonsense")
            os.chmod(broken, 0o700)
            done = self.take(mx, source, "--remove", status=os.EX_DATAERR)
            self.assertIn("deferred/DEADBEEF: left where it is", done.stderr)
            self.assertTrue(os.path.exists(broken))
            self.assert_each_once(mx, hop)

    def test_an_old_message_expires_by_its_first_arrival(self):
        with Peer() as hop:
            hop.replies["RCPT"] = lambda session, line: "450 4.2.0 not yet"
            mx = self.instance(hop, maximal_queue_lifetime="1s", bounce_queue_lifetime="1s")
            source = self.copy()
            eventually(lambda: time.time() - os.path.getmtime(source) > 1.5, "the mail is old enough")
            self.take(mx, source)
            mx.wait_log(r"status=expired, returned to sender")

    @staticmethod
    def tree(path):
        found = {}
        for folder, _, names in os.walk(path):
            for name in names:
                full = os.path.join(folder, name)
                with open(full, "rb") as raw:
                    found[os.path.relpath(full, path)] = (raw.read(), os.stat(full).st_mtime_ns, os.stat(full).st_mode)
        return found


if __name__ == "__main__":
    unittest.main()
