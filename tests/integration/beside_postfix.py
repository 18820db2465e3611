"""Configurations of Postfix, run by Postfix and, imported, by Penstock: what both say and deliver, to be compared.

Use:     fixture = Fixture("routes")              # fixtures/postfix/routes.conf
         theirs, ours = beside(fixture)           # Seen: replies, messages at the next hops, mailboxes
Format:  the first line says what kind of host it is; then parts, each begun by "== NAME":
  main.cf       what is set beyond the peer's own main.cf, which relays for loopback
  master.cf     lines of master.cf; a service that is named here replaces the one of Postfix's own file
  session       commands to @PORT@; after DATA come header fields, separated by |, and after an empty one the body
                (STARTTLS and AUTH-AS user:password are carried out whole; RAW N TEXT sends the text with Python's
                escapes and takes N replies)
  session PORT  the same to another port, such as @SUBMISSION@
  sendmail      each line: arguments of sendmail | header fields, as above
  hop, lmtp     what that server does: offer KEYWORD …; VERB text => reply, for commands that hold the text, \\n between
                lines; tls
  milter        EVENT add Name: value | EVENT reply text | EVENT if TEXT reply text; several for one event are done in
                turn: add, change N Name: value, insert N Name: value, rcpt ADDRESS, no-rcpt ADDRESS, from ADDRESS,
                body text
  dns           name TYPE value, as in dns.py; name TROUBLE servfail
  policy        recipient action
  told          (empty) what the filter and the policy server were told is compared too
  differs       what Penstock does another way, with the reason before it: lines of difference()
  vmail/NAME, home/NAME   a file among the mailboxes
  any other     a table in the directory of main.cf, made with postmap where it is named with hash: or lmdb:
Names:   @HOP@ @LMTP@ @MILTER@ @POLICY@ @FILTER@ @AUTH@: ports of the servers around it, which are started when they are
         named; @PORT@ @SUBMISSION@ @SMTPS@ @BACK@: its own ports; @VMAIL@ @SPOOL@ @HOME@: where its mailboxes are.
         Accounts: ann and bob, with homes below @HOME@, and vmail. cert.pem and key.pem are in its directory.
Thread:  fixtures may be run side by side.
"""
import base64
import contextlib
import difflib
import json
import os
import random
import re
import shutil
import ssl
import subprocess
import tempfile

import certificates
import milter as milters
import peers
from content_filter import Filter
from dovecot_auth import FakeDovecot
from harness import *
from peer import server_context
from policy_server import PolicyServer

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures", "postfix")
NAMES = sorted(name[:-5] for name in os.listdir(FIXTURES) if name.endswith(".conf"))
OWN_PORTS = ("PORT", "SUBMISSION", "SMTPS", "BACK")
OWN_FIELDS = (b"date:", b"message-id:", b"resent-date:", b"resent-message-id:")
ACCOUNTS = "ann:x:5201:5201::{home}/ann:/bin/sh\nbob:x:5202:5202::{home}/bob:/bin/sh\n"
GROUPS = "ann:x:5201:\nbob:x:5202:\nvmail:x:5106:\n"
VMAIL = 5106


class Fixture:
    def __init__(self, name):
        self.name, self.parts, self.sessions = name, {}, []
        with open(os.path.join(FIXTURES, name + ".conf")) as text:
            self.about, _, rest = text.read().partition("\n")
        for part in re.split(r"(?m)^== ", rest)[1:]:
            title, _, content = part.partition("\n")
            if title.split()[0] in ("session", "sendmail"):
                self.sessions.append((title, content))
            else:
                self.parts[title] = content
        self.all = rest

    def named(self, what):
        return f"@{what}@" in self.all


class Seen:
    """What one system did."""

    def __init__(self):
        self.said, self.hop, self.lmtp, self.mailboxes, self.queue = [], [], [], {}, []
        self.asked = []  # what a policy server and a filter were told

    def facts(self):
        """One line for each fact, so that two lists show what differs."""
        lines = [f"{command} -> {reply}" for command, reply in self.said]
        for place, messages in {"next hop": self.hop, "lmtp": self.lmtp, **self.mailboxes}.items():
            lines += [f"{place}: {part!r}" for message in messages for part in message]
        return lines + self.queue + self.asked


