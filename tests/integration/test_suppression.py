"""The suppression list: what brings addresses onto it, what it stops, its tool, kills, and a cluster."""
import json
import os
import subprocess

from event_stream import files, wait_logged
from harness import *
from redis_server import PROGRAM, RedisServer
from test_penapi import TOKEN, UNIX, Api, token_file

FROM = "news@virtual.test.example"  # its notices are delivered


def report(address, sender=FROM):
    """A feedback report: the reader of this address complained."""
    return (f"From: fbl@far.example\r\nTo: fbl@virtual.test.example\r\nSubject: report\r\nMIME-Version: 1.0\r\n"
            "Content-Type: multipart/report; report-type=feedback-report; boundary=b\r\n\r\n"
            "--b\r\nContent-Type: text/plain\r\n\r\nA complaint.\r\n"
            "--b\r\nContent-Type: message/feedback-report\r\n\r\nFeedback-Type: abuse\r\nUser-Agent: Far/1\r\n"
            f"Version: 1\r\nOriginal-Mail-From: <{sender}>\r\nOriginal-Rcpt-To: <{address}>\r\n"
            "--b\r\nContent-Type: message/rfc822\r\n\r\nSubject: news\r\n\r\nnews\r\n--b--\r\n").encode()


def refuses(session, line):
    """Replies to RCPT."""
    if "<gone" in line:
        return "550 5.1.1 no such user"
    if "<blocked" in line:
        return "550 5.7.1 your host is blocked"
    if "<idle" in line:
        return "550 5.2.1 this mailbox is inactive"
    return "450 4.2.1 try later" if "<later" in line else None


class Listed(Suite):
    def instance(self, peer, settings=None, services=None, **more):
        return Instance({"suppression_list": "yes", "virtual_mailbox_maps": inline({"fbl@virtual.test.example": "fbl/",
                                                                                   "news@virtual.test.example": "n/"}),
                         "smtpd_hard_error_limit": "1000", **relay_to(peer), **(settings or {}), **more}, services)

    def rcpt(self, mx, to, sender=FROM):
        with Client(mx.port) as client:
            client.expect(f"MAIL FROM:<{sender}>", "250")
            reply = client.command(f"RCPT TO:<{to}>")
            client.quit()
            return reply

    def asked(self, peer, address):
        return sum(c.startswith(f"RCPT TO:<{address}>") for s in peer.sessions for c in s.commands)

    def rows(self, mx, *options):
        done = mx.tool("pensuppress", "-j", *options, "list", check=True)
        return {row["address"]: row for row in map(json.loads, done.stdout.splitlines())}

    def refused(self, mx, to, why, **options):
        eventually(lambda: self.rcpt(mx, to, **options).startswith("550 5.7.1 "), f"{to} is on the list")
        self.assertIn(f"<{to}>: Recipient address rejected: on this server's suppression list: {why}",
                      self.rcpt(mx, to, **options))


