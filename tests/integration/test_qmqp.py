"""Mail by QMQP: the replies of Debian's Postfix to the same bytes, and what becomes of the mail."""
import os
import re
import select
import signal
import socket

import event_stream
import own_network
import peers
import test_dkim
from harness import *
from milter import DISCARD, Milter, add_rcpt, insert, reply

CONTENT = b"Subject: hello\nFrom: ada@sender.example\nTo: joe, eve@far.example\n\nSome text.\n.\n"


def netstring(text):
    return b"%d:%s," % (len(text), text)


def request(content=CONTENT, sender=b"ada@sender.example", recipients=(b"joe@rcpt.example",)):
    return netstring(netstring(content) + netstring(sender) + b"".join(map(netstring, recipients)))


def setUpModule():
    own_network.enter()


class Asker:
    """One connection, which has sent these bytes."""

    def __init__(self, port, data, source="127.0.0.1", host="127.0.0.1"):
        self.sock = socket.create_connection((host, port), timeout=60, source_address=(source, 0))
        self.sock.sendall(data)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.sock.close()

    def silent(self):
        return not select.select([self.sock], [], [], 0)[0]

    def reply(self):
        """All that the server says before it ends the connection."""
        said = b""
        try:
            while part := self.sock.recv(65536):
                said += part
        except ConnectionResetError:  # Postfix's way of ending what has not been read
            pass
        return said


def ask(port, data, end=False, **more):
    with Asker(port, data, **more) as asker:
        if end:
            asker.sock.shutdown(socket.SHUT_WR)
        return asker.reply()


def plain(said):
    """A reply without queue id and host names."""
    said = re.sub(rb"^\d+:(KOk: queued as )\w+,$", rb"\1ID", said)
    return re.sub(rb"^\d+:(DError: )[\w.]+\[", rb"\1NAME[", said)


WHOLE = request()
SETTINGS = {"qmqpd_authorized_clients": "!127.0.0.3, 127.0.0.0/8", "qmqpd_error_delay": "0s",
            "message_size_limit": "100000",
            "header_checks": "pcre:{ { /^Subject: worm/ REJECT a worm } { /^Subject: drop/ DISCARD } }"}
# name -> bytes, whether the client ends its output, its address
FRAMES = {
    "a good message": (WHOLE,),
    "many recipients": (request(recipients=[b"r%d@rcpt.example" % i for i in range(200)]),),
    "the null sender": (request(sender=b""),),
    "a client that may not": (WHOLE, False, "127.0.0.3"),
    "nothing": (b"", True),
    "cut in the first length": (WHOLE[:2], True),
    "cut in the content": (WHOLE[:40], True),
    "cut in the sender": (WHOLE[:110], True),
    "cut in a recipient": (WHOLE[:-6], True),
    "without the last comma": (WHOLE[:-1], True),
    "garbage behind": (WHOLE + b"garbage",),
    "garbage in place of the last comma": (WHOLE[:-1] + b"x",),
    "too large": (request(b"Subject: x\n\n" + b"x" * 120000),),
    "no recipients": (request(recipients=()),),
    "no number": (b"abc:",),
    "a number and a letter": (b"12x:",),
    "a negative number": (b"-1:",),
    "another protocol": (b"EHLO there\r\n",),
    "a number beyond all": (b"99999999999999999999:",),
    "a content length beyond all": (b"100:99999999999999999999:",),
    "no digits": (b"100::,:,5:x@y.z,,",),
    "leading zeros": (b"0100:03:x\n\n,:,000017:joe@rcpt.example,,", True),
    "the length of the whole is too small": (b"5" + WHOLE[WHOLE.index(b":"):],),
    "the length of the whole is too large": (b"5000000000" + WHOLE[WHOLE.index(b":"):],),
    "content without its comma": (b"100:3:abcd",),
    "a long sender": (request(sender=b"a" * 3000 + b"@sender.example"),),
    "a sender of just that length": (request(sender=b"a" * 2040 + b"@far.exa"),),
    "a long recipient": (request(recipients=(b"a" * 3000 + b"@rcpt.example",)),),
    "8 bits": (request(b"Subject: x\n\ngr\xfc\xdfe\n"),),
    "an address in UTF-8": (request(recipients=("jo\u00eb@rcpt.example".encode(),)),),
    "refused by a check": (request(b"Subject: worm\n\nx\n"),),
    "discarded by a check": (request(b"Subject: drop\n\nx\n"),),
    "too many hops": (request(b"Received: x\n" * 60 + CONTENT),),
    "nothing as content": (request(b""),),
    "an empty recipient": (request(recipients=(b"",)),),
}


def frame_replies(port):
    found = {}
    for name, (data, *more) in FRAMES.items():
        end, source = (more + [False, "127.0.0.1"][len(more):])
        found[name] = plain(ask(port, data, end, source=source))
    return found