def plain(reply):
    """A reply without what must differ: queue ids, sizes, names of the software, the order of offers."""
    if re.match(r"250-.*\n250.(PIPELINING|SIZE)", reply):
        first, *offers = reply.split("\n")
        offers = [o for o in offers if not o[4:].startswith("LIMITS")]  # Postfix has it since 3.8, not in Debian 12
        reply = first + ": " + ", ".join(sorted(" ".join(sorted(o[4:].split())) for o in offers))
    reply = re.sub(r"(?:\d+ bytes )?queued as \S+", "queued", reply)
    return re.sub(r"(?m)^(220[ -]\S+ ESMTP).*", r"\1", reply).replace("\n", " / ")


def ehlo(client):
    """The code, and those keywords that the administrator decides about."""
    reply = client.command("EHLO client.example")
    keywords = re.findall(r"(?m)^250.(AUTH\b.*|STARTTLS|VRFY|ETRN|SMTPUTF8|DSN|X(?:CLIENT|FORWARD).*)$", reply)
    return reply[:3], sorted(" ".join(sorted(k.split())) for k in keywords)


def content_of(text):
    """Lines of a message; after an empty one its body."""
    lines = text.split("|") if text else ["From: a@one.example", "Subject: s"]
    return lines if "" in lines else lines + ["", "body"]


def session(port, text, wrapped=False):
    """Sends the commands; returns each with its reply."""
    said = []
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def encrypted(client):
        client.socket = context.wrap_socket(client.socket)
        client.file = client.socket.makefile("rb")
    with contextlib.ExitStack() as stack:
        try:
            client = Wrapped(port, context) if wrapped else Client(port, ehlo=False, timeout=20)
            stack.enter_context(client)
        except Refused as refused:
            return [("connect", plain(refused.reply))]
        said += [("connect", plain(client.greeting)), ("EHLO", ehlo(client))]
        for line in text.splitlines():
            verb, _, content = line.partition(" ")
            try:
                if verb == "DATA":
                    said.append(("DATA", plain(client.command("DATA"))))
                    if said[-1][1].startswith("354"):
                        client.raw(("\r\n".join(content_of(content)) + "\r\n.\r\n").encode())
                        said.append(("content", plain(client.reply())))
                elif verb == "RAW":
                    count, _, escaped = content.partition(" ")
                    client.raw(escaped.encode().decode("unicode_escape").encode("latin-1"))
                    said += [(line, plain(client.reply())) for _ in range(int(count))]
                elif verb == "STARTTLS":
                    said.append((line, plain(client.command(line))))
                    if said[-1][1].startswith("220"):
                        encrypted(client)
                        said.append(("EHLO", ehlo(client)))
                elif verb == "AUTH-AS":
                    user, _, password = content.partition(":")
                    word = base64.b64encode(f"\0{user}\0{password}".encode()).decode()
                    said.append((line, plain(client.command("AUTH PLAIN " + word))))
                else:
                    said.append((line, plain(client.command(line))))
            except ConnectionError:
                said.append((line, "closed"))
                break
    return said


class Wrapped(Client):
    """TLS from the first byte."""

    def __init__(self, port, context):
        import socket
        self.socket = context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=60))
        self.file = self.socket.makefile("rb")
        self.greeting, self.features = self.reply(), []


def shown_field(field):
    """A field without its folding, which Postfix makes anew; a trace without the software's name, queue id and time."""
    field = re.sub(rb"\s+", b" ", field)
    if not field.lower().startswith(b"received:"):
        return field
    field = re.sub(rb"\((?:Postfix|Penstock)\b", b"(MTA", field)
    field = re.sub(rb"( id) \w+|;[^;]*$", rb"\1", field)
    return re.sub(rb"(from userid.*) for .*", rb"\1", field)  # Penstock names a single recipient there too


# What mail gets that an alias, a forward file or a transport of local hands on within the host.
HANDED_ON = re.compile(rb"Received: by \S+ \(MTA\) id( for <[^>]*>)?$")