class Bounces(Listed):
    def test_an_address_that_does_not_exist_is_asked_for_once(self):
        with Peer() as peer:
            peer.replies["RCPT"] = refuses
            with self.instance(peer) as mx:
                mx.set(**files(mx))
                mx.reload()
                for name in ("blocked", "idle", "gone", "good"):
                    send(mx.port, FROM, [f"{name}@rcpt.example"], mail())
                self.refused(mx, "gone@rcpt.example", "its mail was refused for good")
                mx.wait_empty_queue()
                self.assertEqual(list(self.rows(mx)), ["gone@rcpt.example"])
                row = self.rows(mx)["gone@rcpt.example"]
                self.assertEqual((row["reason"], row["text"], row["tenant"]), ("bounce", "550 5.1.1 no such user", ""))
                self.assertEqual({a: (r["listed"], r["days"]) for a, r in self.rows(mx, "--watched").items()},
                                 {"gone@rcpt.example": (True, 1), "idle@rcpt.example": (False, 1)})
                for name in ("blocked", "idle", "good"):
                    self.assertRegex(self.rcpt(mx, f"{name}@rcpt.example"), "^250 ")
                self.assertEqual(self.asked(peer, "gone@rcpt.example"), 1)
                mx.wait_log(r"anvil\[\d+\]: suppression list: added: to=<gone@rcpt\.example>, reason=bounce, until=.* "
                            r"\(550 5\.1\.1 no such user\)")
                found = wait_logged(mx, lambda events: any(e["type"] == "suppressed" for e in events), "suppressed")
                event = next(e for e in found if e["type"] == "suppressed")
                self.assertEqual((event["to"], event["reason"], event["reply"]),
                                 ("gone@rcpt.example", "bounce", "550 5.1.1 no such user"))
                self.assertIn("expires", event)

    def test_days_are_a_setting_and_the_null_sender_and_exempt_ones_are_served(self):
        with Peer() as peer:
            peer.replies["RCPT"] = refuses
            with self.instance(peer, suppression_bounce_days="1",
                               suppression_exempt_maps="inline:{ { reset@sender.example = OK } }") as mx:
                send(mx.port, FROM, ["idle@rcpt.example"], mail())
                self.refused(mx, "idle@rcpt.example", "its mail was refused for good")
                self.assertRegex(self.rcpt(mx, "idle@rcpt.example", sender=""), "^250 ")
                self.assertRegex(self.rcpt(mx, "idle@rcpt.example", sender="reset@sender.example"), "^250 ")
                asked = self.asked(peer, "idle@rcpt.example")
                send(mx.port, "reset@sender.example", ["idle@rcpt.example"], mail())
                eventually(lambda: self.asked(peer, "idle@rcpt.example") == asked + 1, "the peer was asked again")

    def test_without_the_setting_nothing_is_kept(self):
        with Peer() as peer:
            peer.replies["RCPT"] = refuses
            with self.instance(peer, suppression_list="no") as mx:
                send(mx.port, FROM, ["gone@rcpt.example"], mail())
                mx.wait_empty_queue()
                self.assertRegex(self.rcpt(mx, "gone@rcpt.example"), "^250 ")
                self.assertFalse(os.path.exists(mx.path("data", "suppressed")))


class Queued(Listed):
    def test_mail_that_waits_goes_back_without_an_attempt(self):
        with Peer() as peer:
            peer.replies["RCPT"] = refuses
            with self.instance(peer) as mx:
                send(mx.port, "news@virtual.test.example", ["later@rcpt.example", "good@rcpt.example"], mail())
                peer.wait_messages()
                eventually(lambda: self.asked(peer, "later@rcpt.example") == 1, "the first try")
                mx.wait_log("to=<later@rcpt.example>.*status=deferred")
                mx.tool("pensuppress", "add", "later@rcpt.example", "--reason", "complaint", check=True)
                mx.flush()
                mx.wait_log(r"qmgr\[\d+\]: \w+: to=<later@rcpt\.example>, relay=none, .*dsn=5\.7\.1, status=bounced "
                            r"\(recipient is on the suppression list: its reader complained\)")
                notice = mx.virtual_box("n").wait(1)[0]
                self.assertIn(b"suppression list", notice)
                mx.wait_empty_queue()
                self.assertEqual(self.asked(peer, "later@rcpt.example"), 1)

    def test_mail_of_sendmail_goes_back(self):
        with Peer() as peer, self.instance(peer) as mx:
            mx.tool("pensuppress", "add", "jo@rcpt.example", check=True)
            done = subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, "-i", "-f", FROM, "jo@rcpt.example"],
                                  input=b"Subject: x\n\nx\n", capture_output=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(b"suppression list: by order", mx.virtual_box("n").wait(1)[0])
            self.assertEqual(self.asked(peer, "jo@rcpt.example"), 0)

    def test_recipients_of_this_host_are_not_asked_about(self):
        with Peer() as peer, self.instance(peer) as mx:
            mx.tool("pensuppress", "add", "news@virtual.test.example", check=True)
            send(mx.port, FROM, ["news@virtual.test.example"], mail())
            mx.virtual_box("n").wait(1)


