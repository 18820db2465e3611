"""reject_unverified_recipient and _sender: probes, their answers and how long these hold; over kills and restarts."""
import json
import os
import re
import threading

from harness import *
from peers import Postfix, unavailable
from redis_server import PROGRAM, RedisServer

SETTINGS = {"mynetworks": "127.0.0.0/8", "smtpd_error_sleep_time": "0", "smtpd_peername_lookup": "no",
            "smtpd_relay_restrictions": "permit_mynetworks, reject",
            "smtpd_recipient_restrictions": "reject_unverified_recipient",
            "smtpd_hard_error_limit": "100000", "smtpd_client_connection_count_limit": "0"}


def nobody(session, line):
    """Replies to RCPT."""
    if "<no" in line:
        return "550 5.1.1 nobody here"
    return "451 4.7.1 greylisted, try again" if "<later" in line else None


class Asking(Suite):
    """A host that verifies addresses, and questions to it."""

    def ask(self, port, recipient, sender="ada@sender.example"):
        """The reply to RCPT TO."""
        with Client(port) as client:
            client.expect(f"MAIL FROM:<{sender}>", "250")
            reply = client.command(f"RCPT TO:<{recipient}>")
            client.quit()
            return reply

    def until(self, port, recipient, pattern, **options):
        def answered():
            self.last = self.ask(port, recipient, **options)
            return re.match(pattern, self.last)

        eventually(answered, lambda: f"{pattern} for {recipient}, and not {self.last}")

    def instance(self, peer, settings=None, services=None, **more):
        return Instance({**SETTINGS, **relay_to(peer), **(settings or {}), **more}, services)

    def probed(self, peer, address):
        """How often the peer was asked about the address."""
        return sum(c.startswith(f"RCPT TO:<{address}>") for s in peer.sessions for c in s.commands)

    def verbs(self, peer):
        return [c.split(" ")[0] for s in peer.sessions for c in s.commands]

    def stored(self, mx):
        try:
            with open(mx.path("data", "verify_cache", "data.mdb"), "rb") as data:
                return data.read()
        except FileNotFoundError:
            return b""