def message_facts(content, end=b"\r\n"):
    """Header fields and body without what each system writes of itself."""
    trace, rest = strip_trace(content, end)
    header, body = split(rest, end)
    kept = [shown_field(f) for f in trace + fields(header, end) if not f.lower().startswith(OWN_FIELDS)]
    # What an alias or a forward file hands on is a message of its own here, and may have one such field more.
    handed_on = [f for f in kept if f.lower().startswith(b"delivered-to:")][:-1]
    handed_on += [f for f in kept if HANDED_ON.match(f)]
    for field in handed_on:
        kept.remove(field)
    if any(b"report-type=" in f for f in kept):
        kept = [f for f in kept if f.lower().startswith((b"to:", b"subject:", b"return-path:"))]
        return sorted(kept), report_facts(body)
    return sorted(kept), body


def report_facts(body):
    """What a program reads of a report: its text is its maker's."""
    wanted = rb"(?mi)^((?:Original-Recipient|Final-Recipient|Action|Status|Remote-MTA|Diagnostic-Code: smtp).*|" \
             rb"Content-Type: (?:message|text)/[a-z0-9-]+)"
    status = body.partition(b"delivery-status")[2] or body.partition(b"delivery-status".title())[2]
    found = [line.strip().replace(b"; ", b";") for line in re.findall(wanted, status)]
    final = {line.lower().replace(b" ", b"").partition(b":")[2] for line in found if line.startswith(b"Final")}
    # Postfix repeats the address where the sender said no original one.
    return b"\n".join(sorted(line for line in found if not line.startswith(b"Original") or
                            line.lower().replace(b" ", b"").partition(b":")[2] not in final))


def at_hop(hop):
    """The messages at a next hop, in no order."""
    found = []
    for m in hop.messages:
        session_facts = (sorted(c for c in m.session.commands if c.startswith("AUTH ")), m.session.tls is not None)
        if not m.sender:
            found.append(("<>", sorted(m.recipients), session_facts, *message_facts(m.content)))
            continue
        parameters = sorted(p for p in m.parameters if not p.startswith("SIZE="))
        for recipient, said in zip(m.recipients, m.recipient_parameters):  # how they are grouped is the scheduler's
            # Postfix says ORCPT to everybody, Penstock where the address was another one: that says the same.
            same = recipient.replace("+", "+2B").replace("=", "+3D").replace(" ", "+20")
            same = "ORCPT=rfc822;" + same.replace('"', "")  # Postfix repeats quotes that are not needed
            said = sorted(p for p in said if p.replace('"', "") != same)
            found.append((m.sender, recipient, said, parameters, session_facts, *message_facts(m.content)))
    return sorted(found, key=repr)


def policy_facts(requests):
    """One line for each request to a policy server, without what differs from session to session."""
    unsteady = ("instance", "client_port", "server_port", "compatibility_level", "mail_version")
    return ["policy: " + " ".join(f"{n}={'ID' if n == 'queue_id' and v else v}" for n, v in sorted(lines)
                                  if v and n not in unsteady) for lines in requests]


def milter_facts(events, ports):
    """One line for each event that a filter was told of, and its macros; in no order, for sessions may overlap."""
    unsteady = {"i": "ID", "v": "VERSION", "{client_port}": "PORT", "{daemon_port}": "PORT"}
    found = []
    for code, data, macros in events:
        if code == "C":
            name, _, rest = data.partition(b"\0")
            data = name + b" " + rest[:1] + rest[3:]  # the port is the client's
        told = " ".join(f"{n}={unsteady.get(n, v)}" for n, v in sorted(macros.items()))
        for name, number in ports.items():
            told = re.sub(rf"\b{number}\b", name, told)
        own = data.lower().startswith((b"date\0", b"message-id\0"))
        if code not in "AQKON" and not own:  # ends are their maker's; N says nothing
            found.append(f"milter: {code} {data!r} {told}")
    return sorted(found)


def in_queue(entries):
    """What waits, of a list in the form of postqueue -j: no reasons, which are their maker's."""
    found = [(e["queue_name"], e["sender"].replace("MAILER-DAEMON", ""), r["address"])
             for e in entries for r in e["recipients"]]
    return sorted(f"{place}: <{sender}> to {recipient}" for place, sender, recipient in found)


