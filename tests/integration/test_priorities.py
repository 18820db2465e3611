"""Priorities of mail: MT-PRIORITY, the field, tables; who may say it; where it is shown and passed on. Mail for later:
FUTURERELEASE, what waits, and what sends it."""
import calendar
import json
import os
import re
import subprocess
import time
import unittest

from harness import *


def relay_to(peer, **settings):
    return {"relayhost": f"[127.0.0.1]:{peer.port}", "minimal_backoff_time": "1s",
            "maximal_backoff_time": "2s", **settings}


def listed(mx):
    return [json.loads(line) for line in mx.tool("penqueue", "-j", check=True).stdout.splitlines()]


def say(client, parameters, reply, sender="x@one.example"):
    """MAIL with parameters, and the rest of a message if it is taken. Returns the reply to MAIL."""
    answer = client.expect(f"MAIL FROM:<{sender}> {parameters}", reply)
    if reply.startswith("250"):
        client.expect("RCPT TO:<ada@far.example>", "250")
        client.expect("DATA", "354")
        client.expect(mail().decode() + "\r\n.", "250")
    return answer


class Priorities(Suite):
    def test_a_priority_is_offered_taken_kept_and_passed_on(self):
        with Peer() as peer, Instance(relay_to(peer, message_priority="mt_priority",
                                               message_priority_clients="127.0.0.1")) as mx:
            peer.features.append("MT-PRIORITY")
            with Client(mx.port) as client:
                self.assertIn("MT-PRIORITY", client.expect("EHLO client.example", "250"))
                say(client, "MT-PRIORITY=10", "501 5.5.4")
                say(client, "MT-PRIORITY=4", "250 2.1.0")
            message = peer.wait_messages(1)[0]
            self.assertIn("MT-PRIORITY=4", message.parameters)
            self.assertRegex(message.content, rb"(?s)^Received:[^;]* priority 4;")
            mx.wait_log(r"\(queue active\), priority=4")
            # Without the setting nothing of it is known.
            mx.set(message_priority="")
            mx.reload_whole()
            with Client(mx.port) as client:
                self.assertNotIn("MT-PRIORITY", client.expect("EHLO client.example", "250"))
                say(client, "MT-PRIORITY=4", "555 5.5.4")
                say(client, "", "250")
            self.assertEqual([p for p in peer.wait_messages(2)[1].parameters if "PRIORITY" in p], [])

    def test_who_may_not_say_it_can_only_be_less_urgent(self):
        with Peer() as peer, Instance(relay_to(peer, message_priority="mt_priority, header")) as mx:
            peer.features.append("MT-PRIORITY")
            with Client(mx.port) as client:
                client.expect("EHLO client.example", "250")
                say(client, "MT-PRIORITY=4", "250 2.3.6 0")
                say(client, "MT-PRIORITY=-3", "250 2.1.0")
                client.send("x@one.example", ["ada@far.example"], b"MT-Priority: 9\r\n" + mail())
            messages = peer.wait_messages(3)  # in whatever order: the second one may overtake the first
            said = [[p for p in message.parameters if "PRIORITY" in p] for message in messages]
            self.assertEqual(sorted(said), [[], [], ["MT-PRIORITY=-3"]])
            less, = [message for message in messages if "MT-PRIORITY=-3" in message.parameters]
            self.assertRegex(less.content, rb"(?s)^Received:[^;]* priority -3;")
            self.assertEqual([m for m in messages if b"MT-Priority" in m.content], [])
            mx.wait_log(r"MT-PRIORITY=4 becomes 0: the client is none of message_priority_clients")
            mx.wait_log(r"MT-Priority: 9 becomes 0")

    def test_tables_and_a_field_give_it_and_tools_show_it(self):
        tables = inline({"reset@one.example": "6", "@two.example": "-2", "header:bulk": "-5", "tenant:acme": "3"})
        with Peer() as peer, Instance(relay_to(
                peer, message_priority="header, sender, sender_domain, tenant", message_priority_header="Precedence",
                message_priority_clients="127.0.0.0/8", message_priority_maps=tables, message_priority_ratio="20",
                tenant_identity="sender_domain", tenant_maps=inline({"three.example": "acme"}))) as mx:
            peer.replies["RCPT"] = lambda session, line: "451 4.2.0 later"
            with Client(mx.port) as client:
                client.send("reset@one.example", ["a@far.example"], mail())
                client.send("reset@one.example", ["b@far.example"], b"Precedence: bulk\r\n" + mail())
                client.send("x@two.example", ["c@far.example"], mail())
                client.send("x@three.example", ["d@far.example"], mail())
                client.send("x@four.example", ["e@far.example"], mail())
            eventually(lambda: len(listed(mx)) == 5, "five wait")
            of = {m["recipients"][0]["address"][0]: m for m in listed(mx)}
            self.assertEqual({who: m.get("priority") for who, m in of.items()},
                             {"a": 6, "b": -5, "c": -2, "d": 3, "e": None})
            mx.kill("qmgr")
            eventually(lambda: {m.get("priority") for m in listed(mx)} == {6, -5, -2, 3, None}, "after a kill too")
            self.assertIn("named_attribute: priority=-5\n", mx.tool("pencat", of["b"]["queue_id"], check=True).stdout)
            self.assertEqual(json.loads(mx.tool("pencat", "-j", of["a"]["queue_id"], check=True).stdout)["priority"], 6)

    def test_mail_of_sendmail_has_one_and_a_login_may_say_it(self):
        with Peer() as peer, Instance(relay_to(peer, message_priority="mt_priority, header",
                                               message_priority_logins="yes",
                                               smtpd_authorized_xclient_hosts="127.0.0.1")) as mx:
            peer.features.append("MT-PRIORITY")
            subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, "-f", "x@one.example", "ada@far.example"],
                           input=b"MT-Priority: 2\nSubject: s\n\nb\n", check=True, timeout=60)
            self.assertIn("MT-PRIORITY=2", peer.wait_messages(1)[0].parameters)
            self.assertNotIn(b"MT-Priority", peer.wait_messages(1)[0].content)
            with Client(mx.port) as client:
                client.expect("XCLIENT LOGIN=anna", "220")
                client.expect("EHLO client.example", "250")
                say(client, "MT-PRIORITY=5", "250 2.1.0")
            self.assertIn("MT-PRIORITY=5", peer.wait_messages(2)[1].parameters)

    def test_a_table_that_says_no_priority_puts_the_mail_off(self):
        with Peer() as peer, Instance(relay_to(peer, message_priority="sender",
                                               message_priority_maps="static:high")) as mx:
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<x@one.example>", "250")
                client.expect("RCPT TO:<ada@far.example>", "250")
                client.expect("DATA", "354")
                client.expect("Subject: x\r\n\r\nx\r\n.", "451")