class Verification(Asking):
    def test_good_bad_and_deferred_addresses(self):
        with Peer() as peer:
            peer.replies["RCPT"] = nobody
            with self.instance(peer, {"unverified_recipient_reject_code": "550"}) as mx:
                self.until(mx.port, "yes@rcpt.example", "250 2.1.5 ")
                self.until(mx.port, "no@rcpt.example",
                           r"550 5\.1\.1 <no@rcpt\.example>: Recipient address rejected: undeliverable address: host "
                           r"127\.0\.0\.1\[127\.0\.0\.1\] said: 550 5\.1\.1 nobody here \(in reply to RCPT TO")
                self.until(mx.port, "later@rcpt.example",
                           r"450 4\.1\.1 <later@rcpt\.example>: Recipient address rejected: unverified address: host "
                           r".* said: 451 4\.7\.1 greylisted")
                for name in ("yes", "no", "later"):
                    self.ask(mx.port, f"{name}@rcpt.example")
                    self.assertEqual(self.probed(peer, f"{name}@rcpt.example"), 1)
                self.assertFalse({"DATA", "BDAT"} & set(self.verbs(peer)))
                mx.wait_log(r"smtp\[\d+\]: \w+: to=<yes@rcpt\.example>, .*status=deliverable \(250 ")
                mx.wait_log(r"smtp\[\d+\]: \w+: to=<no@rcpt\.example>, .*status=undeliverable \(host ")
                mx.wait_log(r"NOQUEUE: reject: RCPT from .*: 550 5\.1\.1 <no@rcpt\.example>: Recipient address "
                            r"rejected: undeliverable address: host ")
                mx.wait_empty_queue()
                self.assertEqual(peer.messages, [])
                send(mx.port, "ada@sender.example", ["yes@rcpt.example"], mail())
                peer.wait_messages()
                self.assertTrue(any(c.startswith("MAIL FROM:<double-bounce@mx.test.example>")
                                    for s in peer.sessions for c in s.commands))

    def test_a_host_that_cannot_be_reached_puts_off(self):
        with self.instance(Peer()) as mx:
            with Peer() as peer:
                mx.set(**relay_to(peer))
            mx.reload()
            self.until(mx.port, "yes@rcpt.example", r"450 4\.1\.1 .*unverified address: connect to .*refused")

    def test_senders_and_the_null_sender(self):
        with Peer() as peer:
            peer.replies["RCPT"] = nobody
            with self.instance(peer, {"smtpd_recipient_restrictions": "reject_unverified_sender",
                                      "unverified_sender_reject_code": "553"}) as mx:
                self.until(mx.port, "x@rcpt.example", "553 5.1.7 <no@rcpt.example>: Sender address rejected: "
                           "undeliverable address: ", sender="no@rcpt.example")
                self.until(mx.port, "x@rcpt.example", "250 ", sender="yes@rcpt.example")
                self.assertRegex(self.ask(mx.port, "x@rcpt.example", sender=""), "^250 ")
                self.assertEqual(self.probed(peer, ""), 0)

    def test_an_answer_is_pushed_to_all_who_wait_for_one_probe(self):
        asked, go = threading.Event(), threading.Event()

        def slow(session, line):
            asked.set()
            go.wait(120)

        with Peer() as peer:
            peer.replies["RCPT"] = slow
            with self.instance(peer, {"address_verify_poll_delay": "100s"}) as mx:
                replies = []
                threads = [threading.Thread(target=lambda: replies.append(self.ask(mx.port, "one@rcpt.example")))
                           for _ in range(20)]
                for thread in threads:
                    thread.start()
                self.assertTrue(asked.wait(60))
                go.set()
                for thread in threads:
                    thread.join(60)
                self.assertEqual([r[:4] for r in replies], ["250 "] * 20)
                self.assertEqual(self.probed(peer, "one@rcpt.example"), 1)

    def test_answers_survive_a_kill_and_probes_under_way_do_too(self):
        with Peer() as peer:
            peer.replies["RCPT"] = nobody
            with self.instance(peer) as mx:
                self.until(mx.port, "yes@rcpt.example", "250 ")
                self.until(mx.port, "no@rcpt.example", r"450 4\.1\.1 .*nobody here")
                eventually(lambda: b"yes@rcpt.example" in self.stored(mx) and b"no@rcpt.example" in self.stored(mx),
                           "the answers on the disk")
                mx.kill("verify")
                self.until(mx.port, "yes@rcpt.example", "250 ")
                self.until(mx.port, "no@rcpt.example", r"450 4\.1\.1 .*nobody here")
                self.assertEqual(self.probed(peer, "yes@rcpt.example") + self.probed(peer, "no@rcpt.example"), 2)
                go = threading.Event()
                peer.replies["RCPT"] = lambda session, line: go.wait(120) and None
                thread = threading.Thread(target=self.ask, args=(mx.port, "held@rcpt.example"))
                thread.start()
                eventually(lambda: self.probed(peer, "held@rcpt.example") == 1, "the probe")
                mx.kill("verify")
                go.set()
                thread.join(60)
                self.until(mx.port, "held@rcpt.example", "250 ")

    def test_qmgr_is_killed_with_probes_under_way(self):
        with Peer() as peer:
            go = threading.Event()
            peer.replies["RCPT"] = lambda session, line: go.wait(120) and None
            with self.instance(peer) as mx:
                thread = threading.Thread(target=self.ask, args=(mx.port, "held@rcpt.example"))
                thread.start()
                eventually(lambda: self.probed(peer, "held@rcpt.example") == 1, "the probe")
                mx.kill("qmgr")
                go.set()
                thread.join(60)
                self.until(mx.port, "held@rcpt.example", "250 ")
                mx.wait_empty_queue()
                self.assertEqual(peer.messages, [])

    def test_without_the_service_mail_is_put_off_and_the_log_says_what_to_add(self):
        with Peer() as peer, self.instance(peer, services={"verify": None}) as mx:
            self.assertRegex(self.ask(mx.port, "yes@rcpt.example"),
                             r"450 4\.1\.1 <yes@rcpt\.example>: Recipient address rejected: address verification "
                             r"problem")
            mx.wait_log(r'master\.cf needs the line "verify unix')
            mx.wait_log(r"smtpd\[\d+\]: warning: verify service failure")

    def test_a_flood_of_addresses_is_bounded_and_mail_flows(self):
        go = threading.Event()
        with Peer() as peer, Peer() as other:
            peer.replies["RCPT"] = lambda session, line: go.wait(120) and None
            routes = {"rcpt.example": f"smtp:[127.0.0.1]:{peer.port}", "mail.example": f"smtp:[127.0.0.1]:{other.port}"}
            with Instance({**SETTINGS, "transport_maps": inline(routes), "address_verify_pending_request_limit": "50",
                           "address_verify_poll_count": "1", "address_verify_concurrency_limit": "2",
                           "smtpd_recipient_restrictions": "check_recipient_access inline:{ { mail.example = OK } },"
                                                           "reject_unverified_recipient"}) as mx:
                with Client(mx.port) as client:
                    client.expect("MAIL FROM:<ada@sender.example>", "250")
                    replies = [client.command(f"RCPT TO:<{i}@rcpt.example>") for i in range(1000)]
                self.assertTrue(all(r.startswith("450 4.1.1 ") for r in replies))
                late = [r for r in replies if "Too many address verification probes under way" in r]
                self.assertEqual(len(late), 950)
                send(mx.port, "ada@sender.example", ["ben@mail.example"], mail())
                other.wait_messages()
                eventually(lambda: len(self.under_way(peer)) == 2, "probes at work")
                self.assertLessEqual(len(peer.sessions), 2)
                go.set()
                mx.wait_empty_queue(60)

    def under_way(self, peer):
        return [c for s in peer.sessions for c in s.commands if c.startswith("RCPT TO:")]

    def test_odd_addresses(self):
        with Peer(features=("PIPELINING", "8BITMIME", "SMTPUTF8", "CHUNKING")) as peer:
            peer.replies["RCPT"] = nobody
            with self.instance(peer, {"smtputf8_enable": "yes"}) as mx:
                self.until(mx.port, '"odd \\" one@two"@rcpt.example', "250 ")
                self.until(mx.port, "A+b_c=d%%e@rcpt.example", "250 |5")
                with Client(mx.port) as client:
                    client.expect("MAIL FROM:<ada@sender.example> SMTPUTF8", "250")

                    def known():
                        return client.command("RCPT TO:<björn@rcpt.example>").startswith("250")
                    eventually(known, "björn")
                longest = "l" * 600 + "@rcpt.example"
                self.until(mx.port, longest, "250 |5")
                peer.replies["RCPT"] = lambda session, line: "550-" + "x" * 900 + "\r\n550 " + "y" * 900
                self.until(mx.port, "no2@rcpt.example", r"450 4\.1\.1 .*unverified address: host .*x{50}")
                self.assertLess(len(self.last), 400)
                self.until(mx.port, "yes@rcpt.example", "450 ")


