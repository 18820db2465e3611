"""Filters (milters): the same filter and the same conversation with Penstock and with Postfix, row by row; then what
Penstock does where it differs on purpose, and what a filter that dies or hangs costs."""
import os
import re
import socket
import subprocess
import threading

import milter
import peers
from certificates import Authority
from dovecot_auth import FakeDovecot
from harness import *
from milter import ACCEPT, DISCARD, REJECT, SHUTDOWN, SKIPPED, TEMPFAIL, Milter, reply
from test_tls_server import TlsClient

SETTINGS = {
    "myhostname": "mx.test.example",
    "milter_macro_v": "test",
    "milter_command_timeout": "20s",
    "smtpd_helo_required": "no",
    "smtpd_peername_lookup": "no",
}
CONTENT = (b"From: a@sender.example\r\nSubject: one\r\nTo: b@there.example\r\nX-Folded:  two\r\n\tblanks\r\n"
           b"Subject: two\r\nDate: Tue, 24 Nov 2026 04:00:00 +0000\r\nMessage-ID: <1@sender.example>\r\n\r\n"
           b"first\r\n..dot\r\nlast\r\n")
TO = ("b@there.example", "c@there.example")


class Row:
    """One filter and one conversation. answers: of the filter. lines: between EHLO and QUIT; None: a message to TO."""

    def __init__(self, name, answers=None, lines=None, content=CONTENT, differs="", **script):
        self.name, self.answers, self.lines, self.content, self.script = name, answers, lines, content, script
        self.differs = differs  # of replies, events and mail: what Postfix does otherwise, on purpose


def edits(*changes):
    return {"E": [*changes, milter.CONTINUE]}


ROWS = [
    Row("all events in order"),
    *[Row(f"{word} at {stage}", {stage: answer})
      for stage in "MRTLNBE" for word, answer in (("reject", REJECT), ("tempfail", TEMPFAIL), ("accept", ACCEPT))],
    *[Row(f"reply of its own at {stage}", {stage: reply("550 5.7.9 go 100% away")}) for stage in "MRTBE"],
    Row("reply of several lines", {"E": reply("450-4.7.9 first\r\n450 4.7.9 second")}),
    *[Row(f"discard at {stage}", {stage: DISCARD}) for stage in "MRTNBE"],
    Row("one recipient refused", {"R": lambda _, data: REJECT if b"c@" in data else milter.CONTINUE}),
    Row("reject at connect", {"C": REJECT}),
    Row("tempfail at connect", {"C": TEMPFAIL}),
    Row("accept at connect", {"C": ACCEPT}),
    Row("reject at helo", {"H": REJECT}),
    Row("accept at helo", {"H": ACCEPT}),
    Row("shutdown at mail", {"M": SHUTDOWN}),
    # Postfix 3.7 says that the message is queued, and drops it.
    Row("shutdown at end", {"E": SHUTDOWN}, differs="replies"),
    Row("skip the body", {"B": SKIPPED}, protocol=milter.SKIP),
    Row("progress before the verdict", {"E": [milter.PROGRESS, milter.PROGRESS, milter.CONTINUE]}),
    Row("no events but the end", protocol=0x37F),
    Row("no replies", protocol=milter.NR_ALL),
    Row("values with their blank", protocol=milter.LEADING_SPACE),
    Row("version 2", version=2, actions=0x3F),
    Row("version 4", version=4, actions=0x3F),
    Row("macros that the filter names", macros=b"\0\0\0\2{mail_addr} {daemon_name}\0"),
    Row("rset and a second message", lines=["MAIL FROM:<x@sender.example>", "RCPT TO:<x@there.example>", "RSET", None]),
    Row("two messages", lines=[None, None]),
    Row("helo in the middle", lines=["MAIL FROM:<x@sender.example>", "HELO again.example", None],
        differs="events"),  # Postfix says HELO before it says that the transaction is over
    Row("unknown command", lines=["BLURDYBLOOP"]),
    Row("unknown command, 4xx", {"U": TEMPFAIL}, lines=["BLURDYBLOOP"]),
    Row("unknown command, 5xx", {"U": REJECT}, lines=["BLURDYBLOOP"]),
    Row("parameters of mail and rcpt",
        lines=["MAIL FROM:<x@sender.example> SIZE=100 BODY=8BITMIME", "RCPT TO:<x@there.example> NOTIFY=NEVER",
               "RSET"]),
    Row("null sender", lines=["MAIL FROM:<>", "RCPT TO:<x@there.example>", "RSET"], differs="events"),  # {mail_host}
    Row("refused recipients are told", lines=["MAIL FROM:<x@sender.example>", "RCPT TO:<x>y@there.example>",
                                              "RCPT TO:<refused@there.example>", "RSET"], protocol=milter.RCPT_REJ),
    Row("add a header", edits(milter.add("X-New", "value"))),
    Row("add a folded header", edits(milter.add("X-New", "one\n two\nthree"))),
    Row("add with blanks as sent", edits(milter.add("X-New", "  value"), milter.add("X-Tight", "value")),
        protocol=milter.LEADING_SPACE),
    Row("add with CRLF", edits(milter.add("X-New", "one\r\n\ttwo")), differs="mail"),  # Postfix 3.7 leaves CR in
    *[Row(f"insert at {n}", edits(milter.insert(n, "X-New", "value"))) for n in (0, 1, 2, 5, 100)],
    Row("insert twice at 1", edits(milter.insert(1, "X-New", "first"), milter.insert(1, "X-New", "second"))),
    Row("insert at 0 and change it", edits(milter.insert(0, "X-New", "a"), milter.change(1, "X-New", "b"))),
    *[Row(f"change subject {n}", edits(milter.change(n, "subject", "changed"))) for n in (0, 1, 2, 3)],
    *[Row(f"delete subject {n}", edits(milter.change(n, "Subject", ""))) for n in (1, 2, 3)],
    Row("change what is not there", edits(milter.change(1, "X-None", "made"))),
    Row("delete what is not there", edits(milter.change(1, "X-None", ""))),
    Row("our own trace is hidden", edits(milter.change(1, "Received", ""))),
    Row("replace the body", edits(milter.body(b"new\r\nbody\r\n"))),
    Row("replace the body in pieces", edits(milter.body(b"new\r"), milter.body(b"\nbo"), milter.body(b"dy\r\n"))),
    Row("replace the body without line end", edits(milter.body(b"new"))),
    Row("replace the body with bare LF", edits(milter.body(b"one\ntwo\n"))),
    Row("replace the body by nothing", edits(milter.body(b""))),
    Row("body and headers", edits(milter.add("X-New", "value"), milter.body(b"new\r\n"), milter.insert(1, "X-T", "t"))),
    Row("add a recipient", edits(milter.add_rcpt("<d@there.example>"))),
    Row("add a recipient with parameters", edits(milter.add_rcpt("<d@there.example>", "NOTIFY=NEVER"))),
    Row("remove a recipient", edits(milter.del_rcpt("<c@there.example>"))),
    Row("remove who is not there", edits(milter.del_rcpt("<z@there.example>"))),
    Row("change the sender", edits(milter.change_from("<new@sender.example>"))),
    Row("change the sender to none", edits(milter.change_from("<>"))),
    Row("edits, then reject", {"E": [milter.add("X-New", "value"), REJECT]}),
    Row("edits, then accept", {"E": [milter.add("X-New", "value"), ACCEPT]}),
    Row("content without a header", content=b"\r\nonly a body\r\n"),
    Row("content without a body", content=b"Subject: x\r\n", differs="mail"),  # ours ends the header
    # Ours takes that for a breach of the protocol: others may have been told that this filter only reads.
    Row("an edit that was not agreed on", edits(milter.add("X-New", "value")), actions=0, differs="replies mail"),
    Row("rubbish at mail", {"M": b"?rubbish"}),
]