def mailboxes(folders, given):
    """name of a mailbox -> the messages in it, in no order; without the files that were given."""
    found = {}
    for label, folder in folders.items():
        for path, _, names in os.walk(folder):
            for name in sorted(set(names)):
                if os.path.join(path, name) in given:
                    continue
                with open(os.path.join(path, name), "rb") as raw:
                    text = raw.read()
                box = os.path.join(label, os.path.relpath(path, folder))
                if os.path.basename(path) not in ("new", "cur"):
                    box = os.path.normpath(os.path.join(box, name))
                    messages = re.split(rb"(?m)^From \S+  ?\w{3} \w{3} .*\n", text)[1:] or [text]
                else:
                    messages = [text]
                if any(messages):
                    found.setdefault(box, []).extend(message_facts(m, b"\n") for m in messages)
    return {box: sorted(found[box], key=repr) for box in sorted(found)}


class Around:
    """The servers around a mail system, and its ports."""

    def __init__(self, fixture, stack):
        self.fixture, self.stack, self.given = fixture, stack, set()
        self.ports = {name: free_port() for name in OWN_PORTS}
        self.hop = self.lmtp = self.milter = self.policy = None
        self.folder = tempfile.mkdtemp(prefix="pen-test-")
        stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        os.chmod(self.folder, 0o755)
        self.hop = self.server("HOP", "hop", lambda **more: Peer(**more))
        self.lmtp = self.server("LMTP", "lmtp", lambda **more: Peer(lmtp=True, **more))
        if fixture.named("FILTER"):
            self.ports["FILTER"] = stack.enter_context(Filter(back=self.ports["BACK"])).port
        if fixture.named("POLICY"):
            actions = dict(l.split(" ", 1) for l in fixture.parts.get("policy", "").splitlines())
            self.policy = stack.enter_context(PolicyServer(actions))
            self.ports["POLICY"] = self.policy.port
        if fixture.named("MILTER"):
            self.milter = stack.enter_context(milters.Milter(self.milter_answers()))
            self.ports["MILTER"] = self.milter.port
        self.dns = None
        if "dns" in fixture.parts:
            self.dns = stack.enter_context(self.name_server())
        if fixture.named("AUTH"):
            dovecot = FakeDovecot(self.log_in)
            stack.callback(dovecot.close)
            self.ports["AUTH"] = dovecot.port

    def server(self, port, part, make):
        if not self.fixture.named(port):
            return None
        offers, rules, more = ["PIPELINING", "8BITMIME", "SIZE 0", "DSN"], [], {}
        for line in self.fixture.parts.get(part, "").splitlines():
            word, _, rest = line.partition(" ")
            if word == "offer":
                offers += rest.split(", ")
            elif word == "tls":
                more["tls"] = server_context(self.certificate())
            else:
                rules.append((word, *rest.replace("\\n", "\r\n").split(" => ")))
        found = self.stack.enter_context(make(features=offers, **more))
        for verb in {verb for verb, *_ in rules}:
            mine = [(text, reply) for v, text, reply in rules if v == verb]
            found.replies[verb] = lambda _session, line, mine=mine: next((r for t, r in mine if t in line), None)
        self.ports[port] = found.port
        return found

    def name_server(self):
        """At port 53, for resolv.conf names no other, of an address of its own."""
        records, trouble = {}, {}
        for name, kind, value in (line.split(" ", 2) for line in self.fixture.parts["dns"].splitlines()):
            if kind == "TROUBLE":
                trouble[name] = value
                continue
            if kind == "MX":
                value = (int(value.split()[0]), value.split()[1])
            records.setdefault((name, kind), []).append(value)
        server = Dns(records, host=f"127.{random.randrange(1, 255)}.{random.randrange(256)}.53", port=53)
        server.trouble.update(trouble)
        return server

    def certificate(self):
        if not hasattr(self, "issued"):
            self.issued = certificates.Authority(self.folder).issue("peer.example")
        return self.issued

    def milter_answers(self):
        answers = {}
        for line in self.fixture.parts.get("milter", "").splitlines():
            event, what, text = line.split(" ", 2)
            if what == "add":
                answers.setdefault(event, [milters.CONTINUE]).insert(-1, milters.add(*text.split(": ", 1)))
            elif what == "if":
                part, _, reply = text.partition(" reply ")
                answers[event] = lambda _m, data, part=part, reply=reply: (
                    milters.reply(reply) if part.encode() in data else milters.CONTINUE)
            elif what == "reply":
                answers[event] = milters.reply(text)
            else:
                answers.setdefault(event, [milters.CONTINUE]).insert(-1, self.change(what, text))
        return answers

    @staticmethod
    def change(what, text):
        if what in ("change", "insert"):
            index, _, field = text.partition(" ")
            name, _, value = field.partition(": ")
            return (milters.change if what == "change" else milters.insert)(int(index), name, value)
        make = {"rcpt": milters.add_rcpt, "no-rcpt": milters.del_rcpt, "from": milters.change_from,
                "body": lambda t: milters.body(t.replace("|", "\r\n").encode())}
        return make[what](text)

    @staticmethod
    def log_in(peer, line):
        words = line.split("\t")
        if words[0] == "AUTH":
            _, user, password = (base64.b64decode(line.partition("resp=")[2]).decode().split("\0") + ["", ""])[:3]
            peer.sendall((f"OK\t{words[1]}\tuser={user}\n" if password == "secret" else
                          f"FAIL\t{words[1]}\tuser={user}\n").encode())
        return True

    def fill(self, text, where):
        for name, value in {**self.ports, **where}.items():
            text = text.replace(f"@{name}@", str(value))
        return text

    def files(self, where):
        """name -> text of the tables and of the two files' parts."""
        kept = {n: t for n, t in self.fixture.parts.items()
                if n not in ("hop", "lmtp", "milter", "policy", "differs", "dns", "told") and "/" not in n}
        return {name: self.fill(text, where) for name, text in kept.items()}

    def write_beside(self, folders, where):
        """The fixture's files among the mailboxes; what is there before a test is not looked at."""
        for name, text in self.fixture.parts.items():
            label, slash, rest = name.partition("/")
            if slash:
                path = os.path.join(folders[label], rest)
                with open(path, "w") as out:
                    out.write(self.fill(text, where))
                os.chmod(path, 0o755)
                self.given.add(path)

    def run_sessions(self, where, sendmail):
        said = []
        for title, text in self.fixture.sessions:
            kind, _, port = title.partition(" ")
            if kind == "sendmail":
                for line in text.splitlines():
                    arguments, _, content = line.partition(" | ")
                    said.append((line, sendmail(self.fill(arguments, where), "\n".join(content_of(content)) + "\n")))
                continue
            port = self.fill(port or "@PORT@", where)
            said += session(int(port), self.fill(text, where), wrapped=int(port) == self.ports["SMTPS"])
        return said

    def seen(self, said, folders):
        found = Seen()
        found.said, found.mailboxes = said, mailboxes(folders, self.given)
        found.hop = at_hop(self.hop) if self.hop else []
        found.lmtp = at_hop(self.lmtp) if self.lmtp else []
        if "told" in self.fixture.parts:
            found.asked = policy_facts(self.policy.lines) if self.policy else []
            found.asked += milter_facts(self.milter.events, self.ports) if self.milter else []
        return found