class Complaints(Listed):
    def test_a_report_of_a_client_that_is_believed_counts_at_once(self):
        with Peer() as peer, self.instance(peer, returned_mail_recipients="fbl@virtual.test.example",
                                           suppression_complaint_clients="127.0.0.1") as mx:
            send(mx.port, "staff@far.example", ["fbl@virtual.test.example"], report("jo@rcpt.example"))
            self.refused(mx, "jo@rcpt.example", "its reader complained")
            self.assertEqual(self.rows(mx)["jo@rcpt.example"]["text"], "abuse")

    def test_strangers_need_several_days_and_the_tenant_is_that_of_the_mail(self):
        with Peer() as peer, self.instance(peer, returned_mail_recipients="fbl@virtual.test.example",
                                           tenant_identity="sender_domain") as mx:
            complaint = report("jo@rcpt.example", "a@sender.example")
            send(mx.port, "staff@far.example", ["fbl@virtual.test.example"], complaint)
            eventually(lambda: self.rows(mx, "--watched"), "it is counted")
            row = self.rows(mx, "--watched")["jo@rcpt.example"]
            self.assertEqual((row["tenant"], row["listed"], row["days"]), ("sender.example", False, 1))
            mx.tool("pensuppress", "--tenant", "sender.example", "add", "jo@rcpt.example", check=True)
            self.refused(mx, "jo@rcpt.example", "by order", sender="a@sender.example")
            self.assertRegex(self.rcpt(mx, "jo@rcpt.example", sender="a@other.example"), "^250 ")


class Tool(Listed):
    def test_pensuppress(self):
        with Peer() as peer, self.instance(peer) as mx:
            def tool(*words, **options):
                return mx.tool("pensuppress", *words, **options)

            tool("add", "jo@rcpt.example", "ann@rcpt.example", "--expires", "2099-01-01", "--text", "asked by mail",
                 check=True)
            self.assertEqual(tool("show", "jo@rcpt.example", check=True).stdout,
                             "order     2099-01-01T00:00:00Z jo@rcpt.example (asked by mail)\n")
            self.assertEqual(tool("show", "no@rcpt.example").returncode, 65)
            exported = tool("export", check=True).stdout
            self.assertEqual(exported, "ann@rcpt.example,order,2099-01-01T00:00:00Z,,asked by mail\n"
                                       "jo@rcpt.example,order,2099-01-01T00:00:00Z,,asked by mail\n")
            tool("remove", "jo@rcpt.example", "ann@rcpt.example", check=True)
            self.assertEqual(tool("remove", "jo@rcpt.example").returncode, 65)
            self.assertRegex(self.rcpt(mx, "jo@rcpt.example"), "^250 ")
            self.assertEqual(tool("list", check=True).stdout, "")
            tool("import", "-", stdin=exported + "# a remark\n\nmany@rcpt.example\n", check=True)
            bad = tool("import", "-", stdin="one@rcpt.example,complaint\nnobody\ntwo@rcpt.example,whim\n")
            self.assertEqual(bad.returncode, 65)
            self.assertIn("line 2: not an address: nobody", bad.stderr)
            self.assertIn("line 3: none of bounce", bad.stderr)
            self.assertEqual(sorted(self.rows(mx)), ["ann@rcpt.example", "jo@rcpt.example", "many@rcpt.example",
                                                     "one@rcpt.example"])
            names = [f"n{i:04}@rcpt.example" for i in range(3000)]
            tool("import", "-", stdin="".join(n + "\n" for n in names), check=True)
            self.assertEqual(len(self.rows(mx)), 3004)
            mx.kill("anvil")  # what was acknowledged is there
            eventually(lambda: tool("list").returncode == 0, "anvil is back")
            self.assertEqual(len(self.rows(mx)), 3004)
            self.refused(mx, "n2999@rcpt.example", "by order")
            mx.reload()
            self.refused(mx, "n2998@rcpt.example", "by order")
            mx.stop()
            self.assertEqual(tool("list").returncode, 69)

    def test_a_list_that_cannot_be_opened_stops_no_mail(self):
        with Peer() as peer, self.instance(peer) as mx:
            os.rmdir(mx.path("data", "suppressed"))
            mx.write(mx.path("data", "suppressed"), "not a directory")
            self.assertEqual(mx.tool("pensuppress", "add", "jo@rcpt.example").returncode, 65)
            send(mx.port, FROM, ["jo@rcpt.example"], mail())
            peer.wait_messages()
            mx.wait_log(r"anvil\[\d+\]: warning: .*suppressed.*: the suppression list stops no mail")