class Recorded:
    """A message as a peer got it, comparable."""

    def __init__(self, message):
        self.sender, self.recipients = message.sender, sorted(message.recipients)
        content = re.sub(rb"(?ms)^Received: .*?(?=^\S|\Z)", b"Received: X\r\n", message.content)
        content = re.sub(rb"Message-Id: <[^@]*@", b"Message-Id: <ID@", content)
        self.content = re.sub(rb"Date: [^(\r]*\(UTC\)", b"Date: NOW", content)
        # Postfix gives each an ORCPT.
        self.parameters = [[w for w in words if w.startswith("NOTIFY=")] for words in message.recipient_parameters]


# A field that an access table puts above our trace: filters see it, count it and may change it.
PREPENDED = [
    Row("a prepended field"),
    Row("a prepended field is changed", edits(milter.change(1, "X-Pre", "changed"))),
    Row("a prepended field is deleted", edits(milter.change(1, "X-Pre", ""))),
    Row("our own trace is hidden below it", edits(milter.change(1, "Received", "ours"))),
    *[Row(f"insert at {n} beside it", edits(milter.insert(n, "X-New", "value"))) for n in (0, 1, 2, 3)],
]


def talk(port, row):
    """The replies to the row's conversation, with what differs by nature cut out."""
    replies = []

    def note(text):
        text = re.sub(r"queued as \S+", "queued as ID", text)
        replies.append(re.sub(r"\b(Postfix|Penstock)\b.*", "BANNER", text))

    def say(client, line):
        note(client.command(line))
        return replies[-1].startswith(("2", "3"))

    client = None
    try:
        client = Client(port, ehlo=False)
        note(client.greeting)
        for line in ["EHLO client.example", *(row.lines or [None]), "QUIT"]:
            if line is not None:
                text = client.command(line)
                if not line.startswith(("EHLO", "HELO")):
                    note(text)
                continue
            if not say(client, "MAIL FROM:<a@sender.example>"):
                continue
            if not any([say(client, f"RCPT TO:<{address}>") for address in TO]):
                continue
            if say(client, "DATA"):
                client.raw(row.content.replace(b"\r\n.", b"\r\n..") + b".\r\n")
                note(client.reply())
    except Refused as refused:
        note(refused.reply)
    except (ConnectionError, OSError):
        replies.append("closed")
    finally:
        if client:
            client.close()
    return replies


def comparable(events):
    """Events without what each system says of itself; the queue id, which Postfix has later, is left out."""
    out = []
    for code, data, macros in events:
        if code == "A" and (not out or out[-1][0] in "ACEHU"):
            continue  # Postfix says abort where nothing is under way, too
        if code == "C":  # the client's port
            data = data[:data.index(b"\0") + 2] + data[data.index(b"\0") + 4:]
        macros = {k: re.sub(r"\[127.0.0.1\]:\d+", "HOP", v) for k, v in macros.items()
                  if k not in ("i", "{daemon_addr}", "{daemon_port}", "{client_port}")}
        if code == "L":
            data = re.sub(rb"Message-Id\0<[^@]*", b"Message-Id\0<ID", data)
            data = re.sub(rb"Date\0.*\(UTC\)", b"Date\0NOW", data)
        out.append((code, data, macros))
    out = [e for e in out if e[0] != "Q"]
    while out and out[-1][0] == "A":
        out.pop()
    return out