class MailForLater(Suite):
    def instance(self, peer, **settings):
        return Instance(relay_to(peer, future_release_limit="1d", **settings))

    def test_it_is_offered_within_a_limit(self):
        with Peer() as peer, self.instance(peer) as mx:
            with Client(mx.port) as client:
                offer = re.search(r"FUTURERELEASE (\d+) (\S+Z)", client.expect("EHLO client.example", "250"))
                self.assertEqual(offer[1], "86400")
                latest = calendar.timegm(time.strptime(offer[2], "%Y-%m-%dT%H:%M:%SZ"))
                self.assertLess(abs(latest - time.time() - 86400), 60)
                for bad in ("HOLDFOR=0", "HOLDFOR=86401", "HOLDUNTIL=2020-01-01T00:00:00Z", "HOLDFOR=x",
                            "HOLDFOR=5 HOLDUNTIL=" + offer[2]):
                    say(client, bad, "501 5.5.4")
            mx.set(future_release_limit="0")
            mx.reload_whole()
            with Client(mx.port) as again:
                self.assertNotIn("FUTURERELEASE", again.expect("EHLO client.example", "250"))
                say(again, "HOLDFOR=5", "555 5.5.4")

    def test_it_waits_through_a_kill_a_flush_and_a_restart_and_goes_by_its_time(self):
        with Peer() as peer, self.instance(peer) as mx:
            with Client(mx.port) as client:
                client.expect("EHLO client.example", "250")
                begun = time.time()
                say(client, "HOLDFOR=12", "250 2.1.0")
                say(client, "HOLDFOR=80000", "250 2.1.0", sender="y@one.example")
            eventually(lambda: {m["queue_name"] for m in listed(mx)} == {"deferred"}, "both wait")
            soon = next(m for m in listed(mx) if m["sender"] == "x@one.example")
            self.assertLess(abs(soon["release_time"] - begun - 12), 3)
            self.assertIn("not before", mx.tool("penqueue", "-p", check=True).stdout)
            self.assertIn("release_request: for;12", mx.tool("pencat", "-j", soon["queue_id"], check=True).stdout
                          .replace('"release_request":"', "release_request: "))
            told = mx.tool("penstock", "explain", soon["queue_id"], check=True).stdout
            self.assertIn("asked for it to be sent later", told)
            mx.tool("penqueue", "-f", check=True)
            mx.kill("qmgr")
            mx.tool("penqueue", "-f", check=True)
            message = peer.wait_messages(1, seconds=60.0)[0]
            self.assertGreaterEqual(time.time() - begun, 11.9)
            self.assertEqual(message.sender, "x@one.example")
            eventually(lambda: [m["sender"] for m in listed(mx)] == ["y@one.example"], "the other one waits")
            # An order for the one message sends it.
            mx.tool("penqueue", "-i", listed(mx)[0]["queue_id"], check=True)
            self.assertEqual(peer.wait_messages(2)[1].sender, "y@one.example")
            eventually(lambda: listed(mx) == [], "nothing is left")

    def test_a_notice_says_what_was_asked_for(self):
        with Peer() as peer, self.instance(peer) as mx:
            peer.replies["RCPT"] = lambda session, line: "550 5.1.1 nobody" if "ada@" in line else "250 2.1.5 Ok"
            with Client(mx.port) as client:
                client.expect("EHLO client.example", "250")
                say(client, "HOLDFOR=3", "250 2.1.0")
            notice = peer.wait_messages(1, seconds=60.0)[0].content
            self.assertIn(b"Future-Release-Request: for;3\r\n", notice)


if __name__ == "__main__":
    unittest.main()