class Settings(Asking):
    """Each setting by name; the replies' are in smtpd/checks_verify_test.cc."""

    def again(self, peer, mx, address, times=2):
        """Asks until the peer has been asked so often."""
        def twice():
            self.ask(mx.port, address)
            return self.probed(peer, address) >= times
        eventually(twice, f"another probe of {address}")

    def test_times_of_answers(self):
        for name, address in (("address_verify_positive_expire_time", "yes"),
                              ("address_verify_positive_refresh_time", "yes"),
                              ("address_verify_negative_expire_time", "no"),
                              ("address_verify_negative_refresh_time", "no")):
            with self.subTest(name), Peer() as peer:
                peer.replies["RCPT"] = nobody
                with self.instance(peer, {name: "1s"}) as mx:
                    self.until(mx.port, f"{address}@rcpt.example", "250 " if address == "yes" else "450 .*nobody")
                    self.again(peer, mx, f"{address}@rcpt.example")

    def test_address_verify_negative_cache(self):
        with Peer() as peer:
            peer.replies["RCPT"] = nobody
            with self.instance(peer, {"address_verify_negative_cache": "no"}) as mx:
                self.until(mx.port, "no@rcpt.example", "450 .*nobody")
                self.again(peer, mx, "no@rcpt.example")
                self.assertNotIn(b"no@rcpt.example", self.stored(mx))

    def test_address_verify_map(self):
        with Peer() as peer, self.instance(peer, {"address_verify_map": "lmdb:$data_directory/elsewhere"}) as mx:
            self.until(mx.port, "yes@rcpt.example", "250 ")
            eventually(lambda: os.path.exists(mx.path("data", "elsewhere", "data.mdb")), "the file")
            self.assertFalse(os.path.exists(mx.path("data", "verify_cache")))
            mx.set(address_verify_map="")
            mx.reload()
            self.again(peer, mx, "yes@rcpt.example")
            mx.set(address_verify_map="memcache:/etc/verify.cf")
            mx.reload()
            self.again(peer, mx, "yes@rcpt.example", 3)
            mx.wait_log(r"verify\[\d+\]: warning: .*address_verify_map: .*known to this process only")

    def test_address_verify_cache_cleanup_interval(self):
        with Peer() as peer, self.instance(peer, {"address_verify_cache_cleanup_interval": "1s",
                                                  "address_verify_positive_expire_time": "1s"}) as mx:
            self.until(mx.port, "yes@rcpt.example", "250 ")
            mx.wait_log(r"verify\[\d+\]: cache \S+/verify_cache full cleanup: retained=0 dropped=1 entries")

    def test_address_verify_sender(self):
        for value, ttl, seen in (("<>", "0", r"<>"), ("probe@own.example", "0", r"<probe@own\.example>"),
                                 ("", "300s", r"<>"), ("probe", "300s", r"<probe\w+@mx\.test\.example>")):
            with self.subTest(value), Peer() as peer:
                with self.instance(peer, {"address_verify_sender": value, "address_verify_sender_ttl": ttl}) as mx:
                    self.until(mx.port, "yes@rcpt.example", "250 ")
                    said = [c for s in peer.sessions for c in s.commands if c.startswith("MAIL FROM:")]
                    self.assertRegex(said[0], "^MAIL FROM:" + seen)
                    if ttl != "0" and value:
                        back = re.match(r"MAIL FROM:<([^>]*)>", said[0])[1]
                        self.assertRegex(self.ask(mx.port, back), "^250 ")
                        self.assertEqual(self.probed(peer, back), 0)

    def test_address_verify_service_name(self):
        with Peer() as peer, self.instance(peer, {"address_verify_service_name": "probes"},
                                           {"verify": None, "probes": "unix - - n - 1 verify"}) as mx:
            self.until(mx.port, "yes@rcpt.example", "250 ")

    def test_routes_of_probes(self):
        with Peer() as first, Peer() as second:
            for peer, text in ((first, "first"), (second, "second")):
                peer.replies["RCPT"] = lambda session, line, text=text: f"550 5.1.1 {text}"
            one, two = (f"[127.0.0.1]:{p.port}" for p in (first, second))
            rows = {
                "address_verify_relayhost": ({"relayhost": one}, two, "a@far.example"),
                "address_verify_default_transport": ({"default_transport": f"smtp:{one}"}, f"smtp:{two}",
                                                     "a@far.example"),
                "address_verify_relay_transport": ({"relay_transport": f"smtp:{one}", "relay_domains": "r.example"},
                                                   f"smtp:{two}", "a@r.example"),
                "address_verify_local_transport": ({"local_transport": f"smtp:{one}"}, f"smtp:{two}",
                                                   "a@local.test.example"),
                "address_verify_virtual_transport": ({"virtual_transport": f"smtp:{one}", "virtual_mailbox_maps": ""},
                                                     f"smtp:{two}", "a@virtual.test.example"),
                "address_verify_transport_maps": ({"transport_maps": f"static:smtp:{one}"}, f"static:smtp:{two}",
                                                  "a@far.example"),
                "address_verify_sender_dependent_relayhost_maps": (
                    {"sender_dependent_relayhost_maps": f"inline:{{ {{ double-bounce@mx.test.example = {one} }} }}"},
                    f"inline:{{ {{ double-bounce@mx.test.example = {two} }} }}", "a@far.example"),
                "address_verify_sender_dependent_default_transport_maps": (
                    {"sender_dependent_default_transport_maps":
                     f"inline:{{ {{ double-bounce@mx.test.example = smtp:{one} }} }}"},
                    f"inline:{{ {{ double-bounce@mx.test.example = smtp:{two} }} }}", "a@far.example"),
            }
            for name, (usual, own, address) in rows.items():
                with self.subTest(name), Instance({**SETTINGS, **usual}) as mx:
                    self.until(mx.port, address, r"450 .*said: 550 5\.1\.1 first")
                    mx.set(**{name: own, "address_verify_map": ""})
                    mx.reload()
                    self.until(mx.port, address, r"450 .*said: 550 5\.1\.1 second")

    def test_address_verify_target(self):
        for transport, name in (("smtp", "smtp_address_verify_target"), ("lmtp", "lmtp_address_verify_target")):
            with self.subTest(transport), Peer(lmtp=transport == "lmtp") as peer:
                def last(session, line):
                    to = [c for c in session.commands if c.startswith("RCPT TO:")][-1]
                    return "554 5.1.1 nobody after all" if "<no" in to else None

                peer.replies["DATA"] = last
                with Instance({**SETTINGS, "relay_domains": "rcpt.example", name: "data",
                               "transport_maps": f"inline:{{ rcpt.example={transport}:[127.0.0.1]:{peer.port} }}"}
                              ) as mx:
                    self.until(mx.port, "yes@rcpt.example", "250 ")
                    self.until(mx.port, "no@rcpt.example",
                               r"450 4\.1\.1 .*554 5\.1\.1 nobody after all \(in reply to DATA")
                    self.assertIn("DATA", self.verbs(peer))
                    send(mx.port, "ada@sender.example", ["yes@rcpt.example"], mail())
                    peer.wait_messages()
                    self.assertEqual(len(peer.messages), 1)


