"""VERP: a sender address for each recipient, by XVERP and sendmail -XV."""
import json
import os
import subprocess
import unittest

import peers
from harness import *

OWNER = "owner-list@lists.example"
TO = ("ada@far.example", "bo@far.example")


def senders(messages):
    return {r: m.sender for m in messages for r in m.recipients}


class Verp(Suite):
    def instance(self, peer, settings=None, **more):
        return Instance({"relayhost": f"[127.0.0.1]:{peer.port}" if peer else "",
                         "smtpd_authorized_verp_clients": "127.0.0.1",
                         "virtual_mailbox_maps": inline({"vera@virtual.test.example": "vera/"}),
                         **(settings or {})}, **more)


class Senders(Verp):
    def test_each_recipient_gets_the_mail_from_an_address_of_his_own(self):
        with Peer() as peer, self.instance(peer) as mx:
            for parameter, first, second in (("XVERP", "+", "="), ("XVERP=-=", "-", "="), ("xverp=+=", "+", "=")):
                with Client(mx.port) as client:
                    self.assertTrue(client.has("XVERP"))
                    client.send(OWNER, TO, mail(), mail=parameter)
                found = peer.wait_messages(2)
                # One to a transaction, each complete.
                self.assertEqual(sorted(len(m.recipients) for m in found), [1, 1])
                self.assertEqual(senders(found), {r: "owner-list" + first + r.replace("@", second) + "@lists.example"
                                                  for r in TO})
                mx.wait_empty_queue()
                peer.messages.clear()
            self.assertIn(f"from=<{OWNER}>", mx.log())
            self.assertIn("sender=<owner-list+ada=far.example@lists.example>", mx.log())

    def test_default_verp_delimiters_and_mailboxes_of_this_host(self):
        with self.instance(None, {"default_verp_delimiters": "-+", "virtual_alias_maps":
                                  inline({"alias@virtual.test.example": "vera@virtual.test.example"})}) as mx:
            with Client(mx.port) as client:
                client.send(OWNER, ["alias@virtual.test.example"], mail(), mail="XVERP")
            box = mx.virtual_box("vera")
            box.wait(1)
            # The recipient that the sender knows.
            self.assertIn(b"Return-Path: <owner-list-alias+virtual.test.example@lists.example>", box.messages()[0])

    def test_who_may_not_and_what_cannot_be(self):
        with self.instance(None, {"verp_delimiter_filter": "-="}) as mx:
            with Client(mx.port) as client:
                for command in ("MAIL FROM:<a@b.example> XVERP=++", "MAIL FROM:<a@b.example> XVERP=-"):
                    self.assertIn("needs two characters from -=", client.expect(command, "501"))
                client.expect("MAIL FROM:<a@b.example> XVERP=", "501")
                client.expect("MAIL FROM:<a@b.example> XVERP XVERP=-=", "250")  # the last one counts, as in Postfix
                client.expect("RSET", "250")
                client.expect("MAIL FROM:<> XVERP=-=", "503")
                client.expect("MAIL FROM:<a@b.example> XVERP=-=", "250")
        for settings in ({"smtpd_authorized_verp_clients": ""}, {"smtpd_discard_ehlo_keywords": "verp"}):
            with self.instance(None, settings) as mx, Client(mx.port) as client:
                self.assertFalse(client.has("XVERP"))
                client.expect("MAIL FROM:<a@b.example> XVERP", "555")
        with self.instance(None) as mx, Client(mx.port, ehlo=False) as client:
            client.expect("HELO client.example", "250")
            client.expect("MAIL FROM:<a@b.example> XVERP", "555")

    def test_sendmail(self):
        with Peer() as peer, self.instance(peer) as mx:
            for number, (option, first) in enumerate((("-XV", "+"), ("-XV-=", "-")), 1):
                subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, option, "-f", OWNER, TO[0]],
                               input=b"Subject: x\n\nx\n", check=True, timeout=60)
                self.assertEqual(peer.wait_messages(number)[-1].sender,
                                 f"owner-list{first}ada=far.example@lists.example")

    def test_sendmail_bs(self):
        with Peer() as peer, self.instance(peer, {"default_verp_delimiters": "-+"}) as mx:
            said = b"EHLO x\r\nMAIL FROM:<%s> XVERP\r\nRCPT TO:<%s>\r\nDATA\r\nSubject: x\r\n\r\nx\r\n.\r\nQUIT\r\n"
            done = subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, "-bs"],
                                  input=said % (OWNER.encode(), TO[0].encode()), capture_output=True, timeout=60)
            self.assertIn(b"250-XVERP\r\n", done.stdout)
            self.assertEqual(peer.wait_messages(1)[0].sender, "owner-list-ada+far.example@lists.example", done.stdout)

    def test_it_is_part_of_the_message_wherever_that_lies(self):
        with Peer() as peer, self.instance(peer) as mx:
            peer.replies["RCPT"] = ["451 4.2.0 later"] * 2
            with Client(mx.port) as client:
                client.send(OWNER, TO, mail(), mail="XVERP=+=")
            mx.wait_log(r"to=<bo@far.example>.*status=deferred")
            mx.wait_log(r"to=<ada@far.example>.*status=deferred")
            (message,) = mx.queue()
            self.assertEqual(message["sender"], OWNER)
            queue_id = message["queue_id"]
            self.assertIn("verp_delimiters: +=\n", mx.tool("pencat", queue_id, check=True).stdout)
            self.assertEqual(json.loads(mx.tool("pencat", "-j", queue_id, check=True).stdout)["verp"], "+=")
            mx.kill("qmgr")
            eventually(lambda: mx.queue(), "it is there again")
            mx.stop()
            mx.start()
            mx.flush()
            self.assertEqual(senders(peer.wait_messages(2)),
                             {r: "owner-list+" + r.replace("@", "=") + "@lists.example" for r in TO})