class OverHttp(Listed):
    def test_penapi_shows_and_changes_the_list(self):
        with Peer() as peer, self.instance(peer, services=dict([UNIX]),
                                           penapi_token_file=token_file(self.folder())) as mx:
            api = Api(mx)
            path = "/api/v1/suppressed"
            self.assertEqual(api.get(path), {"addresses": []})
            self.assertEqual(api.ask(path, "POST", {"address": "jo@rcpt.example"})[0], 401)
            for body in ({"address": "jo"}, {}, {"address": "jo@rcpt.example", "reason": "whim"},
                         {"address": "jo@rcpt.example", "expires": "soon"}, {"address": "jo@rcpt.example", "x": "y"}):
                self.assertEqual(api.ask(path, "POST", body, TOKEN)[0], 400, body)
            self.assertEqual(api.ask(path, "POST", {"address": "jo@rcpt.example", "expires": 1}, TOKEN)[0], 409)
            for name in ("ann", "jo"):
                self.assertEqual(api.ask(path, "POST", {"address": f"{name}@rcpt.example", "reason": "complaint",
                                                        "text": "a letter"}, TOKEN)[0], 200)
            self.refused(mx, "jo@rcpt.example", "its reader complained")
            first = api.get(path + "?limit=1")
            rest = api.get(f"{path}?after={first['after']}&after_tenant={first['after_tenant']}")
            rows = [json.loads(line) for line in mx.tool("pensuppress", "-j", "list").stdout.splitlines()]
            self.assertEqual(first["addresses"] + rest["addresses"], rows)
            self.assertNotIn("after", rest)
            self.assertEqual(api.get(path + "/jo%40rcpt.example"), rows[1])
            self.assertEqual(api.ask(path + "/jo%40rcpt.example", "DELETE", token=TOKEN)[0], 200)
            self.assertEqual(api.ask(path + "/jo%40rcpt.example", "DELETE", token=TOKEN)[0], 404)
            self.assertEqual(api.ask(path + "/jo%40rcpt.example")[0], 404)
            self.assertRegex(self.rcpt(mx, "jo@rcpt.example"), "^250 ")


class Cluster(Listed):
    def test_hosts_share_the_list_and_do_without_the_server(self):
        if PROGRAM is None:
            self.skipTest("redis-server is not installed (scripts/install-dependencies --runtime-peers)")
        with RedisServer(acl=True) as redis, Peer() as peer:
            peer.replies["RCPT"] = refuses
            with self.instance(peer, redis.settings(), myhostname="a.test.example") as one, \
                    self.instance(peer, redis.settings(), myhostname="b.test.example") as two:
                send(one.port, FROM, ["gone@rcpt.example"], mail())
                for mx in (one, two):
                    self.refused(mx, "gone@rcpt.example", "its mail was refused for good")
                self.assertEqual(self.asked(peer, "gone@rcpt.example"), 1)
                two.tool("pensuppress", "remove", "gone@rcpt.example", check=True)
                for mx in (two, one):
                    eventually(lambda: self.rcpt(mx, "gone@rcpt.example").startswith("250 "), "it is off the list")
                one.tool("pensuppress", "add", "jo@rcpt.example", check=True)
                self.refused(two, "jo@rcpt.example", "by order")
                redis.kill()
                one.wait_log(r"anvil\[\d+\]: warning: suppression list: not shared for now")
                for mx in (one, two):
                    self.refused(mx, "jo@rcpt.example", "by order")
                self.assertRegex(self.rcpt(one, "good@rcpt.example"), "^250 ")


if __name__ == "__main__":
    unittest.main()