class Tool(Asking):
    def test_penverify(self):
        with Peer() as peer:
            peer.replies["RCPT"] = nobody
            with self.instance(peer) as mx:
                for name in ("yes", "no", "later"):
                    self.until(mx.port, f"{name}@rcpt.example", "[24]50 (2.1.5|.*said)")
                done = mx.tool("penverify", "-j", "list", check=True)
                rows = [json.loads(line) for line in done.stdout.splitlines()]
                self.assertEqual([(r["address"], r["state"]) for r in rows],
                                 [("later@rcpt.example", "deferred"), ("no@rcpt.example", "bad"),
                                  ("yes@rcpt.example", "good")])
                self.assertRegex(mx.tool("penverify", "show", "no@rcpt.example", check=True).stdout,
                                 r"^bad      .* no@rcpt\.example \(host .*nobody here")
                self.assertEqual(mx.tool("penverify", "show", "x@rcpt.example").returncode, 65)
                self.assertEqual(mx.tool("penverify", "check", "new@rcpt.example").returncode, 0)
                self.assertEqual(mx.tool("penverify", "check", "no@rcpt.example").returncode, 65)
                mx.tool("penverify", "forget", "no@rcpt.example", check=True)
                self.assertEqual(mx.tool("penverify", "forget", "no@rcpt.example").returncode, 65)
                self.assertEqual(mx.tool("penverify", "nonsense").returncode, 64)
                self.until(mx.port, "no@rcpt.example", "450 .*said")
                self.assertEqual(self.probed(peer, "no@rcpt.example"), 2)
                mx.stop()
                self.assertEqual(mx.tool("penverify", "list").returncode, 69)