class BesidePostfix(Suite):
    def setUp(self):
        if reason := peers.unavailable():
            self.skipTest(reason)

    def run_rows(self, rows, port, filter_, sink, settle):
        """Row -> replies, events and mail of one system."""
        out = {}
        # Whoever waited for the port has left a connection, of which the filter may hear late: a whole session comes
        # after it.
        filter_.script({"M": REJECT})
        talk(port, Row("a session before the first row"))
        eventually(lambda: not filter_.open, "the filter heard the end of all sessions before the first row")
        for row in rows:
            filter_.script(row.answers, **row.script)
            before = len(sink.messages)
            replies = talk(port, row)
            good = sum(1 for r in replies if "queued as" in r)
            dropped = {DISCARD, SHUTDOWN} & {a for a in (row.answers or {}).values() if isinstance(a, bytes)}
            wanted = 0 if dropped else good
            eventually(lambda: len({m.content for m in sink.messages[before:]}) >= min(wanted, 1) and settle(),
                       lambda: f"{row.name}: {replies} {len(sink.messages) - before}")
            eventually(lambda: not filter_.open, row.name)
            mail = {}
            for message in map(Recorded, sink.messages[before:]):
                mail.setdefault((message.sender, message.content), []).extend(
                    zip(message.recipients, message.parameters))
            mail = sorted((s, c, sorted(r)) for (s, c), r in mail.items())
            out[row.name] = (replies, comparable(filter_.events), mail)
        return out

    def compare(self, rows, **more):
        with Milter() as ours, Milter() as theirs, Peer() as sink, Peer() as their_sink:
            settings = {**SETTINGS, "relayhost": f"[127.0.0.1]:{sink.port}",
                        "smtpd_milters": f"inet:127.0.0.1:{ours.port}",
                        "smtpd_recipient_restrictions": inline_refusal(), "smtpd_error_sleep_time": "0",
                        "smtpd_hard_error_limit": "100", **more}
            with Instance(settings) as mx:
                got = self.run_rows(rows, mx.port, ours, sink, lambda: not mx.queue())
            port = free_port()
            lines = "\n".join(f"{k} = {v}" for k, v in {
                **settings, "relayhost": f"[127.0.0.1]:{their_sink.port}",
                "smtpd_milters": f"inet:127.0.0.1:{theirs.port}"}.items())
            with peers.Postfix(port, settings=lines) as postfix:
                wanted = self.run_rows(rows, port, theirs, their_sink, lambda: postfix.queued() == 0)
        self.maxDiff = None
        for row in rows:
            for what, mine, other in zip(("replies", "events", "mail"), got[row.name], wanted[row.name]):
                if what in row.differs:
                    continue
                with self.subTest(row=row.name, what=what):
                    self.assertEqual(mine, other)

    def test_replies_events_and_mail_are_those_of_postfix(self):
        self.compare(ROWS)

    def test_fields_that_access_tables_prepend_are_shown_as_in_postfix(self):
        # Of one recipient: Postfix repeats a field that comes with each.
        self.compare(PREPENDED, smtpd_sender_restrictions="check_recipient_access "
                     "inline:{ { b@there.example = PREPEND X-Pre: yes } }")

    LOGGED = {
        **{f"reject at {stage}": {stage: REJECT} for stage in "CHMRTLNBE"},
        **{f"tempfail at {stage}": {stage: TEMPFAIL} for stage in "CHMRTE"},
        **{f"discard at {stage}": {stage: DISCARD} for stage in "MRTE"},
        "a reply without an enhanced code": {"M": reply("550 no")},
        "shutdown": {"M": SHUTDOWN},
        "a reply that is none": {"M": reply("250 fine")},
        "an enhanced code of another class": {"M": reply("550 4.7.1 mixed")},
        "a code alone": {"R": reply("550")},
        **{f"a field with {word}": edits(milter.add(f"X-{word}", "v"))
           for word in ("Rej", "Warn", "Hold", "Disc", "Filter", "Redir", "Bcc", "Old", "Drop", "Info", "Strip")},
    }
    HEADER_CHECKS = ("regexp:{ {/^X-Rej:/ REJECT not that} {/^X-Warn:/ WARN look} {/^X-Hold:/ HOLD wait} "
                     "{/^X-Disc:/ DISCARD away} {/^X-Filter:/ FILTER smtp:[127.0.0.1]:9} "
                     "{/^X-Redir:/ REDIRECT new@there.example} {/^X-Bcc:/ BCC copy@there.example} "
                     "{/^X-Old:/ REPLACE X-New: y} {/^X-Drop:/ IGNORE} {/^X-Info:/ INFO inf} {/^X-Strip:/ STRIP st} }")

    def logged(self, port, filter_, log, visits=0):
        """Case -> reply, and the lines of the log about filters. The id is left out: ours is known at MAIL. visits: by
        whoever waited for the port."""
        out, sessions = {}, visits

        def is_whole():
            """The log has the last line of each session; Postfix's is written by a process of its own, a moment
            later."""
            text = log()
            begun, ended = (len(re.findall(rf": {word} from ", text)) for word in ("connect", "disconnect"))
            return begun == ended >= sessions

        def session(name):
            nonlocal sessions
            replies = [r for r in talk(port, Row(name)) if not r.startswith("220")]
            sessions += 1
            eventually(lambda: not filter_.open, name)
            eventually(is_whole, lambda: f"{name}: the log of {sessions} sessions\n{log()}")
            return replies

        filter_.script({"M": REJECT})
        session("a session before the first case")
        for name, answers in self.LOGGED.items():
            filter_.script(answers)
            before = len(log())
            replies = session(name)
            lines = []
            for line in log()[before:].splitlines():
                text = re.search(r"\w+\[\d+\]: (.*)", line)
                if text and "milter" in text[1]:
                    lines.append(re.sub(r"127.0.0.1:\d+", "FILTER", re.sub(r"^\w+: milter", "ID: milter", text[1])))
            out[name] = (replies, lines)
        return out

    def test_log_lines_and_replies_are_those_of_postfix(self):
        with Milter() as ours, Milter() as theirs, Peer() as sink, Peer() as their_sink:
            settings = {**SETTINGS, "milter_header_checks": self.HEADER_CHECKS, "smtpd_error_sleep_time": "0",
                        "smtpd_hard_error_limit": "100", "milter_default_action": "reject"}
            with Instance({**settings, "relayhost": f"[127.0.0.1]:{sink.port}",
                           "smtpd_milters": f"inet:127.0.0.1:{ours.port}"}) as mx:
                got = self.logged(mx.port, ours, mx.log)
            port = free_port()
            lines = "\n".join(f"{k} = {v}" for k, v in {
                **settings, "relayhost": f"[127.0.0.1]:{their_sink.port}",
                "smtpd_milters": f"inet:127.0.0.1:{theirs.port}"}.items())
            with peers.Postfix(port, settings=lines) as postfix:
                wanted = self.logged(port, theirs, postfix.log, visits=1)
        self.maxDiff = None
        for name in self.LOGGED:
            with self.subTest(name):
                self.assertEqual(got[name], wanted[name])


