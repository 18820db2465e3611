"""Routing by sender, and mail to recipients who have moved."""
import json

from harness import *

BOX = "vera@virtual.test.example"


class BySender(Suite):
    def test_sender_dependent_relayhost_maps_send_each_sender_its_own_way(self):
        with Peer() as one, Peer() as two, Peer() as rest:
            hops = {"ada@sender.example": f"[127.0.0.1]:{one.port}", "@other.example": f"[127.0.0.1]:{two.port}",
                    "no@other.example": "DUNNO"}
            with Instance({"relayhost": f"[127.0.0.1]:{rest.port}", "recipient_delimiter": "+",
                           "sender_dependent_relayhost_maps": inline(hops)}) as mx:
                # One after the other to the same domain, so that a route cached for the domain would show.
                for sender, peer, count in (("ada@sender.example", one, 1), ("bo@other.example", two, 1),
                                            ("no@other.example", rest, 1), ("x@third.example", rest, 2),
                                            ("ada+tag@sender.example", one, 2), ("", rest, 3)):
                    send(mx.port, sender, ["far@rcpt.example"], mail())
                    self.assertEqual(peer.wait_messages(count)[-1].sender, sender)
                mx.wait_empty_queue()
                self.assertEqual([len(p.messages) for p in (one, two, rest)], [2, 1, 3])
                explained = json.loads(
                    mx.tool("pendest", "--json", "explain", "far@rcpt.example", "bo@other.example", check=True).stdout
                )
                self.assertEqual(
                    (explained["nexthop"], explained["by_sender"]),
                    (hops["@other.example"], "sender_dependent_relayhost_maps"),
                )
                self.assertRegex(
                    mx.tool("pendest", "explain", "far@rcpt.example", "ada@sender.example", check=True).stdout,
                    r"(?m)^by sender +sender_dependent_relayhost_maps$",
                )
                self.assertNotIn("by sender", mx.tool("pendest", "explain", "far@rcpt.example", check=True).stdout)
                mx.stop()
                self.assertRegex(
                    mx.tool("pendest", "explain", "far@rcpt.example", "ada@sender.example", check=True).stdout,
                    rf"(?m)^next hop +\[127\.0\.0\.1\]:{one.port}\nby sender ",
                )

    def test_empty_address_relayhost_maps_lookup_key_routes_notices(self):
        with Peer() as notices, Peer() as rest:
            with Instance({"relayhost": f"[127.0.0.1]:{rest.port}", "empty_address_relayhost_maps_lookup_key": "nobody",
                           "sender_dependent_relayhost_maps": inline({"nobody": f"[127.0.0.1]:{notices.port}"})}) as mx:
                send(mx.port, "", ["far@rcpt.example"], mail())
                notices.wait_messages(1)
                send(mx.port, "ada@sender.example", ["far@rcpt.example"], mail())
                rest.wait_messages(1)

    def test_sender_dependent_default_transport_maps_choose_transport_and_next_hop(self):
        with Peer() as one, Peer(lmtp=True) as two, Peer() as rest, Peer() as relay:
            ways = {
                "ada@sender.example": f"slow:[127.0.0.1]:{one.port}",
                "@other.example": f"lmtp:inet:127.0.0.1:{two.port}",
                "<>": "error:5.7.1 no notices here",
            }
            settings = relay_to(relay, "known.example")
            with Instance({**settings, "relayhost": f"[127.0.0.1]:{rest.port}",
                           "sender_dependent_default_transport_maps": inline(ways),
                           "smtpd_reject_unlisted_recipient": "no"},  # which would refuse the recipient at RCPT
                          services={"slow": "unix - - n - - smtp"}) as mx:
                for sender, peer in (("ada@sender.example", one), ("bo@other.example", two), ("x@third.example", rest)):
                    send(mx.port, sender, ["far@rcpt.example"], mail())
                    self.assertEqual(peer.wait_messages(1)[0].sender, sender)
                send(mx.port, "", ["far@rcpt.example"], mail())
                mx.wait_log(r"to=<far@rcpt\.example>, .*dsn=5\.7\.1, status=bounced \(no notices here\)")
                send(mx.port, "ada@sender.example", ["b@known.example"], mail())  # transport_maps come first
                relay.wait_messages(1)

    def test_empty_address_default_transport_maps_lookup_key_routes_notices(self):
        with Peer() as notices, Instance(
            {"empty_address_default_transport_maps_lookup_key": "none@none.example"}, start=False
        ) as mx:
            mx.set(
                sender_dependent_default_transport_maps=inline({"@none.example": f"smtp:[127.0.0.1]:{notices.port}"})
            )
            mx.start()
            send(mx.port, "", ["far@rcpt.example"], mail())
            notices.wait_messages(1)


class Moved(Suite):
    MOVED = {"jo@local.test.example": "jo@new.example", "kay": "Room 7", "@gone.example": "nowhere",
             "alias@virtual.test.example": "nobody looks"}

    def instance(self, **settings):
        mx = Instance({"relocated_maps": inline(self.MOVED), "relay_domains": "gone.example",
                       "virtual_mailbox_maps": inline({BOX: "vera/"}), "mydestination": "local.test.example",
                       "virtual_alias_maps": inline({"alias@virtual.test.example": BOX, "to-jo@virtual.test.example":
                                                     "jo@local.test.example"}), **settings})
        self.addCleanup(mx.close)
        return mx

    def test_relocated_maps_refuse_mail_with_where_the_user_is_now(self):
        mx = self.instance()
        with Client(mx.port) as client:
            client.expect("MAIL FROM:<ada@sender.example>", "250")
            for address, where in (
                ("jo@local.test.example", "jo@new.example"),
                ("Jo@Local.Test.Example", "jo@new.example"),
                ("kay@local.test.example", "Room 7"),
                ("any@gone.example", "nowhere"),
            ):
                self.assertEqual(
                    client.command(f"RCPT TO:<{address}>"),
                    f"550 5.1.6 <{address}>: Recipient address rejected: User has moved to {where}",
                )
            client.expect("RCPT TO:<alias@virtual.test.example>", "250")  # an alias takes it elsewhere

    def test_mail_that_comes_to_them_by_an_alias_is_returned_with_it(self):
        mx = self.instance()
        send(mx.port, BOX, ["to-jo@virtual.test.example"], mail())
        mx.wait_log(
            r"to=<jo@local\.test\.example>, orig_to=<to-jo@virtual\.test\.example>, .*dsn=5\.1\.6, status=bounced "
            r"\(User has moved to jo@new\.example\)"
        )
        mx.virtual_box("vera").wait(1)
        self.assertIn(b"User has moved to jo@new.example", mx.virtual_box("vera").messages()[0])

    def test_relocated_prefix_enable_no_leaves_the_answer_to_the_table(self):
        mx = self.instance(relocated_prefix_enable="no", relocated_maps=inline(
            {"jo@local.test.example": "5.2.1 Account is disabled", "kay@local.test.example": "4.2.1 Come again"}))
        with Client(mx.port) as client:
            client.expect("MAIL FROM:<ada@sender.example>", "250")
            self.assertEqual(client.command("RCPT TO:<jo@local.test.example>"),
                             "550 5.2.1 <jo@local.test.example>: Recipient address rejected: Account is disabled")
            self.assertEqual(client.command("RCPT TO:<kay@local.test.example>"),
                             "450 4.2.1 <kay@local.test.example>: Recipient address rejected: Come again")
        send(mx.port, BOX, ["to-jo@virtual.test.example"], mail())
        mx.wait_log(r"to=<jo@local\.test\.example>, .*dsn=5\.2\.1, status=bounced \(Account is disabled\)")