class Cluster(Asking):
    def test_hosts_share_answers_and_do_without_the_server(self):
        if PROGRAM is None:
            self.skipTest("redis-server is not installed (scripts/install-dependencies --runtime-peers)")
        with RedisServer(acl=True) as redis, Peer() as peer:
            peer.replies["RCPT"] = nobody
            with self.instance(peer, redis.settings(), myhostname="a.test.example") as one, \
                    self.instance(peer, redis.settings(), myhostname="b.test.example") as two:
                for name in ("yes", "no"):
                    self.until(one.port, f"{name}@rcpt.example", "[24]50 (2.1.5|.*said)")
                    eventually(lambda: redis.words("EXISTS", f"penstock:verify:{name}@rcpt.example") == 1, "shared")
                    self.until(two.port, f"{name}@rcpt.example", "[24]50 (2.1.5|.*said)")
                    self.assertEqual(self.probed(peer, f"{name}@rcpt.example"), 1)
                    self.assertGreater(redis.words("TTL", f"penstock:verify:{name}@rcpt.example"), 3600)
                one.tool("penverify", "forget", "yes@rcpt.example", check=True)
                eventually(lambda: redis.words("EXISTS", "penstock:verify:yes@rcpt.example") == 0, "forgotten")
                self.assertEqual(redis.denied(), [])
                redis.kill()
                one.wait_log(r"verify\[\d+\]: warning: address probes: not shared for now")
                self.until(one.port, "other@rcpt.example", "250 ")


class BesidePostfix(Asking):
    """The same questions to both: replies are equal."""

    def test_replies(self):
        reason = unavailable()
        if reason:
            self.skipTest(reason)
        settings = {"unverified_recipient_reject_code": "550", "address_verify_poll_delay": "1s",
                    "address_verify_poll_count": "20", "unverified_sender_reject_code": "553"}
        for restriction in ("reject_unverified_recipient", "reject_unverified_sender"):
            for more in ({}, {"unverified_recipient_reject_code": "450", "unverified_sender_reject_code": "450"},
                         {"unverified_recipient_reject_reason": "No", "unverified_sender_reject_reason": "No"},
                         {"unverified_recipient_defer_code": "451", "unverified_sender_defer_code": "451"}):
                with self.subTest(restriction, **more), Peer() as peer:
                    peer.replies["RCPT"] = nobody
                    own = {**settings, **more, "smtpd_recipient_restrictions": restriction + ", permit"}
                    text = "\n".join(f"{k} = {v}" for k, v in own.items())
                    with self.instance(peer, own) as mx, \
                            Postfix(free_port(), peer.port, text) as other:
                        for name in ("yes", "no", "later"):
                            address = f"{name}@rcpt.example"
                            self.until(mx.port, address, "250 2.1.5|.*(said|: No)", sender=address)
                            ours = self.last
                            self.until(other.port, address, "250 2.1.5|.*(said|: No)", sender=address)
                            self.assertEqual(ours, self.last)


if __name__ == "__main__":
    unittest.main()