def make_folders(root):
    """The places of mailboxes below root: label -> folder."""
    folders = {label: os.path.join(root, label) for label in ("vmail", "spool", "home")}
    for folder in folders.values():
        os.makedirs(folder, exist_ok=True)
    os.chmod(folders["spool"], 0o1777)
    os.chown(folders["vmail"], VMAIL, VMAIL)
    for name, uid in (("ann", 5201), ("bob", 5202)):
        os.makedirs(os.path.join(folders["home"], name), exist_ok=True)
        os.chown(os.path.join(folders["home"], name), uid, uid)
    return folders


def by_postfix(fixture, keep):
    """Runs the fixture with Postfix; its directory is copied to keep. Returns (Seen, the ports, where it was)."""
    with contextlib.ExitStack() as stack:
        around = Around(fixture, stack)
        where = {"VMAIL": "/var/lib/mail/vmail", "SPOOL": "/var/lib/mail/spool", "HOME": "/var/lib/mail/home"}
        files = around.files(where)
        postfix = PostfixOf(around.ports["PORT"], files.pop("main.cf"), files.pop("master.cf", ""))
        stack.callback(postfix.stop)
        folders = make_folders(os.path.join(postfix.dir, "lib/mail"))
        around.write_beside(folders, where)
        for name in ("passwd", "group"):
            with open(os.path.join(postfix.dir, "etc", name), "a") as out:
                out.write(ACCOUNTS.format(home=where["HOME"]) if name == "passwd" else GROUPS)
        made = around.certificate() if fixture.named("CERT") or "cert.pem" in fixture.all else None
        postfix.tables = files
        postfix.certificate = made
        if around.dns:
            postfix.write("etc/resolv.conf", f"nameserver {around.dns.host}\n")
            postfix.write("etc/nsswitch.conf", "hosts: files dns\npasswd: files\ngroup: files\n")
        postfix.start()

        def sendmail(arguments, text):
            postfix.write("lib/text", text)
            return postfix.run("/bin/sh", "-c", f"/usr/sbin/sendmail {arguments} < /var/lib/text").returncode
        try:
            said = around.run_sessions(where, sendmail)
        except (OSError, Refused) as failure:
            raise AssertionError(f"{failure!r}\n{postfix.log()}")
        eventually(lambda: not postfix.moving(), lambda: f"Postfix has tried everything\n{postfix.log()}", 20)
        found = around.seen(said, folders)
        found.queue = in_queue(json.loads(line) for line in postfix.run("/usr/sbin/postqueue", "-j").stdout.splitlines()
                               if line.startswith("{"))
        shutil.copytree(os.path.join(postfix.dir, "etc/postfix"), keep)
        return found, around.ports, where, postfix.log()