def instance(settings=None, port=None, **more):
    port = port or free_port()
    boxes = inline({f"{box}@virtual.test.example": f"{box}/" for box in ("a", "b", "copy")})
    mx = Instance({**SETTINGS, "virtual_mailbox_maps": boxes, **(settings or {})},
                  services={str(port): "inet n - n - - qmqpd"}, **more)
    mx.qmqp = port
    return mx


def facts(message):
    """What Postfix and we must hand on alike: the envelope, the header but for what is of the moment, the body."""
    header, body = split(message.content)
    kept = [f for f in fields(header) if f.split(b":")[0].lower() not in (b"received", b"date", b"message-id")]
    return message.sender, sorted(message.recipients), sorted(kept), body


@unittest.skipIf(peers.unavailable(), peers.unavailable() or "")
class BesidePostfix(Suite):
    CONTENTS = (CONTENT, b"Subject: incomplete\n\nx\n", b"Subject: 8 bits\n\ngr\xfc\xdfe\n", b"",
                b"Subject: stray\rcr\nBcc: eve@far.example\n\nhe\rllo\nno end", b"no header\n",
                b"Subject: large\n\n" + b"a line of text\n" * 6000)

    def test_replies_and_mail_are_those_of_postfix(self):
        port, qmqp = free_port(), free_port()
        services = f"127.0.0.1:{port} inet n - n - - smtpd\n127.0.0.1:{qmqp} inet n - n - - qmqpd"
        settings = "\n".join(f"{name} = {value.replace('pcre:{ {', 'pcre:{{').replace('} }', '}}')}"
                             for name, value in SETTINGS.items())
        with Peer() as sink:
            with peers.Postfix(port, sink.port, settings, services) as postfix:
                theirs = frame_replies(qmqp)
                postfix.run("/usr/sbin/postsuper", "-d", "ALL")
                del sink.messages[:]
                self.assertEqual([plain(ask(qmqp, request(c, b"ada", (b"joe", b"eve@rcpt.example"))))
                                  for c in self.CONTENTS], [b"KOk: queued as ID"] * len(self.CONTENTS))
                wanted = self.taken(sink)
        with Peer() as sink, instance({"relayhost": f"[127.0.0.1]:{sink.port}", "myorigin": "peer.example",
                                       "local_recipient_maps": ""}) as mx:
            ours = frame_replies(mx.qmqp)
            self.assertEqual(ours, theirs)
            mx.tool("pensuper", "-d", "ALL")
            del sink.messages[:]
            for content in self.CONTENTS:
                ask(mx.qmqp, request(content, b"ada", (b"joe", b"eve@rcpt.example")))
            self.assertEqual(self.taken(sink), wanted)

    def taken(self, sink):
        def both():
            mine = [facts(m) for m in list(sink.messages) if "eve@rcpt.example" in m.recipients]
            return mine if len(mine) == len(self.CONTENTS) else None
        return sorted(eventually(both, lambda: [facts(m) for m in sink.messages]), key=repr)