def inline_refusal():
    return "check_recipient_access inline:{ { refused@there.example = 550 5.7.5 not you } }, permit_mynetworks, reject"


class Own(Suite):
    """What Postfix has no match for, or what needs a filter that misbehaves."""

    def instance(self, *filters, **settings):
        names = ", ".join(f if isinstance(f, str) else f"inet:127.0.0.1:{f.port}" for f in filters)
        return Instance({**SETTINGS, "virtual_mailbox_maps": inline({"ada@virtual.test.example": "ada/"}),
                         "smtpd_error_sleep_time": "0", "smtpd_milters": names, **settings})

    def refused(self, mx, content=CONTENT):
        """The reply that refuses a message to ada, or None."""
        try:
            send(mx.port, "a@sender.example", ["ada@virtual.test.example"], content)
        except Refused as refused:
            return refused.reply
        return None

    def box(self, mx, count=1):
        mx.virtual_box("ada").wait(count)
        return mx.virtual_box("ada").messages()

    def test_the_queue_id_is_known_at_mail(self):
        with Milter() as f, self.instance(f) as mx:
            queue_id = send(mx.port, "a@sender.example", ["ada@virtual.test.example"], CONTENT).split()[-1]
            self.assertEqual({code: m.get("i") for code, _, m in f.events if code in "MRTNE"},
                             dict.fromkeys("MRTNE", queue_id))

    def test_a_filter_that_is_away(self):
        for action, wanted in {"accept": None, "tempfail": "451 4.7.1", "reject": "554 ", "shutdown": "421 4.7.1",
                               "quarantine": None}.items():
            nobody = f"inet:127.0.0.1:{free_port()}"
            with self.subTest(action), self.instance(nobody, milter_default_action=action) as mx:
                reply = self.refused(mx)
                self.assertEqual(reply and reply[:len(wanted or "")], wanted)
                if action == "accept":
                    self.box(mx)
                if action == "quarantine":
                    eventually(lambda: [m["queue_name"] for m in mx.queue()] == ["hold"], "on hold")
                    mx.wait_log("milter-hold: MAIL from .*: default_action;")
                mx.wait_log("warning: milter inet:127.0.0.1:[0-9]+: connect: .*Connection refused")

    def test_a_filter_that_ends_at_any_stage_puts_mail_off_and_is_asked_again_with_the_next(self):
        with Milter() as f, self.instance(f) as mx:
            for stage in "CHMRTLNBE":
                f.script(cut=stage)
                with self.subTest(stage):
                    client = Client(mx.port)
                    with self.assertRaises(Refused) as refused:
                        client.send("a@sender.example", ["ada@virtual.test.example"], CONTENT)
                    self.assertEqual(refused.exception.reply, "451 4.7.1 Service unavailable - try again later")
                    f.script()
                    client.command("RSET")
                    # The endpoint is up: it is the connection that was lost.
                    client.send("a@sender.example", ["ada@virtual.test.example"], CONTENT)
                    # A connection that was made before the script changed may have been cut as well.
                    self.assertEqual(f.codes().lstrip("C")[:3], "HMR")
                    client.quit()
                    eventually(lambda: f.codes().endswith("Q"), "the filter heard of the end")
            self.box(mx, 9)
            eventually(lambda: not mx.queue(), "nothing is left to deliver")
            self.assertEqual(len(mx.virtual_box("ada").messages()), 9)

    def test_a_filter_that_hangs_costs_its_own_sessions_the_time_limit_and_others_nothing(self):
        with Milter() as f, self.instance(f, milter_command_timeout="2s", milter_content_timeout="2s") as mx:
            for stage in "MRTLNBE":
                with self.subTest(stage):
                    f.script(hang=stage)
                    with Client(mx.port) as stuck:  # negotiated: this session has the filter that hangs
                        f.script()
                        self.assertIsNone(self.refused(mx))
                        with self.assertRaises(Refused) as refused:
                            stuck.send("a@sender.example", ["ada@virtual.test.example"], CONTENT)
                        self.assertEqual(refused.exception.reply[:9], "451 4.7.1")
                    mx.wait_log("milter inet:127.0.0.1:[0-9]+: can't read SMFIC_[A-Z]+ reply packet: no reply in time")
            self.box(mx, 7)
            eventually(lambda: not mx.queue(), "nothing is left to deliver")
            self.assertEqual(len(mx.virtual_box("ada").messages()), 7)

    def test_progress_without_end_costs_the_total_time_limit(self):
        def works(filter, _):
            while not filter.release.wait(0.1):
                yield b"p"

        with Milter() as f, self.instance(f, milter_command_timeout="1s", milter_content_timeout="1s",
                                          milter_total_timeout="3s") as mx:
            for stage in "ME":
                with self.subTest(stage):
                    f.script({stage: works})
                    with Client(mx.port) as client, self.assertRaises(Refused) as refused:
                        client.send("a@sender.example", ["ada@virtual.test.example"], CONTENT)
                    self.assertEqual(refused.exception.reply[:9], "451 4.7.1")
                    mx.wait_log("milter inet:127.0.0.1:[0-9]+: can't read SMFIC_[A-Z]+ reply packet: no reply in time")
            f.script()
            self.assertIsNone(self.refused(mx))

    def test_a_thousand_sessions_in_a_filter_that_hangs_hold_less_than_their_messages(self):
        count, size = 1000, 250000
        text = CONTENT + (b"x" * 98 + b"\r\n") * (size // 100)

        def anonymous():
            with open(f"/proc/{mx.pids()['smtpd'][0]}/status") as status:
                return int(re.search(r"RssAnon:\s+(\d+)", status.read())[1]) << 10

        with Milter() as f, self.instance(f, milter_content_timeout="100s", default_process_limit="2000",
                                          smtpd_client_connection_count_limit="0") as mx:
            self.assertIsNone(self.refused(mx))
            before = anonymous()
            f.script(hang="B")
            stuck = []
            for _ in range(count):
                client = Client(mx.port)
                stuck.append(client)
                client.expect("MAIL FROM:<a@sender.example>", "250")
                client.expect("RCPT TO:<ada@virtual.test.example>", "250")
                client.expect("DATA", "354")
                client.raw(text + b".\r\n")
            eventually(lambda: f.codes().count("B") == count, lambda: f"{f.codes().count('B')} of {count} bodies", 100)
            took = anonymous() - before
            f.script()
            self.assertIsNone(self.refused(mx))  # others are served meanwhile
            f.release.set()  # the filter ends: all are put off, and none is taken
            for client in stuck:
                self.assertEqual(client.reply(), "451 4.7.1 Service unavailable - try again later")
                client.close()
            self.box(mx, 2)
        self.assertLess(took, sanitizers.memory(160 << 20))

    def test_an_endpoint_that_hangs_is_known_to_all_sessions(self):
        with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
            port = silent.getsockname()[1]
            with self.instance(f"inet:127.0.0.1:{port}", milter_connect_timeout="1s") as mx:
                self.assertEqual(self.refused(mx)[:9], "451 4.7.1")
                for _ in range(20):
                    self.assertEqual(self.refused(mx)[:9], "451 4.7.1")
            silent.setblocking(False)
            tried = 0
            while True:
                try:
                    silent.accept()[0].close()
                    tried += 1
                except BlockingIOError:
                    break
            # Each of the 21 sessions would try at CONNECT, and again at MAIL. The pauses between tries double.
            self.assertLess(tried, 10)

    def test_filters_that_only_read_run_beside_each_other(self):
        meet = threading.Barrier(3, timeout=30)

        def together(*_):
            meet.wait()
            return milter.CONTINUE
        with Milter({"E": together}, actions=0) as a, Milter({"E": together}, actions=0) as b, \
                Milter({"E": together}, actions=milter.QUARANTINE) as c, self.instance(a, b, c) as mx:
            self.assertIsNone(self.refused(mx))
            self.box(mx)

    def test_a_filter_sees_what_those_before_it_changed(self):
        with Milter(edits(milter.add("X-First", "one"), milter.body(b"changed\r\n"))) as a, \
                Milter(edits(milter.change(1, "X-First", "two"))) as b, Milter(actions=0) as reader, \
                self.instance(a, b, reader) as mx:
            self.assertIsNone(self.refused(mx))
            self.assertIn(b"X-First: two\n\nchanged\n", self.box(mx)[0])
            seen = {code: data for code, data, _ in reader.events if code != "L"}
            self.assertEqual(seen["B"], b"changed\r\n")
            self.assertIn(b"X-First\0two\0", [data for code, data, _ in reader.events if code == "L"])

    def test_the_first_of_the_list_decides(self):
        with Milter({"E": reply("550 5.7.1 first")}, actions=0) as a, \
                Milter({"E": reply("450 4.7.1 second")}, actions=0) as b, self.instance(a, b) as mx:
            self.assertEqual(self.refused(mx), "550 5.7.1 first")
            mx.wait_log(r"\w+: milter-reject: END-OF-MESSAGE from unknown\[127.0.0.1\]: 5.7.1 first; "
                        r"from=<a@sender.example> to=<ada@virtual.test.example> proto=ESMTP helo=<client.example>")

    def test_after_many_messages_the_steps_of_one_leave_together_and_an_early_end_harms_no_other(self):
        """At one header the filter looks whether the end of the message has arrived already."""
        together = []

        def header(filter, data):
            if data.startswith(b"X-Stop"):
                return reply("550 5.7.1 stopped")
            if data.startswith(b"X-Look"):
                connection, = filter.open
                try:
                    together.append(b"\0\0\0\1E" in connection.recv(65536, socket.MSG_PEEK | socket.MSG_DONTWAIT))
                except BlockingIOError:
                    together.append(False)
            return milter.CONTINUE
        with Milter({"L": header, "E": [milter.add("X-Seen", "yes"), milter.CONTINUE]}) as filter, \
                self.instance(filter) as mx, Client(mx.port) as c:
            def message(*fields):
                for command in ("MAIL FROM:<a@sender.example>", "RCPT TO:<ada@virtual.test.example>", "DATA"):
                    c.command(command)
                return c.command("\r\n".join([*fields, "X-Look: 1", "Subject: x", "", "text", "."]))
            for _ in range(60):
                self.assertEqual(message()[:3], "250")
            self.assertEqual((together[0], together[-1]), (False, True))
            before = filter.connections
            self.assertEqual(message("X-Stop: 1"), "550 5.7.1 stopped")
            # The filter was sent more than it wanted; the next message has a connection that is in step.
            self.assertEqual(message()[:3], "250")
            self.assertEqual((filter.connections, together[-1]), (before + 1, False))
            c.quit()
            self.assertTrue(all(b"X-Seen: yes" in m for m in self.box(mx, 61)))

    def test_large_content_is_shown_and_replaced(self):
        large = CONTENT + b"0123456789abcdef" * 4 + b"\r\n"
        large += (b"0123456789" * 7 + b"\r\n") * 20_000
        seen = []
        pieces = [milter.body(b"new" * 20_000 + b"\r\n")] * 30
        with Milter(edits(*pieces, milter.add("X-New", "v"))) as f, self.instance(f) as mx:
            self.assertIsNone(self.refused(mx, large))
            seen = b"".join(data for code, data, _ in f.events if code == "B")
            self.assertEqual(seen, large[large.index(b"\r\n\r\n") + 4:])
            self.assertTrue(self.box(mx)[0].endswith(b"X-New: v\n\n" + (b"new" * 20_000 + b"\n") * 30))
            f.script(edits(milter.insert(1, "X-New", "v")))
            self.assertIsNone(self.refused(mx, large))
            kept = next(m for m in self.box(mx, 2) if m.endswith(b"6789\n"))
            self.assertIn(b"X-New: v\nFrom: a@sender.example\n", kept)
            self.assertTrue(kept.endswith(large[large.index(b"\r\n\r\n"):].replace(b"\r\n", b"\n")))

    def test_a_filter_that_is_lost_while_it_replaces_the_body_lets_nothing_pass(self):
        # Postfix since 20260821; what it had received of the new body came before the old one's end until then.
        for action, wanted in {"accept": "451 4.7.1", "tempfail": "451 4.7.1", "reject": "550 5.5.0"}.items():
            with self.subTest(action), Milter({"E": [milter.add("X-New", "v"), milter.body(b"new\r\n"), milter.CUT]}) \
                    as f, self.instance(f, milter_default_action=action) as mx:
                self.assertEqual((self.refused(mx) or "")[:9], wanted)
                f.script({"E": [milter.add("X-New", "v"), milter.CUT]})
                reply = self.refused(mx)
                self.assertEqual(reply and reply[:9], None if action == "accept" else wanted)

    def test_what_a_filter_let_pass_early_counts_for_one_message_whatever_became_of_it(self):
        # Postfix since 20260803: after a refusal at the end of data the filter did not see the next message.
        def at_mail(_, data):
            return milter.ACCEPT if data.startswith(b"<first@") else milter.CONTINUE

        with Milter({"M": at_mail, "R": milter.REJECT}) as f, self.instance(
            f, smtpd_end_of_data_restrictions="check_sender_access inline:{ { first@sender.example = REJECT } }"
        ) as mx, Client(mx.port) as client:
            with self.assertRaises(Refused):
                client.send("first@sender.example", ["ada@virtual.test.example"], CONTENT)
            for command in ("RCPT TO:<ada@virtual.test.example>", "DATA", "BDAT 0 LAST"):
                client.expect(command, "503 5.5.1")
            with self.assertRaises(Refused) as refused:
                client.send("second@sender.example", ["ada@virtual.test.example"], CONTENT)
            self.assertEqual(refused.exception.reply[:9], "550 5.7.1")
            self.assertEqual(f.codes().count("M"), 2)

    def test_a_body_beyond_the_size_limit_is_refused(self):
        with Milter(edits(*[milter.body(b"x" * 60_000 + b"\r\n")] * 3)) as f, \
                self.instance(f, message_size_limit="100000") as mx:
            self.assertEqual(self.refused(mx)[:9], "552 5.3.4")

    def test_quarantine_holds_with_its_reason(self):
        with Milter(edits(milter.quarantine("looks odd"))) as f, self.instance(f) as mx:
            self.assertIsNone(self.refused(mx))
            eventually(lambda: [m["queue_name"] for m in mx.queue()] == ["hold"], "on hold")
            mx.wait_log(r"milter-hold: END-OF-MESSAGE from unknown\[127.0.0.1\]: looks odd; from=<a@sender.example>")

    def test_a_filter_that_may_only_quarantine_holds_beside_others(self):
        meet = threading.Barrier(2, timeout=30)

        def together(*changes):
            def answer(*_):
                meet.wait()
                return [*changes, milter.CONTINUE]
            return {"E": answer}
        with Milter(together(milter.quarantine("a virus")), actions=milter.QUARANTINE) as f, \
                Milter(together(), actions=0) as other, self.instance(f, other) as mx:
            self.assertIsNone(self.refused(mx))
            eventually(lambda: [m["queue_name"] for m in mx.queue()] == ["hold"], "on hold")
            mx.wait_log(r"milter-hold: END-OF-MESSAGE from unknown\[127.0.0.1\]: a virus; from=<a@sender.example>")
            self.assertEqual(mx.virtual_box("ada").messages(), [])

    def test_what_becomes_of_a_recipient_that_a_filter_adds_is_told(self):
        changes = edits(milter.add_rcpt("<nobody@virtual.test.example>"))
        with Milter(changes) as f, self.instance(f) as mx:
            send(mx.port, "ada@virtual.test.example", ["ada@virtual.test.example"], CONTENT)
            mx.virtual_box("ada").wait(2)
            notice, = (m for m in mx.virtual_box("ada").messages() if b"delivery-status" in m)
            self.assertIn(b"nobody@virtual.test.example", notice)

    def test_a_filter_that_discards_opens_no_relay(self):
        discards = {"R": lambda _, data: DISCARD if b"ada@" in data else milter.CONTINUE}
        with Milter(discards) as f, Peer() as hop, self.instance(
                f, mynetworks="192.0.2.0/24", smtpd_proxy_filter=f"127.0.0.1:{hop.port}") as mx, \
                Client(mx.port) as client:
            client.expect("MAIL FROM:<a@sender.example>", "250")
            client.expect("RCPT TO:<ada@virtual.test.example>", "250")
            client.expect("RCPT TO:<victim@elsewhere.example>", "454")
            client.expect("RCPT TO:<nobody@virtual.test.example>", "550")

    def test_discard_by_header_checks_ends_the_run_of_filters(self):
        with Milter(edits(milter.add("X-Disc", "v"))) as f, Milter({"E": REJECT}) as behind, \
                self.instance(f, behind, milter_header_checks="regexp:{ {/^X-Disc:/ DISCARD away} }") as mx:
            self.assertIsNone(self.refused(mx))
            mx.wait_log("milter-header-discard: header X-Disc: v from .*: away")
            self.assertNotIn("E", behind.codes())
            self.assertNotIn("milter-discard", mx.log())
            f.script(edits(milter.add("X-Pre", "v")))
            behind.script()
            mx.set(milter_header_checks="regexp:{ {/^X-Pre:/ PREPEND X-A: b} }")
            mx.reload_whole()
            self.assertIsNone(self.refused(mx))
            message, = self.box(mx)
            self.assertNotIn(b"X-A", message)
            mx.wait_log("warning: milter_header_checks: PREPEND does nothing here")

    def test_a_filter_on_a_unix_socket(self):
        for scheme in ("unix", "local"):
            path = os.path.join(self.folder(), "filter")
            os.chmod(os.path.dirname(path), 0o755)
            with self.subTest(scheme), Milter(edits(milter.add("X-Seen", "yes")), path=path) as f, \
                    self.instance(f"{scheme}:{path}") as mx:
                self.assertIsNone(self.refused(mx))
                self.assertIn(b"X-Seen: yes", self.box(mx)[0])
                # Whoever waited for the port has a session, too.
                self.assertEqual(re.sub("L+", "L", re.sub("[CQ]", "", f.codes())), "HMRTLNBE")

    def test_macros_of_the_login_of_tls_and_of_the_clients_sessions(self):
        def decide(peer, line):
            words = line.split("\t")
            if words[0] == "AUTH":
                peer.sendall(f"OK\t{words[1]}\tuser=anna\n".encode())
        certificate = Authority(self.folder()).issue("mx.test.example")
        dovecot = FakeDovecot(decide)
        self.addCleanup(dovecot.close)
        with Milter() as f, self.instance(
                f, smtpd_tls_security_level="may", smtpd_tls_cert_file=certificate.pem,
                smtpd_tls_key_file=certificate.key, smtpd_sasl_auth_enable="yes", smtpd_sasl_type="dovecot",
                smtpd_sasl_path=f"inet:127.0.0.1:{dovecot.port}", smtpd_sasl_security_options="noanonymous",
                smtpd_client_event_limit_exceptions="", milter_connect_macros="{client_connections}",
                milter_mail_macros="{auth_type} {auth_authen} {tls_version} {cipher} {cipher_bits}") as mx:
            self.refused(mx)  # whoever waited for the port has come before this session
            eventually(lambda: not f.open, "no session is left")
            f.script()
            with Client(mx.port) as first, TlsClient(mx.port) as client:
                first.command("NOOP")
                client.starttls()
                client.expect("AUTH PLAIN AGFubmEAc2VjcmV0", "235")
                client.expect("MAIL FROM:<a@sender.example>", "250")
                cipher, version, bits = client.tls.cipher()
            told = [m for code, _, m in f.events if code == "M"]
            self.assertEqual(told, [{"{auth_type}": "PLAIN", "{auth_authen}": "anna", "{tls_version}": version,
                                     "{cipher}": cipher, "{cipher_bits}": str(bits)}])
            self.assertEqual([m["{client_connections}"] for code, _, m in f.events if code == "C"], ["1", "2"])

    def test_milter_header_checks_judge_what_filters_write(self):
        with Milter(edits(milter.add("X-Bad", "no"))) as f, self.instance(
                f, milter_header_checks="regexp:{ {/^X-Bad:/ REJECT not that}, {/^X-Drop:/ IGNORE}, "
                "{/^X-Old: (.*)/ REPLACE X-New: $$1} }") as mx:
            self.assertEqual(self.refused(mx), "550 5.7.1 not that")
            mx.wait_log("milter-header-reject: header X-Bad: no")
            f.script(edits(milter.add("X-Drop", "a"), milter.add("X-Old", "b")))
            self.assertIsNone(self.refused(mx))
            message = self.box(mx)[0]
            self.assertIn(b"\nX-New: b\n", message)
            self.assertNotIn(b"X-Drop", message)

    def test_filters_by_client_and_settings_in_braces(self):
        with Milter() as usual, Milter({"M": TEMPFAIL}) as special:
            maps = inline({"127.0.0.1": "{ inet:127.0.0.1:%d, default_action=accept }" % special.port})
            with self.instance(usual, smtpd_milter_maps=maps) as mx:
                self.assertEqual(self.refused(mx)[:9], "451 4.7.1")
                special.close()
                self.assertIsNone(self.refused(mx))
                mx.set(smtpd_milter_maps=inline({"127.0.0.1": "DISABLE"}))
                mx.reload_whole()
                self.assertIsNone(self.refused(mx))
                self.assertEqual(usual.events, [])
                mx.set(smtpd_milter_maps=inline({"127.0.0.1": "rubbish"}))
                mx.reload()
                eventually(lambda: (self.refused(mx) or "").startswith("451 4.7.1"), "refused by the next smtpd")

    def test_settings_of_the_protocol_and_of_macros(self):
        names = dict.fromkeys(
            ["milter_connect_macros", "milter_helo_macros", "milter_mail_macros", "milter_rcpt_macros",
             "milter_data_macros", "milter_end_of_header_macros", "milter_end_of_data_macros",
             "milter_unknown_command_macros"], "{client_addr} {mine}")
        with Milter(version=4, actions=0x3F) as f, self.instance(
                f, milter_protocol="4 no_header_reply", milter_macro_daemon_name="ORIGINATING",
                milter_macro_defaults="{mine}=theirs, { other = x }", **names) as mx:
            with Client(mx.port) as client:
                client.command("RUBBISH")
                client.send("a@sender.example", ["ada@virtual.test.example"], CONTENT)
            self.assertEqual(f.offered, (4, 0x3F, 0x3FF))
            wanted = {"{client_addr}": "127.0.0.1", "{mine}": "theirs"}
            told = {code: m for code, _, m in f.events if code not in "LBAQ"}
            self.assertEqual(told, dict.fromkeys("CHUMRTNE", wanted))

    def test_no_milters_and_a_setting_that_cannot_be_read(self):
        with Milter({"M": REJECT}) as f, self.instance(f, receive_override_options="no_milters") as mx:
            self.assertIsNone(self.refused(mx))
            mx.set(receive_override_options="", smtpd_milters="inet:nonsense")
            checked = mx.tool("penstock", "check")
            self.assertNotEqual(checked.returncode, 0)
            self.assertIn("smtpd_milters: inet:nonsense: no such port", checked.stdout + checked.stderr)


class LocalMail(Suite):
    """non_smtpd_milters."""

    def instance(self, f):
        return Instance({**SETTINGS, "non_smtpd_milters": f"inet:127.0.0.1:{f.port}",
                         "virtual_mailbox_maps": inline({"ada@virtual.test.example": "ada/",
                                                         "bob@virtual.test.example": "bob/"})})

    def submit(self, mx):
        done = subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, "-f", "bob@virtual.test.example",
                               "ada@virtual.test.example"], input=b"Subject: local\n\nhello\n", timeout=60)
        self.assertEqual(done.returncode, 0)

    def test_submitted_mail_is_filtered_once(self):
        with Milter(edits(milter.insert(1, "X-Signed", "yes"), milter.add_rcpt("<bob@virtual.test.example>"))) as f, \
                self.instance(f) as mx:
            self.submit(mx)
            mx.virtual_box("ada").wait(1)
            mx.virtual_box("bob").wait(1)
            self.assertRegex(mx.virtual_box("ada").messages()[0], rb"(?s)Received: .*\nX-Signed: yes\nSubject: local")
            codes = f.codes()
            self.assertEqual(re.sub("L+", "L", codes), "CHMRTLNBEQ")
            self.assertEqual(f.events[0][1], b"localhost\x004\0\x00127.0.0.1\0")

    def test_filters_are_found_by_the_name_servers_that_settings_name(self):
        sign = edits(milter.insert(1, "X-Signed", "yes"))
        with Milter(sign) as f, Dns({("scan.invalid", "A"): ["127.0.0.1"]}) as names:
            names.trouble["scan.invalid"] = TRUNCATED  # asked again by TCP, which programs must be allowed
            with Instance({**SETTINGS, "non_smtpd_milters": f"inet:scan.invalid:{f.port}",
                           "smtpd_milters": f"inet:scan.invalid:{f.port}", "internal_mail_filter_classes": "bounce",
                           "smtpd_reject_unlisted_recipient": "no", "dns_resolver_port": str(names.port),
                           "virtual_mailbox_maps": inline({"ada@virtual.test.example": "ada/"})}) as mx:
                self.submit(mx)  # pickup, smtpd, bounce
                mx.virtual_box("ada").wait(1)
                send(mx.port, "ada@virtual.test.example", ["ada@virtual.test.example", "no@virtual.test.example"],
                     mail("will return"))
                mx.virtual_box("ada").wait(3)
                for message in mx.virtual_box("ada").messages():
                    self.assertRegex(message, rb"(?s)Received: .*\nX-Signed: yes\n")

    def test_refused_mail_goes_back_and_mail_that_is_put_off_waits(self):
        with Milter({"E": reply("550 5.7.9 a worm")}) as f, self.instance(f) as mx:
            self.submit(mx)
            mx.virtual_box("bob").wait(1)
            self.assertIn(b"5.7.9", mx.virtual_box("bob").messages()[0])
            mx.wait_log(r"milter-reject: END-OF-MESSAGE from localhost\[127.0.0.1\]: 5.7.9 a worm;")
            f.script({"R": REJECT})
            self.submit(mx)
            mx.wait_log("a filter must not refuse recipients of mail that did not come by SMTP")
            f.script({"E": DISCARD})
            mx.flush()
            mx.tool("penstock", "reload")
            mx.wait_log("milter-discard: END-OF-MESSAGE", 60)
            self.assertEqual(mx.virtual_box("ada").messages(), [])