def last_of_each(main):
    """main.cf without settings that are set again."""
    lines = re.findall(r"(?m)^[^\s#].*\n(?:[ \t#].*\n|\n)*", main)
    return "".join({line.partition("=")[0].strip(): line for line in lines}.values())


class PostfixOf(peers.Postfix):
    """The peer with the tables of a fixture, and its lines of master.cf."""

    tables, certificate = {}, None

    def __init__(self, port, settings, services):
        super().__init__(port, settings="mailbox_size_limit = 0\nvirtual_mailbox_limit = 0\n" + settings)
        self.lines = services

    def run(self, *command, **more):
        if command == ("/usr/sbin/postfix", "start"):
            self.prepare()
        return super().run(*command, **more)

    def prepare(self):
        etc = os.path.join(self.dir, "etc/postfix")
        if self.certificate:
            shutil.copy(self.certificate.pem, os.path.join(etc, "cert.pem"))
            shutil.copy(self.certificate.key, os.path.join(etc, "key.pem"))
        # Each name once: Postfix's postlogd hangs itself up if it begins with more than ten warnings of its own.
        self.write("etc/postfix/main.cf", last_of_each(self.read("etc/postfix/main.cf")))
        main = self.read("etc/postfix/main.cf")
        for name, text in self.tables.items():
            os.chmod(self.write("etc/postfix/" + name, text), 0o755 if text.startswith("#!") else 0o644)
        for name in self.tables:
            if re.search(rf"(hash|btree):\s*/etc/postfix/{re.escape(name)}\b", main + self.lines):
                aliases = re.search(rf"(?m)^alias_(maps|database)\s*=.*/{re.escape(name)}\b", main)
                done = super().run("/usr/sbin/postalias" if aliases else "/usr/sbin/postmap",
                                   "hash:/etc/postfix/" + name)
                assert done.returncode == 0, done.stdout
        master, own = self.read("etc/postfix/master.cf"), [tuple(l.split()[:2]) for l in self.lines.splitlines()
                                                            if l[:1] not in (" ", "\t", "#", "")]
        kept, skipping = [], False
        for line in master.splitlines():
            if line[:1] not in (" ", "\t"):
                skipping = tuple(line.split()[:2]) in own or (own and f"127.0.0.1:{self.port} inet" in line and any(
                    str(self.port) in name for name, _ in own))
            if not skipping:
                kept.append(line)
        self.write("etc/postfix/master.cf", "\n".join(kept) + "\n" + self.lines)

    def moving(self):
        spool = os.path.join(self.dir, "spool/postfix")
        return sum(len(f) for q in ("incoming", "active", "maildrop") for _, _, f in os.walk(os.path.join(spool, q)))


