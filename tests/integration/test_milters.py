"""Filters (milters): the same filter and the same conversation with Penstock and with Postfix, row by row; then what
Penstock does where it differs on purpose, and what a filter that dies or hangs costs."""
import os
import re
import socket
import subprocess
import threading

import milter
import peers
from harness import *
from milter import ACCEPT, DISCARD, REJECT, SHUTDOWN, SKIPPED, TEMPFAIL, Milter, reply

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

    def run_rows(self, port, filter_, sink, settle):
        """Row -> replies, events and mail of one system."""
        out = {}
        # Whoever waited for the port has left a connection, of which the filter may hear late: a whole session comes
        # after it.
        filter_.script({"M": REJECT})
        talk(port, Row("a session before the first row"))
        eventually(lambda: not filter_.open, "the filter heard the end of all sessions before the first row")
        for row in ROWS:
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
                mail.setdefault((message.sender, message.content), []).extend(message.recipients)
            mail = sorted((s, c, sorted(r)) for (s, c), r in mail.items())
            out[row.name] = (replies, comparable(filter_.events), mail)
        return out

    def test_replies_events_and_mail_are_those_of_postfix(self):
        with Milter() as ours, Milter() as theirs, Peer() as sink, Peer() as their_sink:
            settings = {**SETTINGS, "relayhost": f"[127.0.0.1]:{sink.port}",
                        "smtpd_milters": f"inet:127.0.0.1:{ours.port}",
                        "smtpd_recipient_restrictions": inline_refusal(), "smtpd_error_sleep_time": "0",
                        "smtpd_hard_error_limit": "100"}
            with Instance(settings) as mx:
                got = self.run_rows(mx.port, ours, sink, lambda: not mx.queue())
            port = free_port()
            lines = "\n".join(f"{k} = {v}" for k, v in {
                **settings, "relayhost": f"[127.0.0.1]:{their_sink.port}",
                "smtpd_milters": f"inet:127.0.0.1:{theirs.port}"}.items())
            with peers.Postfix(port, settings=lines) as postfix:
                wanted = self.run_rows(port, theirs, their_sink, lambda: postfix.queued() == 0)
        self.maxDiff = None
        for row in ROWS:
            for what, mine, other in zip(("replies", "events", "mail"), got[row.name], wanted[row.name]):
                if what in row.differs:
                    continue
                with self.subTest(row=row.name, what=what):
                    self.assertEqual(mine, other)


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
                    self.assertEqual(f.codes()[:4], "CHMR")
                    client.quit()
                    eventually(lambda: f.codes().endswith("Q"), "the filter heard of the end")
            self.box(mx, 9)

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
            mx.wait_log(r"\w+: milter-reject: END-OF-MESSAGE from unknown\[127.0.0.1\]: 550 5.7.1 first; "
                        r"from=<a@sender.example> proto=ESMTP helo=<client.example>")

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

    def test_a_body_beyond_the_size_limit_is_refused(self):
        with Milter(edits(*[milter.body(b"x" * 60_000 + b"\r\n")] * 3)) as f, \
                self.instance(f, message_size_limit="100000") as mx:
            self.assertEqual(self.refused(mx)[:9], "552 5.3.4")

    def test_quarantine_holds_with_its_reason(self):
        with Milter(edits(milter.quarantine("looks odd"))) as f, self.instance(f) as mx:
            self.assertIsNone(self.refused(mx))
            eventually(lambda: [m["queue_name"] for m in mx.queue()] == ["hold"], "on hold")
            mx.wait_log(r"milter-hold: END-OF-MESSAGE from unknown\[127.0.0.1\]: looks odd; from=<a@sender.example>")

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
                mx.reload()
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
            self.assertIn("smtpd_milters: inet:nonsense: no port number at the end", checked.stdout + checked.stderr)


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

    def test_refused_mail_goes_back_and_mail_that_is_put_off_waits(self):
        with Milter({"E": reply("550 5.7.9 a worm")}) as f, self.instance(f) as mx:
            self.submit(mx)
            mx.virtual_box("bob").wait(1)
            self.assertIn(b"5.7.9", mx.virtual_box("bob").messages()[0])
            mx.wait_log(r"milter-reject: END-OF-MESSAGE from localhost\[127.0.0.1\]: 550 5.7.9 a worm;")
            f.script({"R": REJECT})
            self.submit(mx)
            mx.wait_log("a filter must not refuse recipients of local mail")
            f.script({"E": DISCARD})
            mx.flush()
            mx.tool("penstock", "reload")
            mx.wait_log("milter-discard: END-OF-MESSAGE", 60)
            self.assertEqual(mx.virtual_box("ada").messages(), [])


if __name__ == "__main__":
    unittest.main()
