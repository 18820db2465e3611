"""penapi: what it shows after a known run, orders with and without a token, and clients that mean no good."""
import http.client
import json
import os
import re
import socket

from harness import *

TOKEN = "0123456789abcdef-test"
UNIX = "penapi", "unix n - n - - penapi"


class Unix(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Api:
    """One instance's penapi, over its Unix socket or a port."""

    def __init__(self, mx, port=None):
        self.mx, self.port = mx, port

    def connection(self):
        if self.port:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        return Unix(self.mx.path("spool", "public", "penapi"))

    def ask(self, path, method="GET", body=None, token=None, headers=None):
        """Returns (status, content)."""
        client = self.connection()
        try:
            fields = dict(headers or {})
            if token:
                fields["Authorization"] = "Bearer " + token
            if isinstance(body, dict):
                body = json.dumps(body)
            client.request(method, path, body=body, headers=fields)
            answer = client.getresponse()
            text = answer.read().decode()
            as_json = answer.headers["Content-Type"] == "application/json" and text
            return answer.status, json.loads(text) if as_json else text
        finally:
            client.close()

    def get(self, path, **more):
        status, content = self.ask(path, **more)
        if status != 200:
            raise AssertionError(f"{path}: {status} {content}")
        return content

    def figures(self, path="/metrics"):
        """Returns sample -> value."""
        found = {}
        for line in self.get(path).splitlines():
            if not line.startswith("#"):
                sample, _, value = line.rpartition(" ")
                if sample in found:
                    raise AssertionError("twice: " + sample)
                found[sample] = float(value)
        return found


def nobody():
    """A transport that puts everything off: nobody listens there."""
    return f"smtp:[127.0.0.1]:{free_port()}"


def port_of(service):
    return f"127.0.0.1:{service}", "inet n - n - - penapi"


def token_file(directory, mode=0o600):
    path = os.path.join(directory, "tokens")
    with open(path, "w") as out:
        out.write(f"# monitor\n{TOKEN}\n")
    os.chmod(path, mode)
    return path


class Figures(Suite):
    def test_a_known_run_is_counted(self):
        """4 messages are taken (2 for a mailbox, 1 that a peer defers, 1 that it refuses); three recipients are
        refused, one command is broken, one client goes without QUIT."""
        with Peer() as good:
            def answer(session, line):
                if "later@" in str(line):
                    return "450 4.2.0 later"
                return "550 5.1.1 no such user" if "never@" in str(line) else None
            good.replies["RCPT"] = answer
            with Instance({**relay_to(good), "smtpd_relay_restrictions": "permit_mynetworks, reject_unauth_destination",
                           "smtpd_client_restrictions": "",
                           "smtpd_recipient_restrictions":
                           inline_access({"bad@local.test.example": "554 5.7.1 not you"}),
                           "virtual_mailbox_maps": inline({"u@virtual.test.example": "u/"})},
                          dict([UNIX])) as mx:
                api = Api(mx)
                for to in ("u@virtual.test.example", "u@virtual.test.example", "later@rcpt.example",
                           "never@rcpt.example"):
                    send(mx.port, "u@virtual.test.example", [to], mail(to))
                with Client(mx.port) as c:
                    c.command("MAIL FROM:<x@example.org>")
                    for _ in range(2):
                        self.assertEqual(c.command("RCPT TO:<nobody@virtual.test.example>")[:3], "550")
                    self.assertEqual(c.command("RCPT TO:<bad@local.test.example>")[:3], "554")
                    self.assertEqual(c.command("DATE")[:3], "500")
                    c.quit()
                lost = socket.create_connection(("127.0.0.1", mx.port))
                lost.recv(100)
                lost.close()

                def settled():
                    now = api.figures()
                    return now if (now['penstock_deliveries_total{result="bounced"}'] >= 1 and
                                   now['penstock_delivery_attempts_total{agent="smtp",result="deferred"}'] >= 1 and
                                   now['penstock_smtpd_connections_lost_total{stage="connect"}'] >= 1 and
                                   now['penstock_deliveries_total{result="delivered"}'] >= 3) else None
                now = eventually(lambda: quietly(settled), lambda: f"figures of the run\n{api.get('/metrics')}")
                self.assertEqual(now["penstock_smtpd_messages_total"], 4)
                self.assertEqual(now["penstock_smtpd_recipients_total"], 4)
                # the notice of the failure to the sender is the fifth
                self.assertEqual(now["penstock_queue_messages_accepted_total"], 5)
                self.assertEqual(now["penstock_cleanup_messages_total"], 5)
                self.assertEqual(now['penstock_smtpd_rejects_total{stage="rcpt",code="550",reason="unknown_user"}'], 2)
                self.assertEqual(now['penstock_smtpd_rejects_total{stage="rcpt",code="554",reason="policy"}'], 1)
                self.assertEqual(now['penstock_smtpd_rejects_total{stage="other",code="500",reason="protocol"}'], 1)
                rejects = [v for k, v in now.items() if k.startswith("penstock_smtpd_rejects_total")]
                self.assertEqual(sum(rejects), 4)
                self.assertEqual(now['penstock_deliveries_total{result="bounced"}'], 1)
                self.assertEqual(now['penstock_delivery_age_seconds_count{result="bounced"}'], 1)
                self.assertEqual(now["penstock_up"], 1)
                self.assertGreater(now["penstock_queue_syncs_total"], 0)
                self.assertEqual(now["penstock_queue_syncs_total"], now["penstock_queue_sync_seconds_count"])

                with self.subTest("the same under the names of Postfix's exporter"):
                    as_postfix = api.figures("/metrics?compat=postfix")
                    self.assertEqual(as_postfix['postfix_smtpd_messages_rejected_total{code="550"}'], 2)
                    self.assertEqual(as_postfix['postfix_smtpd_messages_rejected_total{code="554"}'], 1)
                    self.assertNotIn('postfix_smtpd_messages_rejected_total{code="500"}', as_postfix)
                    self.assertEqual(as_postfix["postfix_cleanup_messages_processed_total"], 5)
                    for name, status in (("sent", 0), ("bounced", 1), ("deferred", 1)):
                        self.assertGreaterEqual(
                            as_postfix[f'postfix_smtp_messages_processed_total{{status="{name}"}}'], status)
                    log = mx.log()
                    self.assertEqual(as_postfix["postfix_smtpd_connects_total"],
                                     len(re.findall(r"smtpd\[\d+\]: connect from", log)))

                with self.subTest("the queue by state"):
                    shown = eventually(lambda: quietly(lambda: api.figures()
                                                       if api.figures().get('penstock_queue_messages{state="deferred"}')
                                                       else None), "the deferred message among the figures")
                    self.assertEqual(shown['penstock_queue_messages{state="deferred"}'], 1)
                    self.assertEqual(shown['penstock_queue_messages{state="hold"}'], 0)

                with self.subTest("counters survive programs that are killed"):
                    before = api.figures()
                    for program in ("smtpd", "qmgr"):
                        self.assertEqual(mx.kill(program), 1)
                        eventually(lambda: mx.pids().get(program), f"a new {program}")
                    eventually(lambda: answers(mx.port), "smtpd again")
                    eventually(lambda: api.ask("/readyz")[0] == 200, "qmgr again")
                    after = api.figures()
                    fell = {k: (v, after.get(k, 0)) for k, v in before.items()
                            if ("_total" in k or "_count" in k) and after.get(k, 0) < v}
                    self.assertEqual(fell, {})
                    send(mx.port, "u@virtual.test.example", ["u@virtual.test.example"], mail("again"))
                    self.assertEqual(api.figures()["penstock_smtpd_messages_total"],
                                     before["penstock_smtpd_messages_total"] + 1)


def quietly(look):
    """A look that may come too early: a sample that is not there yet is no fault."""
    try:
        return look()
    except KeyError:
        return None


def inline_access(pairs):
    return "check_recipient_access " + inline(pairs) + ", permit"


class Orders(Suite):
    def setUp(self):
        self.dir = self.folder()
        self.port_number = free_port()
        self.mx = Instance({"penapi_token_file": token_file(self.dir), "default_transport": nobody(),
                            "relay_domains": "later.example"},
                           dict([UNIX, port_of(self.port_number)]))
        self.enterContext(self.mx)
        self.api = Api(self.mx)

    def ids(self, state=""):
        return {m["queue_id"] for m in self.api.get("/api/v1/queue" + state)["messages"]}

    def deferred(self, *recipients):
        for to in recipients:
            send(self.mx.port, "s@local.test.example", [to], mail(to))
        eventually(lambda: len(self.ids("?state=deferred")) == len(recipients), "deferred messages")

    def test_orders_are_carried_out_with_a_token_only(self):
        self.deferred("a@later.example", "b@later.example", "c@other.example")
        for token in (None, "wrong", TOKEN + "x", TOKEN[:-1]):
            status, content = self.api.ask("/api/v1/queue/delete", "POST", {"all": True}, token)
            self.assertEqual((status, list(content)), (401, ["error"]))
        self.assertEqual(len(self.ids()), 3)

        one = sorted(self.ids())[0]
        status, content = self.api.ask("/api/v1/queue/hold", "POST", {"ids": [one]}, TOKEN)
        self.assertEqual((status, content), (200, {"order": "hold", "count": 1}))
        self.assertEqual(self.ids("?state=hold"), {one})
        status, content = self.api.ask("/api/v1/queue/delete", "POST",
                                       {"filter": {"domain": "other.example"}, "dry_run": True}, TOKEN)
        self.assertEqual((content["count"], len(content["ids"])), (1, 1))
        self.assertEqual(len(self.ids()), 3)
        status, content = self.api.ask("/api/v1/queue/delete", "POST", {"filter": {"domain": "other.example"}}, TOKEN)
        self.assertEqual(content, {"order": "delete", "count": 1})
        self.assertEqual(len(self.ids()), 2)
        self.assertEqual(self.api.ask("/api/v1/queue/release", "POST", {"ids": [one]}, TOKEN)[1]["count"], 1)
        eventually(lambda: self.ids("?state=hold") == set(), "nothing on hold")
        self.assertEqual(self.api.ask("/api/v1/queue/" + one, "DELETE", token=TOKEN)[0], 200)
        self.assertEqual(self.api.ask("/api/v1/queue/" + one, "DELETE", token=TOKEN)[0], 404)
        self.assertEqual(self.api.ask("/api/v1/queue/" + one)[0], 404)
        self.assertEqual(self.api.ask("/api/v1/queue/flush", "POST", {"all": True}, TOKEN)[0], 200)
        self.assertEqual(self.api.ask("/api/v1/queue/expire", "POST", {"all": True}, TOKEN)[0], 200)
        eventually(lambda: self.ids() == set(), "an empty queue")
        self.assertEqual(self.api.figures()['penstock_deliveries_total{result="expired"}'], 1)
        self.mx.wait_log(r"penapi\[\d+\]: order: delete \(by choice\): 1 messages")

    def test_what_might_mean_everything_by_mistake_is_refused(self):
        self.deferred("a@later.example")
        for body in ("", "{}", "[]", '{"ids": []}', '{"filter": {}}', '{"filter": {"sendr": "x"}}', "{" * 60000,
                     '{"all": true', "\x00"):
            status, content = self.api.ask("/api/v1/queue/delete", "POST", body, TOKEN)
            self.assertEqual((body[:30], status), (body[:30], 400))
            self.assertIn("error", content)
        self.assertEqual(len(self.ids()), 1)

    def test_destinations_are_suspended_and_resumed(self):
        path = "/api/v1/destinations/mx.example/suspend"
        self.assertEqual(self.api.ask(path, "POST")[0], 401)
        self.assertEqual(self.api.ask(path, "POST", {"reason": "work there"}, TOKEN)[0], 200)
        shown = self.api.get("/api/v1/destinations/mx.example")["destinations"]
        self.assertEqual([(d["type"], d["reason"]) for d in shown], [("suspension", "work there")])
        self.assertEqual(json.loads(self.mx.tool("pendest", "-j", "show", "mx.example").stdout.splitlines()[-1]),
                         shown[0])
        self.assertEqual(self.api.ask(path.replace("suspend", "resume"), "POST", token=TOKEN)[0], 200)
        self.assertEqual(self.api.ask("/api/v1/destinations/mx.example")[0], 404)
        self.assertEqual(self.api.ask("/api/v1/destinations/a%40b/suspend", "POST", token=TOKEN)[0], 400)

    def test_views_show_what_the_tools_show(self):
        self.deferred("a@later.example", "b@later.example", "c@later.example")
        by_tool = [json.loads(line) for line in self.mx.tool("penqueue", "-j").stdout.splitlines()]
        pages = [self.api.get(f"/api/v1/queue?limit=2&offset={n}") for n in (0, 2)]
        self.assertEqual([len(p["messages"]) for p in pages], [2, 1])
        self.assertEqual([p.get("next_offset") for p in pages], [2, None])
        for message in pages[0]["messages"] + pages[1]["messages"]:
            message.pop("next_try")
            self.assertEqual(message.pop("recipients_total"), 1)
            self.assertIn(message, by_tool)
        for bad in ("limit=1001", "limit=x", "offset=-1", "older=x", "state=gone", "nonsense=1", "limit=1&limit=1"):
            self.assertEqual((bad, self.api.ask("/api/v1/queue?" + bad)[0]), (bad, 400))
        self.assertEqual(self.api.ask("/api/v1/queue/nonsense!")[0], 400)
        services = self.api.get("/api/v1/services")
        self.assertEqual({s["service"] for s in services["services"]},
                         {s["service"] for s in self.mx.status()["services"]})
        told = self.api.get("/api/v1/explain?recipient=x%40later.example")
        self.assertEqual(told["recipient"], "x@later.example")
        for bad in ("", "?recipient=", "?recipient=nobody", "?recipient=%40x.example"):
            self.assertEqual((bad, self.api.ask("/api/v1/explain" + bad)[0]), (bad, 400))
        self.assertEqual(self.api.get("/api/v1/sessions")["classes"], [])
        self.assertTrue(self.api.get("/healthz")["healthy"])
        self.assertTrue(self.api.get("/readyz")["ready"])

    def test_settings_are_shown_without_secrets(self):
        self.mx.set(destdb_redis_password="hunter2-hunter2", smtp_sasl_password_maps=inline({"h": "u:hunter2-hunter2"}))
        self.mx.reload()

        def shown():
            found = {s["name"]: s for s in self.api.get("/api/v1/settings")["settings"]}
            return found if "destdb_redis_password" in found else None
        settings = eventually(shown, "the new settings")
        self.assertEqual(settings["myhostname"]["value"], "mx.test.example")
        for name in ("destdb_redis_password", "smtp_sasl_password_maps"):
            self.assertTrue(settings[name]["hidden"])
        self.assertNotIn("hunter2", json.dumps(settings))


class Strangers(Suite):
    def raw(self, mx, text, port=None):
        """Sends bytes and returns everything until the end."""
        if port:
            s = socket.create_connection(("127.0.0.1", port))
        else:
            s = socket.socket(socket.AF_UNIX)
            s.connect(mx.path("spool", "public", "penapi"))
        s.settimeout(60)
        with s:
            try:
                s.sendall(text)
            except (BrokenPipeError, ConnectionResetError):
                pass
            got = b""
            while True:
                try:
                    piece = s.recv(65536)
                except ConnectionResetError:
                    return got
                if not piece:
                    return got
                got += piece

    def test_garbage_is_refused_and_the_program_goes_on(self):
        with Instance({"penapi_timeout": "2s"}, dict([UNIX])) as mx:
            api = Api(mx)
            api.get("/readyz")
            pid = mx.pids()["penapi"]
            for text, status in ((b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"400"),
                                 (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 10000, b"431"),
                                 (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 3000, b"431"),
                                 (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 70000\r\n\r\n", b"413"),
                                 (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"501"),
                                 (b"GET / HTTP/3.0\r\n\r\n", b"505"),
                                 (b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", b"400")):
                self.assertTrue(self.raw(mx, text).startswith(b"HTTP/1.1 " + status), (text[:40], status))
            with self.subTest("slow clients"):
                self.assertTrue(self.raw(mx, b"GET / HTTP/1.1\r\nHost:").startswith(b"HTTP/1.1 408"))
                slow_body = b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab"
                self.assertTrue(self.raw(mx, slow_body).startswith(b"HTTP/1.1 408"))
                self.assertEqual(self.raw(mx, b""), b"")  # says nothing, and is told nothing
            self.assertEqual(api.ask("/nothing")[0], 404)
            status, _ = api.ask("/metrics", "POST", "{}")
            self.assertEqual(status, 405)
            self.assertEqual(mx.pids()["penapi"], pid)
            with self.subTest("one connection, several requests"):
                client = api.connection()
                for path in ("/readyz", "/metrics", "/healthz"):
                    client.request("GET", path)
                    self.assertEqual(client.getresponse().read()[:0], b"")
                client.request("HEAD", "/readyz")
                answer = client.getresponse()
                self.assertEqual((answer.status, answer.read()), (200, b""))
                self.assertGreater(int(answer.headers["Content-Length"]), 0)
                client.close()

    def test_a_web_site_cannot_ask_in_the_name_of_a_visitor(self):
        port = free_port()
        with Instance({}, dict([port_of(port)])) as mx:
            api = Api(mx, port)
            api.get("/metrics")
            self.assertEqual(api.ask("/metrics", headers={"Host": "evil.example"})[0], 421)
            self.assertEqual(api.ask("/metrics", headers={"Host": "mx.test.example"})[0], 200)

    def test_hostile_addresses_stay_data(self):
        with Instance({"default_transport": nobody()},
                      dict([UNIX])) as mx:
            sender = '"</script>\\"a"@example.org'
            send(mx.port, sender, ["x@other.example"], mail("hostile"))
            api = Api(mx)
            found = eventually(lambda: api.get("/api/v1/queue?state=deferred")["messages"], "the message")
            self.assertEqual(found[0]["sender"], sender)
            client = api.connection()
            client.request("GET", "/api/v1/queue")
            answer = client.getresponse()
            answer.read()
            self.assertEqual(answer.headers["Content-Type"], "application/json")
            self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff")
            client.close()

    def test_reading_can_be_for_tokens_only(self):
        tokens = token_file(self.folder())
        with Instance({"penapi_require_token": "yes", "penapi_token_file": tokens}, dict([UNIX])) as mx:
            api = Api(mx)
            self.assertEqual(api.ask("/metrics")[0], 401)
            self.assertEqual(api.ask("/healthz")[0], 200)
            self.assertEqual(api.ask("/metrics", token=TOKEN)[0], 200)

    def test_connections_are_limited(self):
        with Instance({"penapi_connection_limit": "1"}, dict([UNIX])) as mx:
            api = Api(mx)
            first = api.connection()
            first.request("GET", "/readyz")
            first.getresponse().read()
            second = api.connection()
            second.request("GET", "/readyz")
            second.sock.settimeout(1)
            with self.assertRaises(TimeoutError):
                second.sock.recv(1, socket.MSG_PEEK)
            first.close()
            second.sock.settimeout(60)
            self.assertEqual(second.getresponse().status, 200)
            second.close()

    def test_without_a_token_file_orders_are_refused(self):
        with Instance({}, dict([UNIX])) as mx:
            self.assertEqual(Api(mx).ask("/api/v1/queue/flush", "POST", {"all": True}, TOKEN)[0], 403)

    def test_few_destinations_have_figures_of_their_own(self):
        with Instance({"penapi_destination_limit": "0"}, dict([UNIX])) as mx:
            now = eventually(lambda: quietly(lambda: Api(mx).figures()), "figures")
            shown = [k for k in now if k.startswith("penstock_destination_connections")]
            self.assertEqual(shown, ['penstock_destination_connections{destination="other",transport=""}'])


class Tokens(Suite):
    def test_a_token_file_that_others_can_read_is_refused(self):
        with Instance({"penapi_token_file": token_file(self.folder(), 0o644)}, dict([port_of(free_port())]),
                      start=False) as mx:
            mx.tool("penstock", "start")
            mx.wait_log(r"penapi\[\d+\]: error: .*others may read or write it")
            self.assertNotIn(TOKEN, mx.log())


if __name__ == "__main__":
    unittest.main()
