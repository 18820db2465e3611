"""What receivers bear: their complaints in their own words, limits that are learned and that are set."""
import json
import threading
import time

import peers
from harness import *

SOON = {"minimal_backoff_time": "1s", "maximal_backoff_time": "4s", "queue_run_delay": "1s"}
GOOGLE_DOMAIN = ["421-4.7.28 Gmail has detected an unusual rate of unsolicited mail originating from",
                 "421-4.7.28 your DKIM domain [flood.example 36]. To protect our users from spam, mail",
                 "421 4.7.28 sent from your domain has been temporarily rate limited. x - gsmtp"]
OUTLOOK_BLOCK = ("550 5.7.1 Unfortunately, messages from [192.0.2.1] weren't sent. Please contact your Internet "
                 "service provider since part of their network is on our block list (S3150).")
YAHOO_BLOCK = ("553 5.7.2 [TSS09] All messages from 192.0.2.1 will be permanently deferred; Retrying will NOT "
               "succeed.")
YAHOO_UNUSUAL = "421 4.7.0 [TS02] Messages from 192.0.2.1 temporarily deferred due to user complaints - 4.16.55.1"


class HiddenRate:
    """So many in a second, a few at once; what is beyond is refused."""

    def __init__(self, rate, at_once):
        self.rate, self.at_once, self.tokens, self.last = rate, at_once, at_once, time.monotonic()
        self.lock, self.refused = threading.Lock(), 0

    def takes(self):
        with self.lock:
            now = time.monotonic()
            self.tokens = min(self.at_once, self.tokens + (now - self.last) * self.rate)
            self.last = now
            if self.tokens >= 1:
                self.tokens -= 1
                return True
            self.refused += 1
            return False