class Notices(Suite):
    """internal_mail_filter_classes."""

    def instance(self, f, classes="bounce"):
        return Instance({**SETTINGS, "non_smtpd_milters": f"inet:127.0.0.1:{f.port}",
                         "internal_mail_filter_classes": classes, "smtpd_reject_unlisted_recipient": "no",
                         "virtual_mailbox_maps": inline({"ada@virtual.test.example": "ada/"})})

    def bounce(self, mx):
        send(mx.port, "ada@virtual.test.example", ["nobody@virtual.test.example"], mail("will return"))

    def test_a_filter_changes_what_senders_get(self):
        with Milter(edits(milter.insert(1, "X-Signed", "yes"))) as f, self.instance(f) as mx:
            self.bounce(mx)
            mx.virtual_box("ada").wait(1)
            self.assertRegex(mx.virtual_box("ada").messages()[0], rb"(?s)Received: .*\nX-Signed: yes\n.*Undelivered")
            self.assertEqual(re.sub("L+", "L", f.codes()), "CHMRTLNBEQ")
            self.assertEqual([data for code, data, _ in f.events if code == "M"], [b"<>\0"])
            mx.wait_empty_queue()

    def test_a_class_that_is_not_named_is_not_shown_to_filters(self):
        with Milter(edits(milter.insert(1, "X-Signed", "yes"))) as f, self.instance(f, "notify") as mx:
            self.bounce(mx)
            mx.virtual_box("ada").wait(1)
            self.assertEqual(f.events, [])

    def test_a_refused_notice_is_held_and_a_discarded_one_is_done_with(self):
        with Milter({"E": reply("550 5.7.9 a worm")}) as f, self.instance(f) as mx:
            self.bounce(mx)
            mx.wait_log(r"bounce\[\d+\]: \w+: milter-reject: END-OF-MESSAGE from localhost\[127.0.0.1\]: 5.7.9 a worm;")
            eventually(lambda: [m["queue_name"] for m in mx.queue()] == ["hold"], "the notice is held")
            mx.tool("pensuper", "-d", "ALL", check=True)
            f.script({"E": DISCARD})
            self.bounce(mx)
            mx.wait_log("milter-discard: END-OF-MESSAGE")
            eventually(lambda: mx.queue() == [], "the message and its notice are gone")
            self.assertEqual(mx.virtual_box("ada").messages(), [])

    def test_a_notice_that_is_put_off_is_made_again(self):
        with Milter({"E": reply("451 4.7.1 later")}) as f, self.instance(f) as mx:
            self.bounce(mx)
            mx.wait_log("cannot queue the sender non-delivery notification: .*4.7.1 later")
            f.script({})
            mx.flush()
            mx.virtual_box("ada").wait(1)
            eventually(lambda: mx.queue() == [], "nothing is left")


if __name__ == "__main__":
    unittest.main()