class ImportedInstance(Instance):
    """An instance that sees the accounts of the fixture: /etc/passwd and /etc/group of a mount namespace."""

    def tool(self, name, *arguments, **more):
        if name != "penstock" or arguments[:1] == ("init",):
            return super().tool(name, *arguments, **more)
        for file, lines in (("passwd", ACCOUNTS.format(home=self.home) + f"vmail:x:{VMAIL}:{VMAIL}::/:/bin/sh\n"),
                            ("group", GROUPS)):
            if not os.path.exists(self.path(file)):
                with open("/etc/" + file) as text:
                    shared = text.read()
                with open(self.path(file), "w") as out:
                    out.write(shared + lines)
        binds = " && ".join(f"mount --bind {self.path(f)} /etc/{f}" for f in ("passwd", "group"))
        return subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", binds + ' && exec "$@"', "in",
                               os.path.join(BIN, name), "-c", self.etc, *arguments], capture_output=True, text=True,
                              timeout=120)


def by_penstock(fixture, directory, theirs, ports, where):
    """Runs the fixture with Penstock from a copy of Postfix's directory: only ports and places of mailboxes change."""
    with contextlib.ExitStack() as stack:
        around = Around(fixture, stack)
        mx = ImportedInstance(start=False)
        mx.home = os.path.join(mx.dir, "boxes/home")
        stack.callback(mx.close)
        folders = make_folders(os.path.join(mx.dir, "boxes"))
        here = {"VMAIL": folders["vmail"], "SPOOL": folders["spool"], "HOME": folders["home"]}
        around.write_beside(folders, here)
        for path, _, names in os.walk(directory):
            for name in names:
                if name.endswith((".db", ".pem")):
                    continue
                with open(os.path.join(path, name)) as text:
                    changed = text.read()
                for port, number in ports.items():
                    changed = re.sub(rf"\b{number}\b", str(around.ports[port]), changed)
                for place, folder in where.items():
                    changed = changed.replace(folder, here[place])
                with open(os.path.join(path, name), "w") as out:
                    out.write(changed)
        done = mx.tool("penstock", "import", "--from", directory, "--force")
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        mx.set(dns_resolver_addresses=around.dns.host if around.dns else "127.0.0.1",
               dns_resolver_port=str(around.dns.port) if around.dns else "9", dns_resolver_timeout="1s")
        if own := re.search(r"(?m)^mail_spool_directory = (.*)", fixture.parts["main.cf"]):
            mx.set(mail_spool_directory=around.fill(own[1], here))  # an import leaves an instance its own
        mx.port = around.ports["PORT"]
        mx.start()

        def sendmail(arguments, text):
            return subprocess.run(["sh", "-c", f"{BIN}/sendmail -C {mx.etc} {arguments}"], input=text.encode(),
                                  stderr=subprocess.DEVNULL, timeout=60).returncode
        said = around.run_sessions(here, sendmail)

        def done_with_it():
            return all(e["queue_name"] in ("deferred", "hold") for e in mx.queue()) and (
                not os.listdir(mx.path("spool", "maildrop")))
        eventually(done_with_it, lambda: f"everything was tried: {mx.queue()}\n{mx.log()}", 60)
        found = around.seen(said, folders)
        found.queue = in_queue(mx.queue())
        return found, mx.log()


def difference(theirs, ours):
    """The facts that only one of them has: lines that begin with - (Postfix) and + (Penstock)."""
    found = difflib.unified_diff(theirs.facts(), ours.facts(), "Postfix", "Penstock", lineterm="", n=0)
    return [line for line in found if not line.startswith(("@@", "---", "+++"))]


def expected(fixture):
    """What difference() is to be."""
    return [line for line in fixture.parts.get("differs", "").splitlines() if not line.startswith("#")]


def beside(fixture):
    """Returns (what Postfix did, what Penstock did, both logs)."""
    with tempfile.TemporaryDirectory(prefix="pen-test-") as folder:
        os.chmod(folder, 0o755)
        directory = os.path.join(folder, "postfix")
        theirs, ports, where, their_log = by_postfix(fixture, directory)
        ours, our_log = by_penstock(fixture, directory, theirs, ports, where)
        return theirs, ours, f"---- Postfix\n{their_log}\n---- Penstock\n{our_log}"
