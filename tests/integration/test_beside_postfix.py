"""Configurations of Postfix as people write them (fixtures/postfix), run by Postfix and, imported, by Penstock: the
same replies to the same sessions, and the same messages at the next hop.

A fixture is a folder: main.cf (what is set beyond the peer's own main.cf), its tables, and session: commands; after
DATA come header fields, separated by |, and after an empty one the body. @HOP@ is the port of the next hop.
"""
import os
import re
import shutil

import peers
from harness import *

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures", "postfix")
NAMES = sorted(os.listdir(FIXTURES))


def plain(reply):
    """A reply without what must differ: queue ids, names of the software."""
    return re.sub(r"queued as \S+", "queued", reply)


def session(port, text):
    """Sends the commands; returns each with its reply."""
    said = []
    with Client(port) as client:
        said.append(("EHLO", client.command("EHLO client.example")[:3]))
        for line in text.splitlines():
            verb, _, content = line.partition(" ")
            if verb != "DATA":
                said.append((line, plain(client.command(line))))
                continue
            reply = client.command("DATA")
            said.append(("DATA", plain(reply)))
            if not reply.startswith("354"):
                continue
            lines = content.split("|") if content else ["From: a@one.example", "Subject: s"]
            if "" not in lines:
                lines += ["", "body"]
            client.raw(("\r\n".join(lines) + "\r\n.\r\n").encode())
            said.append(("content", plain(client.reply())))
    return said


def seen(hop):
    """The messages at the next hop, without what each system writes of itself; in no order."""
    found = []
    for m in hop.messages:
        if not m.sender:
            found.append(("<>", sorted(m.recipients)))  # a report: its text is its maker's
            continue
        _, rest = strip_trace(m.content)
        own = (b"date:", b"message-id:", b"received:")
        header = [f for f in fields(split(rest)[0]) if not f.lower().startswith(own)]
        found.append((m.sender, sorted(m.recipients), sorted(header), split(rest)[1]))
    return sorted(found, key=repr)


@unittest.skipIf(peers.unavailable(), peers.unavailable() or "")
@cases(*NAMES)
class BesidePostfix(Suite):
    def case(self, name):
        fixture = os.path.join(FIXTURES, name)
        with open(os.path.join(fixture, "session")) as text:
            commands = text.read()
        with Peer() as hop:
            theirs, directory = self.by_postfix(fixture, hop, commands)
            at_hop = seen(hop)
        with Peer() as hop:
            ours, mx = self.by_penstock(directory, fixture, hop, commands, len(at_hop))
            self.assertEqual(ours, theirs)
            self.assertEqual(seen(hop), at_hop, mx.log())

    def files(self, fixture, hop):
        """name -> text of the fixture's tables and main.cf, for this next hop."""
        found = {}
        for name in sorted(set(os.listdir(fixture)) - {"session"}):
            with open(os.path.join(fixture, name)) as text:
                found[name] = text.read().replace("@HOP@", str(hop.port))
        return found

    def by_postfix(self, fixture, hop, commands):
        files = self.files(fixture, hop)
        with peers.Postfix(free_port(), settings=files.pop("main.cf")) as postfix:
            for name, text in files.items():
                postfix.write("etc/postfix/" + name, text)
                if f"hash:/etc/postfix/{name}" in postfix.read("etc/postfix/main.cf"):
                    self.assertEqual(postfix.run("/usr/sbin/postmap", "hash:/etc/postfix/" + name).returncode, 0)
            postfix.run("/usr/sbin/postfix", "stop")
            self.assertEqual(postfix.run("/usr/sbin/postfix", "start").returncode, 0)
            peers.wait_port(postfix.port)
            said = session(postfix.port, commands)
            eventually(lambda: not self.moving(postfix), lambda: f"Postfix has tried everything\n{postfix.log()}", 60)
            directory = os.path.join(self.folder(), "postfix")
            shutil.copytree(os.path.join(postfix.dir, "etc/postfix"), directory)
            return said, directory

    @staticmethod
    def moving(postfix):
        spool = os.path.join(postfix.dir, "spool/postfix")
        return sum(len(f) for q in ("incoming", "active", "maildrop") for _, _, f in os.walk(os.path.join(spool, q)))

    def by_penstock(self, directory, fixture, hop, commands, count):
        for name, text in self.files(fixture, hop).items():  # another next hop
            if name != "main.cf":
                with open(os.path.join(directory, name), "w") as out:
                    out.write(text)
        port = free_port()
        for name, change in (("main.cf", lambda t: re.sub(r"(\[127\.0\.0\.1\]):\d+", rf"\1:{hop.port}", t)),
                             ("master.cf", lambda t: re.sub(r"127\.0\.0\.1:\d+ inet", f"127.0.0.1:{port} inet", t))):
            with open(os.path.join(directory, name)) as text:
                changed = change(text.read())
            with open(os.path.join(directory, name), "w") as out:
                out.write(changed)
        mx = Instance(start=False)
        self.addCleanup(mx.close)
        done = mx.tool("penstock", "import", "--from", directory, "--force")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        mx.set(dns_resolver_addresses="127.0.0.1", dns_resolver_port="9", dns_resolver_timeout="1s")
        mx.port = port
        mx.start()
        said = session(port, commands)
        hop.wait_messages(count, seconds=60)
        eventually(lambda: all(e["queue_name"] == "deferred" for e in mx.queue()), "everything was tried", 60)
        return said, mx


if __name__ == "__main__":
    unittest.main()