class Notices(Verp):
    def bounced(self, settings, count):
        with Peer() as peer, self.instance(peer, settings) as mx:
            peer.replies["RCPT"] = lambda session, line: "550 5.1.1 gone" if "@far" in line else None
            with Client(mx.port) as client:
                client.send(OWNER, TO, mail(), mail="XVERP=+=")
            found = peer.wait_messages(count)
            mx.wait_empty_queue()
            self.assertEqual([m.sender for m in peer.messages], [""] * count)
            return {m.recipients[0]: [r for r in TO if f"Final-Recipient: rfc822; {r}".encode() in m.content]
                    for m in found}

    def test_each_recipient_has_a_notice_to_his_address(self):
        self.assertEqual(self.bounced({}, 2), {f"owner-list+{r.replace('@', '=')}@lists.example": [r] for r in TO})

    def test_disable_verp_bounces_makes_one_to_the_sender_as_it_came(self):
        self.assertEqual(self.bounced({"disable_verp_bounces": "yes"}, 1), {OWNER: list(TO)})

    def test_a_second_notice_is_not_sent_after_a_crash(self):
        with Peer() as peer, self.instance(peer) as mx:
            peer.replies["RCPT"] = lambda session, line: "550 5.1.1 gone" if "@far" in line else None
            with Client(mx.port) as client:
                client.send(OWNER, TO, mail(), mail="XVERP=+=")
            peer.wait_messages(1)
            mx.kill("qmgr")
            mx.wait_empty_queue()
            counts = [m.recipients[0] for m in peer.messages]
            self.assertEqual(len(set(counts)), 2)


@unittest.skipIf(peers.unavailable(), peers.unavailable())
class BesidePostfix(Verp):
    def test_what_is_said_and_what_arrives_is_the_same(self):
        settings = {"smtpd_authorized_verp_clients": "127.0.0.1", "disable_vrfy_command": "yes"}
        said, arrived = [], []
        with Peer() as ours, Peer() as theirs:
            for peer in (ours, theirs):
                peer.replies["RCPT"] = lambda session, line: "550 5.1.1 gone" if "gone@" in line else None
            port = free_port()
            with self.instance(ours, settings) as mx, peers.Postfix(
                    port, theirs.port, "\n".join(f"{k} = {v}" for k, v in settings.items())):
                for host, peer in ((mx.port, ours), (port, theirs)):
                    with Client(host) as client:
                        replies = [client.has("XVERP")]
                        for parameter in ("XVERP=ab", "XVERP=+", "XVERP=+=", "XVERP"):
                            replies.append(client.command(f"MAIL FROM:<a@b.example> {parameter}"))
                            client.command("RSET")
                        replies.append(client.command("MAIL FROM:<> XVERP"))
                        client.command("RSET")
                        said.append(replies)
                        client.send(OWNER, [*TO, "gone@far.example", "x=y@far.example"], mail(), mail="XVERP")
                    found = peer.wait_messages(4)
                    arrived.append(sorted((m.sender, *m.recipients) for m in found))
        self.assertEqual(said[0], said[1])
        self.assertEqual(arrived[0], arrived[1])


if __name__ == "__main__":
    unittest.main()