class Shaping(Suite):
    def json(self, mx, *words):
        return [json.loads(line) for line in mx.tool("pendest", "--json", *words, check=True).stdout.splitlines()]

    def limits(self, mx, group):
        found = {}
        for entry in self.json(mx, "list"):
            for limit in entry.get("limits", []):
                if limit.get("group") == group:
                    found[(limit.get("sender_domain", ""), limit.get("name", ""))] = limit
        return found

    def test_gmail_microsoft_and_yahoo_are_understood_in_their_own_words(self):
        port = free_port()
        with Peer(host="127.0.0.21", port=port) as google, Peer(host="127.0.0.22", port=port) as outlook, \
                Peer(host="127.0.0.23", port=port) as yahoo, \
                Dns({("g.example", "MX"): [(5, "gmail-smtp-in.l.google.com")],
                     ("gmail-smtp-in.l.google.com", "A"): ["127.0.0.21"],
                     ("o.example", "MX"): [(5, "o-example.olc.protection.outlook.com")],
                     ("o-example.olc.protection.outlook.com", "A"): ["127.0.0.22"],
                     ("y.example", "MX"): [(1, "mta5.am0.yahoodns.net")],
                     ("mta5.am0.yahoodns.net", "A"): ["127.0.0.23"]}) as dns, \
                Instance({**dns.settings(), "smtp_tcp_port": str(port), **SOON, "shaping": "yes"}) as mx:
            # Google: mail of one domain only; all other mail goes on.
            google.replies["MAIL"] = lambda session, line: (
                "\r\n".join(GOOGLE_DOMAIN) if "@flood.example" in line else None)
            send(mx.port, "ada@flood.example", ["a@g.example"], mail())
            mx.wait_log(r"shaping: google signed by flood\.example rests for 1800 s, then gets 1/m: "
                        "rule google-rate-dkim")
            sessions = len(google.sessions)
            send(mx.port, "ada@flood.example", ["b@g.example"], mail())
            mx.wait_log(r"to=<b@g\.example>, relay=none, .*status=deferred \(google signed by flood\.example rests")
            send(mx.port, "ada@calm.example", ["c@g.example"], mail())
            self.assertEqual(google.wait_messages(1)[0].recipients, ["c@g.example"])
            self.assertLessEqual(len(google.sessions), sessions + 1)
            self.assertIn("google-rate-dkim", mx.tool("pendest", "explain", "x@g.example", check=True).stdout)
            # Microsoft: the address is blocked; a 5xx that sends nothing back.
            outlook.replies["MAIL"] = lambda session, line: OUTLOOK_BLOCK
            send(mx.port, "ada@calm.example", ["d@o.example"], mail())
            mx.wait_log(r"warning: shaping: outlook takes nothing: its mail waits for 43200 s: rule outlook-blocked")
            mx.wait_log(r"put off instead of returned, for the complaint is of a block: ")
            self.assertRegex(mx.log(), r"smtp\[\d+\]: \w+: to=<d@o\.example>, .*dsn=5\.7\.1, status=SOFTBOUNCE ")
            self.assertNotIn("status=bounced", mx.log())
            # What a reply repeats of the mail is not the receiver's word.
            yahoo.replies["RCPT"] = lambda session, line: (
                "554 delivery error: This user has no account (" + line[line.index("<") + 1:line.index(">")] + ")")
            send(mx.port, '"[tss09] too many connections"@stranger.example', ['"[tss09]"@y.example'], mail())
            mx.wait_log(r"smtp\[\d+\]: .*@y\.example>, .*status=bounced ")
            del yahoo.replies["RCPT"]
            self.assertNotIn("yahoo takes nothing", mx.log())
            send(mx.port, "ada@calm.example", ["e@o.example"], mail())
            mx.wait_log(r"to=<e@o\.example>, relay=none, .*status=deferred \(outlook rests after a complaint")
            self.assertEqual(len(outlook.messages), 0)
            self.assertEqual(len([e for e in mx.queue() if "@o.example" in str(e)]), 2)
            # Yahoo: the source address; what waits for others does not wait.
            yahoo.replies["MAIL"] = lambda session, line: YAHOO_UNUSUAL
            send(mx.port, "ada@calm.example", ["f@y.example"], mail())
            mx.wait_log(r"shaping: yahoo rests for 1800 s, then gets 1/m: rule yahoo-unusual")
            shown = self.limits(mx, "yahoo")[("", "")]
            self.assertEqual((shown["rule"], shown["rate"]), ("yahoo-unusual", "1/m"))
            self.assertGreater(shown["held_ms"], 1_000_000)
            self.assertIn("rests for", mx.tool("pendest", "show", "yahoo", check=True).stdout)
            # What was learned is on the disk, and goes by order.
            mx.stop()
            for peer in (outlook, yahoo):
                peer.replies.clear()
            mx.start()
            send(mx.port, "ada@calm.example", ["g@y.example"], mail())
            mx.wait_log(r"to=<g@y\.example>, relay=none, .*status=deferred \(yahoo rests after a complaint")
            self.assertEqual((len(outlook.messages), len(yahoo.messages)), (0, 0))
            for name in ("outlook", "yahoo"):
                mx.tool("pendest", "forget", name, check=True)
            mx.flush()
            outlook.wait_messages(2)
            yahoo.wait_messages(2)

    def test_a_block_of_our_address_returns_no_mail_without_any_setting(self):
        """Literal replies, from hosts of nobody known."""
        for reply, rule in ((OUTLOOK_BLOCK, "any-blocked-outlook"), (YAHOO_BLOCK, "any-blocked-yahoo")):
            for verb in ("MAIL", "DOT"):
                with self.subTest(reply=reply, verb=verb), Peer() as peer, Instance(
                    {**relay_to(peer, "d.example"), **SOON}
                ) as mx:
                    peer.replies[verb] = lambda session, line, reply=reply: reply
                    for user in "ab":
                        send(mx.port, "ada@calm.example", [f"{user}@d.example"], mail())
                        mx.wait_log(rf"to=<{user}@d\.example>, .*status=(SOFTBOUNCE|deferred) ")
                    mx.wait_log(rf"warning: shaping: .* takes nothing: its mail waits for \d+ s: rule {rule}")
                    self.assertNotIn("status=bounced", mx.log())
                    self.assertEqual(len(mx.queue()), 2)

    def test_a_host_that_refuses_to_talk_speaks_for_its_provider(self):
        port = free_port()
        deferred = "421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to user complaints - 4.16.55.1"
        listed = "553 5.7.1 [BL21] Connections will not be accepted from 192.0.2.1, because the ip is in a list"
        hosts = [f"mta{i}.am0.yahoodns.net" for i in (5, 6)]
        for verb, reply, told in (
            ("GREETING", deferred, r"shaping: yahoo rests for 7200 s, then gets \S+: rule yahoo-complaints"),
            ("EHLO", deferred, r"shaping: yahoo rests for 7200 s, then gets \S+: rule yahoo-complaints"),
            ("GREETING", listed, r"warning: shaping: yahoo takes nothing: its mail waits for 43200 s: "
                                 r"rule yahoo-blocklist")):
            with self.subTest(verb=verb, reply=reply), Peer(host="127.0.0.23", port=port) as first, \
                    Peer(host="127.0.0.28", port=port) as second, \
                    Dns({("y.example", "MX"): [(1, hosts[0]), (2, hosts[1])], (hosts[0], "A"): ["127.0.0.23"],
                         (hosts[1], "A"): ["127.0.0.28"]}) as dns, \
                    Instance({**dns.settings(), "smtp_tcp_port": str(port), **SOON}) as mx:
                first.replies[verb] = lambda session, line, reply=reply: reply
                second.replies[verb] = lambda session, line, reply=reply: reply
                send(mx.port, "ada@calm.example", ["a@y.example"], mail())
                mx.wait_log(told)
                mx.wait_log(r"to=<a@y\.example>, relay=none, .*status=deferred \(yahoo rests after a complaint")
                send(mx.port, "ada@calm.example", ["b@y.example"], mail())
                mx.wait_log(r"to=<b@y\.example>, relay=none, .*status=deferred \(yahoo rests after a complaint")
                # Neither its other host nor the first one again is asked.
                self.assertEqual((len(first.sessions), len(second.sessions)), (1, 0))
                shown = self.json(mx, "show", "yahoo")
                self.assertEqual({d["failures"] for d in shown}, {0}, shown)
                message = json.loads(mx.tool("penqueue", "-j", check=True).stdout.splitlines()[0])["queue_id"]
                [story] = json.loads(mx.tool("penstock", "explain", "--json", message, check=True).stdout)["recipients"]
                self.assertEqual(story["cause"], "limited", story)
                self.assertIn("yahoo rests after a complaint", story["why"])
                self.assertIn("192.0.2.1", story["why"])
                self.assertGreater(story["at"], time.time() + 3600)

    def test_a_rate_that_a_receiver_keeps_to_itself_is_learned(self):
        hidden = HiddenRate(rate=20, at_once=5)
        with Peer(host="127.0.0.24") as peer, \
                Dns({("big.example", "MX"): [(5, "mx.big.example")], ("mx.big.example", "A"): ["127.0.0.24"]}) as dns:
            peer.replies["MAIL"] = lambda session, line: None if hidden.takes() else "451 4.7.1 slow down"
            with Instance({**dns.settings(), "smtp_tcp_port": str(peer.port), **SOON}, start=False) as mx:
                rules = mx.write("own.rules", "provider big .big.example\n"
                                 "rule slow-down provider=big code=451 text=\"slow down\"\n"
                                 "  class=rate scope=source\n")
                mx.set(shaping_rules_files=rules, shaping_pause_time="1s", shaping_minimum_rate="10/s",
                       shaping_increase_interval="1s", shaping_forget_time="1d", smtp_destination_recipient_limit="2")
                mx.start()
                # Two recipients in a transaction: fifteen at once, however slow this machine is.
                send(mx.port, "s@sender.example", [f"u{i}@big.example" for i in range(30)], mail())
                mx.wait_log(r"shaping: big rests for 1 s, then gets 10/s: rule slow-down \(rate of source\)")
                peer.wait_messages(15, seconds=60)
                before = hidden.refused
                send(mx.port, "t@sender.example", [f"v{i}@big.example" for i in range(120)], mail())
                peer.wait_messages(75, seconds=60)
                # Without a limit most of them would be refused at least once; with it, who comes after a rise too many.
                self.assertLess(hidden.refused - before, 20)
                limit = self.limits(mx, "big")[("", "")]
                self.assertGreaterEqual(limit["complaints"], 1)

    def test_postfix_with_a_message_rate_limit_is_kept_to(self):
        reason = peers.unavailable()
        if reason:
            self.skipTest(reason)
        with Peer() as back, peers.Postfix(port=free_port(), relay_port=back.port, settings=(
                "smtpd_client_message_rate_limit = 20\nsmtpd_client_event_limit_exceptions =\n"
                "anvil_rate_time_unit = 2s\nsmtpd_error_sleep_time = 0\n")) as postfix:
            # Its host belongs to no provider: the shipped rules know its words all the same.
            settings = relay_to(back)
            settings["transport_maps"] = inline({"rcpt.example": f"smtp:[127.0.0.1]:{postfix.port}"})
            with Instance({**settings, **SOON, "shaping_pause_time": "2s", "shaping_minimum_rate": "5/s",
                           "shaping_increase_interval": "1s"}) as mx:
                for i in range(60):
                    send(mx.port, f"s{i}@sender.example", [f"u{i}@rcpt.example"], mail())
                back.wait_messages(60, seconds=90)
                mx.wait_log(r"shaping: 127\.0\.0\.1 rests for 2 s, then gets \S+: rule any-too-many-messages")
                # Without a limit each of the later forty is refused again and again while a window lasts.
                self.assertLess(postfix.log().count("too much mail from"), 40)

    def test_who_observes_only_says_what_would_be_done(self):
        with Peer(host="127.0.0.25") as peer, \
                Dns({("g.example", "MX"): [(5, "mx.l.google.com")], ("mx.l.google.com", "A"): ["127.0.0.25"]}) as dns, \
                Instance({**dns.settings(), "smtp_tcp_port": str(peer.port), **SOON, "shaping": "observe"}) as mx:
            peer.replies["DOT"] = ["\r\n".join(GOOGLE_DOMAIN)]
            send(mx.port, "ada@flood.example", ["a@g.example"], mail())
            mx.wait_log(r"shaping = observe: flood\.example to google would go slower: rule google-rate-dkim")
            peer.wait_messages(1)
            self.assertEqual(self.limits(mx, "google"), {})

    def test_limits_that_are_set_hold(self):
        begins = []
        with Peer(host="127.0.0.26") as peer, \
                Dns({("big.example", "MX"): [(5, "mx.big.example")], ("mx.big.example", "A"): ["127.0.0.26"]}) as dns:
            peer.replies["MAIL"] = lambda session, line: begins.append(time.monotonic())
            with Instance({**dns.settings(), "smtp_tcp_port": str(peer.port), **SOON}, start=False) as mx:
                rules = mx.write("own.rules", "provider big .big.example\n")
                limits = mx.write("limits", "provider:big rate=5/s connections=2\n")
                mx.set(shaping="no", shaping_rules_files=rules, delivery_limit_maps=f"texthash:{limits}",
                       default_destination_rate_limit="100/s")
                mx.start()
                for i in range(15):
                    send(mx.port, f"s{i}@sender.example", [f"u{i}@big.example"], mail())
                peer.wait_messages(15)
                # Fourteen pauses of a fifth of a second; what is slow here makes it longer.
                self.assertGreater(begins[-1] - begins[0], 2.0)
                self.assertEqual(self.limits(mx, "big")[("", "smtp")]["set"], "100/s")
                self.assertEqual(self.limits(mx, "big")[("", "")]["set"], "5/s")
                mx.tool("pendest", "rate", "big", "1/h", check=True)
                mx.wait_log(r"destination big: at most 1/h by order")
                for i in range(3):
                    send(mx.port, f"s{i}@sender.example", [f"v{i}@big.example"], mail())
                mx.wait_log(r"status=deferred \(big may have 1/h, try again in \d+ seconds\)")
                mx.tool("pendest", "rate", "big", "none", check=True)
                peer.wait_messages(18, seconds=60)
                # Two rates at once: two of three go, and what the quota says outlives the queue manager.
                wrong = mx.tool("pendest", "rate", "big", "1/s,100/m")
                self.assertNotEqual(wrong.returncode, 0)
                self.assertIn("has 100/m, which holds nothing back beside 1/s", wrong.stderr)
                mx.tool("pendest", "rate", "big", "20/s,2/h", check=True)
                for i in range(3):
                    send(mx.port, f"s{i}@sender.example", [f"x{i}@big.example"], mail())
                mx.wait_log(r"status=deferred \(big has had 2/h, try again in \d+ seconds\)")
                peer.wait_messages(20)
                mx.tool("penstock", "reload", check=True)

                def full():
                    found = self.limits(mx, "big").get(("", ""), {})
                    return found.get("quotas") and found
                limit = eventually(full, lambda: f"the limit is known: {self.limits(mx, 'big')}")
                self.assertEqual((limit["ordered"], limit["rate"]), ("20/s,2/h", "5/s,2/h"))
                quota = limit["quotas"][0]
                self.assertEqual((quota["rate"], quota["most"], quota["used"]), ("2/h", 2, 2))
                self.assertGreater(quota["opens_ms"], 3_000_000)
                self.assertIn("2 of 2/h, the next in", mx.tool("pendest", "show", "big", check=True).stdout)
                mx.tool("pendest", "rate", "big", "none", check=True)
                peer.wait_messages(21, seconds=60)
                mx.write("broken.rules", "provider big\n")
                mx.set(shaping_rules_files=f"{rules}, {mx.dir}/broken.rules", default_destination_rate_limit="slow")
                checked = mx.tool("penstock", "check").stdout
                self.assertRegex(checked, r"broken\.rules:1: a provider needs names of hosts.*nothing of this file")
                self.assertRegex(checked, r'main\.cf:\d+: default_destination_rate_limit: "slow" is not a rate')
                # Those of a domain, a source and a tenant are seen, and what waits at them.
                mx.write("limits", "domain:big.example rate=2/h\nsource:a rate=5/h connections=5\n"
                         "tenant:sender.example rate=3/h\n")
                mx.set(shaping_rules_files="", default_destination_rate_limit="", tenant_identity="sender_domain",
                       egress_sources_file=mx.write("sources", "source a address=127.0.0.1\npool p a\n"),
                       default_egress_pool="p")
                mx.tool("penstock", "reload", check=True)
                for i in range(4):
                    send(mx.port, f"s{i}@sender.example", [f"w{i}@big.example"], mail())

                def told():
                    found = {l["name"]: (l["set"], l["rate"], l.get("connections"))
                             for l in self.json(mx, "list") if l["type"] == "limit"}
                    return len(found) == 3 and found
                self.assertEqual(eventually(told, lambda: f"limits are listed: {self.json(mx, 'list')}"), {
                    "domain:big.example": ("2/h", "2/h", None), "source:a": ("5/h", "5/h", 5),
                    "tenant:sender.example": ("3/h", "3/h", None)})
                for name in ("domain:big.example", "source:a", "tenant:sender.example"):
                    self.assertEqual([l["name"] for l in self.json(mx, "show", name)], [name])
                listed = mx.tool("pendest", "list", check=True).stdout
                self.assertRegex(listed, r"(?m)^LIMITS\n +domain:big\.example: 2/h \(set: 2/h\), ")
                self.assertEqual(mx.tool("pendest", "show", "tenant:nobody").returncode, 65)
                self.assertEqual(mx.tool("pendest", "rate", "nobody", "1/h").returncode, 65)
                self.assertEqual(mx.tool("pendest", "rate", "big", "often").returncode, 64)

    def test_explain_names_the_limit_of_a_network(self):
        port = free_port()
        with Peer(host="127.0.0.29", port=port) as one, Peer(host="127.0.0.30", port=port) as two, \
                Peer(host="127.0.1.31", port=port) as other, \
                Dns({("big.example", "MX"): [(5, "mx.one.example"), (5, "mx.two.example"), (5, "mx.other.example")],
                     ("mx.one.example", "A"): ["127.0.0.29"], ("mx.two.example", "A"): ["127.0.0.30"],
                     ("mx.other.example", "A"): ["127.0.1.31"]}) as dns:
            all_here, go_on = threading.Event(), threading.Event()
            begun = []

            def at_mail(session, line):
                begun.append(session)
                if len(begun) == 3:
                    all_here.set()
                go_on.wait(60)

            for peer in (one, two, other):
                peer.replies["MAIL"] = at_mail
            with Instance({**dns.settings(), "smtp_tcp_port": str(port), **SOON}, start=False) as mx:
                # Of the route's hosts two are in the network, and one is nobody's.
                rules = mx.write("own.rules", "provider big 127.0.0.0/24 rate=100/s,5000/h connections=1\n")
                mx.set(shaping="no", shaping_rules_files=rules, default_destination_concurrency_limit="2")
                mx.start()
                for i in range(12):
                    send(mx.port, f"s{i}@sender.example", [f"u{i}@big.example"], mail())
                self.assertTrue(all_here.wait(60))
                # One connection to both hosts in the network, and two to the other one.
                explained = self.json(mx, "explain", "x@big.example")[0]
                self.assertEqual(explained["limits"][0]["group"], "big")
                self.assertEqual(explained["limits"][0]["connections"], 1)
                self.assertEqual(explained["limits"][0]["set"], "100/s,5000/h")
                held = {h["destination"].split(".")[1]: (h["connections"], h["connection_limit"])
                        for h in explained["hosts"]}
                self.assertEqual(held["other"], (2, 2))
                self.assertEqual(sorted([held["one"], held["two"]]), [(0, 1), (1, 1)])
                text = mx.tool("pendest", "explain", "x@big.example", check=True).stdout
                self.assertRegex(text, r"limit +big: .*1 connections")
                self.assertRegex(text, r"limit +big: .*5000/h")
                self.assertRegex(text, r"decision +rule 2: ")
                go_on.set()
                mx.wait_empty_queue()


if __name__ == "__main__":
    unittest.main()