class Qmqp(Suite):
    def test_mail_is_delivered_and_what_holds_for_incoming_mail_acts(self):
        with instance({"virtual_alias_maps": inline({"team@virtual.test.example": "a@virtual.test.example, "
                                                     "b@virtual.test.example"}),
                       "always_bcc": "copy@virtual.test.example", "parent_domain_matches_subdomains": "",
                       "qmqpd_client_port_logging": "yes"}) as mx:
            said = ask(mx.qmqp, request(b"Subject: one\n\ntext\n", b"ada@sender.example",
                                        (b"team@virtual.test.example",)))
            queue_id = re.fullmatch(rb"\d+:KOk: queued as (\w+),", said)[1].decode()
            for box in ("a", "b", "copy"):
                content, = mx.virtual_box(box).wait(1)
                self.assertRegex(content.decode(), rf"(?s)Received: from localhost \(localhost \[127.0.0.1\]\)\n\tby "
                                 rf"mx.test.example \(Penstock\) with QMQP id {queue_id}\n\tfor "
                                 r"<team@virtual.test.example>; .*\nSubject: one\n")
                self.assertTrue(content.endswith(b"\n\ntext\n"))
            self.assertIn(b"5.7.1 a worm", ask(mx.qmqp, request(b"Subject: worm\n\nx\n")))
            log = mx.wait_log(r"(?s)disconnect.*disconnect") and mx.log()
            who = r"localhost\[127.0.0.1\]:\d+"
            for line in (rf"qmqpd\[\d+\]: connect from {who}", rf"qmqpd\[\d+\]: {queue_id}: client={who}",
                         rf"qmqpd\[\d+\]: {queue_id}: message-id=<", rf"qmqpd\[\d+\]: disconnect from {who}",
                         r"qmqpd\[\d+\]: \w+: reject: header Subject: worm from localhost\[127.0.0.1\]; "
                         r"from=<ada@sender.example> to=<joe@rcpt.example> proto=QMQP: 5.7.1 a worm",
                         rf"qmqpd\[\d+\]: warning: \w+: {who}: Error: 5.7.1 a worm"):
                self.assertRegex(log, line)

    def test_an_open_list_is_told_and_a_broken_one_lets_nobody_in(self):
        for value, code in (("127.0.0.1/32", b"K"), ("localhost", b"K"), ("static:all", b"K"), ("", b"D"),
                            ("fail:unknown", b"Z")):
            with self.subTest(value), instance({"qmqpd_authorized_clients": value}) as mx:
                self.assertRegex(ask(mx.qmqp, WHOLE), rb"^\d+:" + code)
                done = mx.tool("penstock", "check")
                self.assertEqual("anybody can relay" in done.stdout + done.stderr, value == "static:all", done)

    def test_a_name_counts_if_it_is_the_clients_and_a_domain_if_it_may(self):
        names = {("7.2.0.192.in-addr.arpa", "PTR"): ["list.trusted.example"],
                 ("list.trusted.example", "A"): ["192.0.2.7"],
                 ("8.2.0.192.in-addr.arpa", "PTR"): ["false.trusted.example"],
                 ("false.trusted.example", "A"): ["192.0.2.9"]}
        port = free_port()
        with Dns(names) as dns, Instance(
                {**SETTINGS, "qmqpd_authorized_clients": "trusted.example", "dns_resolver_port": str(dns.port)},
                services={f"{own_network.ADDRESS}:{port}": "inet n - n - - qmqpd"}) as mx:
            def by(source):
                return plain(ask(port, WHOLE, source=source, host=own_network.ADDRESS))
            self.assertEqual(by("192.0.2.7"), b"KOk: queued as ID")
            self.assertIn(b"is not authorized", by("192.0.2.8"))
            mx.wait_log(r"connect from list.trusted.example\[192.0.2.7\]")
            mx.wait_log(r"connect from unknown\[192.0.2.8\]")
            mx.set(parent_domain_matches_subdomains="debug_peer_list")
            mx.reload_whole()
            self.assertIn(b"is not authorized", by("192.0.2.7"))

    def test_mail_is_signed_and_has_its_tenant(self):
        keys = test_dkim.Keys(self.folder())
        with Peer() as peer:
            mx = instance({**relay_to(peer), **keys.settings(), "tenant_identity": "header, sender_domain",
                           "tenant_header": "X-Customer", "tenant_header_clients": "127.0.0.2",
                           "tenant_maps": inline({"sender.example": "acme"})}, start=False)
            mx.set(**event_stream.files(mx))
            mx.start()
            with mx:
                content = b"From: ada@sender.example\nX-Customer: other\n\nx\n"
                for source in ("127.0.0.1", "127.0.0.2"):
                    self.assertIn(b"KOk", ask(mx.qmqp, request(content), source=source))
                for message in peer.wait_messages(2):
                    self.assertEqual(keys.verify(message.content), ["pass", "pass"])
                    self.assertNotIn(b"X-Customer", message.content)
                found = event_stream.wait_logged(mx, lambda e: sum(x["type"] == "received" for x in e) == 2, "both")
                self.assertEqual({e["client_address"]: e["tenant"] for e in found if e["type"] == "received"},
                                 {"127.0.0.1": "acme", "127.0.0.2": "other"})

    def test_filters_hear_of_the_client_and_their_word_is_the_reply(self):
        with Milter({"E": [insert(1, "X-Seen", "yes"), add_rcpt("<b@virtual.test.example>"), b"c"]}) as f, \
                instance({"non_smtpd_milters": f"inet:127.0.0.1:{f.port}"}) as mx:
            mine = request(recipients=(b"a@virtual.test.example",))
            self.assertIn(b"KOk", ask(mx.qmqp, mine))
            mx.virtual_box("b").wait(1)
            self.assertIn(b"X-Seen: yes", mx.virtual_box("a").wait(1)[0])
            self.assertRegex(f.events[0][1], rb"(?s)^localhost\x004..127\.0\.0\.1\0$")
            f.script({"E": reply("550 5.7.9 a worm")})
            self.assertEqual(ask(mx.qmqp, mine), netstring(b"DError: 5.7.9 a worm"))
            f.script({"M": reply("451 4.7.9 later")})
            self.assertEqual(ask(mx.qmqp, mine), netstring(b"ZError: 4.7.9 later"))
            f.script({"E": DISCARD})
            self.assertIn(b"KOk", ask(mx.qmqp, mine))
            mx.wait_log("milter-discard: END-OF-MESSAGE from localhost")
            self.assertEqual(len(mx.virtual_box("a").messages()), 1)

    def test_what_was_acknowledged_survives_the_death_of_qmqpd_and_what_was_not_is_nothing(self):
        with instance({"queue_inline_limit": "16k"}) as mx:
            for content in (b"Subject: small\n\n", b"Subject: large\n\n" + b"a line of text\n" * 5000):
                said = ask(mx.qmqp, request(content, recipients=(b"a@virtual.test.example",)))
                mx.kill("qmqpd")
                self.assertIn(b"KOk", said)
            self.assertEqual(len(mx.virtual_box("a").wait(2)), 2)
            with Asker(mx.qmqp, WHOLE[:60]) as half:
                eventually(lambda: re.findall("qmqpd.*client=", mx.log())[2:], mx.log)
                mx.kill("qmqpd")
                self.assertEqual(half.reply(), b"")
            self.assertIn(b"KOk", ask(mx.qmqp, request(recipients=(b"b@virtual.test.example",))))
            mx.virtual_box("b").wait(1)
            mx.wait_empty_queue()
            self.assertEqual(len(mx.virtual_box("a").messages()), 2)

    def test_a_delay_is_of_one_session_alone_and_a_reload_lets_sessions_end(self):
        with instance({"qmqpd_error_delay": "1h"}) as mx:
            with Asker(mx.qmqp, b"nonsense") as bad, Asker(mx.qmqp, WHOLE[:60]) as slow:
                mx.wait_log("netstring format error while receiving QMQP packet header")
                self.assertIn(b"KOk", ask(mx.qmqp, WHOLE, source="127.0.0.4"))
                self.assertTrue(bad.silent() and slow.silent())
                mx.set(qmqpd_error_delay="0s", qmqpd_authorized_clients="127.0.0.1")
                mx.reload()
                # Until the old process no longer accepts, some are served by it.
                eventually(lambda: b"not authorized" in ask(mx.qmqp, WHOLE, source="127.0.0.4"), mx.log)
                self.assertTrue(bad.silent() and slow.silent())
                slow.sock.sendall(WHOLE[60:])
                self.assertIn(b"KOk", slow.reply())
                self.assertTrue(bad.silent())
                mx.stop()
                self.assertEqual(bad.reply(), netstring(b"Dnetstring format error while receiving QMQP packet header"))

    def test_a_silent_client_is_left(self):
        with instance({"qmqpd_timeout": "1s"}) as mx:
            with Asker(mx.qmqp, WHOLE[:60]) as silent, Asker(mx.qmqp, b"") as mute:
                self.assertEqual((silent.reply(), mute.reply()), (b"", b""))
            mx.wait_log("read/write timeout while receiving message content")
            mx.wait_log("read/write timeout while receiving QMQP packet header")

    def test_sessions_are_as_many_as_master_cf_says(self):
        port = free_port()
        with Instance(SETTINGS, services={str(port): "inet n - n - 2 qmqpd"}) as mx:
            with Asker(port, WHOLE[:60]) as one, Asker(port, WHOLE[:60]) as two:
                eventually(lambda: len(re.findall("qmqpd.*client=", mx.log())) == 2, mx.log)
                with Asker(port, WHOLE) as three:
                    two.sock.sendall(WHOLE[60:])
                    self.assertIn(b"KOk", two.reply())
                    self.assertIn(b"KOk", three.reply())
                    self.assertTrue(one.silent())

    def test_events_figures_and_the_state(self):
        mx = instance(start=False)
        mx.set(**event_stream.files(mx))
        mx.start()
        with mx:
            self.assertIn(b"KOk", ask(mx.qmqp, request(recipients=(b"a@virtual.test.example",))))
            self.assertIn(b"a worm", ask(mx.qmqp, request(b"Subject: worm\n\nx\n")))
            found = event_stream.wait_logged(mx, lambda e: {"received", "rejected"} <= {x["type"] for x in e}, "both")
            received, = [e for e in found if e["type"] == "received"]
            rejected, = [e for e in found if e["type"] == "rejected"]
            self.assertEqual((received["proto"], received["client_address"], received["nrcpt"]),
                             ("QMQP", "127.0.0.1", 1))
            self.assertEqual((rejected["stage"], rejected["proto"], rejected["from"], rejected["dsn"],
                              rejected["reply"]),
                             ("END-OF-MESSAGE", "QMQP", "ada@sender.example", "5.7.1", "DError: 5.7.1 a worm"))
            self.assertEqual(received["session"].split("-")[0], rejected["session"].split("-")[0])
            for pid in mx.pids()["qmqpd"]:
                os.kill(pid, signal.SIGUSR1)
            mx.wait_log(r"sessions 0 live, \d+ served; messages 1; refused 1, broken off \d")


if __name__ == "__main__":
    unittest.main()
