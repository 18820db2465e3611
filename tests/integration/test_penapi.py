"""penapi: what it shows after a known run, orders with and without a token, and clients that mean no good."""
import base64
import contextlib
import http.client
import json
import os
import re
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor

from certificates import Authority
from dovecot_auth import FakeDovecot
from harness import *
from openapi import Description
from peer import server_context

TOKEN = "0123456789abcdef-test"
UNIX = "penapi", "unix n - n - - penapi"
DESCRIPTION = Description()


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
    """One instance's penapi, over its Unix socket or a port. Each answer is compared with the OpenAPI description."""

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
            DESCRIPTION.check(method, path, answer.status, answer.headers["Content-Type"], text)
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
                self.assertEqual({k[-7:-2]: v for k, v in now.items() if "rejects_by_status" in k and v},
                                 {"5.1.1": 2, "5.7.1": 1, "5.5.2": 1})
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


class OnTheWire(Suite):
    def test_bytes_tls_and_questions_of_dns_are_counted(self):
        """A message comes in by TLS and goes on by TLS, to a host that DNS names; another goes to a domain without."""
        authority = Authority(self.folder())
        certificate = authority.issue("mx.test.example")
        with Dns({("far.example", "MX"): [(10, "mx.far.example")], ("mx.far.example", "A"): ["127.0.0.1"]}) as dns, \
                Peer(("PIPELINING", "STARTTLS"), tls=server_context(certificate)) as peer:
            with Instance({**dns.settings(), "smtp_tcp_port": str(peer.port), "smtp_tls_security_level": "may",
                           "smtpd_tls_security_level": "may", "smtpd_tls_cert_file": certificate.pem,
                           "smtpd_tls_key_file": certificate.key}, dict([UNIX])) as mx:
                with Client(mx.port) as client:
                    client.expect("EHLO client.example", "250")
                    client.expect("STARTTLS", "220")
                    client.file.close()
                    client.socket = ssl.create_default_context(cafile=authority.pem).wrap_socket(
                        client.socket, server_hostname="mx.test.example")
                    client.file = client.socket.makefile("rb")
                    client.expect("EHLO client.example", "250")
                    client.send("", ["b@far.example", "c@nowhere.example"],  # no notice, which would be counted too
                                mail(body=("x" * 70 + "\r\n") * 80))
                api = Api(mx)

                def settled():
                    now = api.figures()
                    return now if now["penstock_smtp_messages_total"] == 1 and \
                        now['penstock_deliveries_total{result="bounced"}'] == 1 else None
                now = eventually(settled, lambda: f"both have their results\n{mx.log()}")
                tls = {name: value for name, value in now.items() if "tls_sessions" in name and value}
                self.assertEqual({name.split("{")[0]: value for name, value in tls.items()},
                                 {"penstock_smtpd_tls_sessions_total": 1, "penstock_smtp_tls_sessions_total": 1})
                self.assertTrue(all('version="TLSv1.3"' in name for name in tls), tls)
                as_postfix = api.figures("/metrics?compat=postfix")
                self.assertEqual([as_postfix[f"postfix_{name}_tls_connections_total"] for name in ("smtp", "smtpd")],
                                 [1, 1])
                self.assertGreater(now["penstock_smtpd_received_bytes_total"], 5000)
                self.assertGreater(now["penstock_smtp_sent_bytes_total"], 5000)
                self.assertGreater(now["penstock_queue_accepted_bytes_total"], 5000)
                self.assertGreaterEqual(now['penstock_dns_questions_total{answer="found"}'], 2)
                self.assertGreaterEqual(now['penstock_dns_questions_total{answer="none"}'], 1)
                self.assertEqual(now['penstock_smtp_connections_total{result="ok"}'], 1)

    def test_logins_silent_clients_and_replies_are_counted(self):
        """A wrong password and a right one; a message to three recipients, of which one waits and one is refused; a
        client that says nothing."""
        def log_in(peer, line):
            words = line.split("\t")
            if words[0] == "AUTH":
                right = base64.b64decode(line.partition("resp=")[2]).endswith(b"\0right")
                peer.sendall(f"{'OK' if right else 'FAIL'}\t{words[1]}\tuser=anna\n".encode())
        dovecot = FakeDovecot(log_in)
        self.addCleanup(dovecot.close)
        with Peer() as peer:
            peer.replies["RCPT"] = lambda session, line: ("450 4.2.0 later" if "later@" in str(line) else
                                                          "550 5.1.1 no" if "never@" in str(line) else None)
            with Instance({**relay_to(peer), "smtpd_sasl_auth_enable": "yes", "smtpd_sasl_type": "dovecot",
                           "smtpd_sasl_path": f"inet:127.0.0.1:{dovecot.port}", "smtpd_timeout": "3s",
                           "minimal_backoff_time": "4000s", "virtual_mailbox_maps":
                           inline({"u@virtual.test.example": "u/"})}, dict([UNIX])) as mx:
                with socket.create_connection(("127.0.0.1", mx.port)) as silent, Client(mx.port) as client:
                    for password, code in (("wrong", "535"), ("right", "235")):
                        words = base64.b64encode(f"\0anna\0{password}".encode()).decode()
                        client.expect("AUTH PLAIN " + words, code)
                    client.send("u@virtual.test.example", [f"{name}@rcpt.example" for name in ("ok", "later", "never")],
                                mail())
                    client.expect("QUIT", "221")
                    while silent.recv(1000):  # until it is put out
                        pass
                api = Api(mx)
                wanted = {"smtpd_authentications_total": 1, "smtpd_authentication_failures_total": 1,
                          "smtpd_messages_authenticated_total": 1, 'smtpd_timeouts_total{stage="connect"}': 1,
                          "queue_recipients_accepted_total": 4,  # and that of the notice
                          "queue_messages_removed_total": 1, "queue_messages_expired_total": 0,
                          'smtp_replies_total{class="transient"}': 1, 'smtp_replies_total{class="permanent"}': 1}

                def counted():
                    now = api.figures()
                    return {name: now["penstock_" + name] for name in wanted}, now
                eventually(lambda: counted()[0] == wanted, lambda: f"{wanted}, not {counted()[0]}\n{mx.log()}")
                self.assertGreater(counted()[1]['penstock_smtp_replies_total{class="positive"}'], 3)
                eventually(lambda: (now := counted()[1])["penstock_smtpd_disconnections_total"] ==
                           now["penstock_smtpd_connections_total"], "every session has ended")


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

    def test_a_host_that_takes_nothing_has_the_figures_that_the_alert_asks_for(self):
        self.deferred("a@other.example")

        def dead():
            now = self.api.figures()
            return next((k for k, v in now.items() if k.startswith("penstock_destination_failures{") and v > 0 and
                         "other" not in k.split('"')[1]), None), now
        found, now = eventually(lambda: (d := dead())[0] and d, lambda: f"the dead host\n{dead()}", 60)
        labels = found.removeprefix("penstock_destination_failures")
        self.assertEqual((now["penstock_destination_jobs" + labels], now["penstock_destination_connections" + labels]),
                         (0, 0))
        label = re.search(r'destination="(.*?)"', found)[1]
        self.assertRegex(label, r"^127\.0\.0\.\d+\[127\.0\.0\.\d+\]:\d+$")
        for command in ("explain", "show"):
            told = self.mx.tool("pendest", command, label, check=True).stdout
            self.assertIn("Connection refused", told)
        self.assertIn("penstock_queue_first_try_age_seconds", now)
        self.assertIn("penstock_queue_overdue_seconds", now)

    def test_destinations_in_trouble_are_named_and_counted(self):
        self.assertEqual(self.api.get("/api/v1/trouble"), {"in_trouble": 0, "destinations": []})
        self.deferred("a@other.example")
        path = "/api/v1/destinations/x.example/suspend"
        self.assertEqual(self.api.ask(path, "POST", {"reason": "work"}, TOKEN)[0], 200)
        shown = eventually(lambda: (found := self.api.get("/api/v1/trouble"))["in_trouble"] == 2 and found,
                           lambda: f"two in trouble\n{self.api.get('/api/v1/trouble')}", 60)
        suspension, failing = shown["destinations"]
        self.assertEqual((suspension["type"], suspension["reason"]), ("suspension", "work"))
        self.assertEqual(failing["state"], "failing")
        self.assertIn("Connection refused", json.dumps(failing))
        short = self.api.get("/api/v1/trouble?limit=1")
        self.assertEqual((short["in_trouble"], len(short["destinations"])), (2, 1))
        for query in ("limit=101", "limit=x", "other=1"):
            self.assertEqual(self.api.ask("/api/v1/trouble?" + query)[0], 400)

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

    def test_questions_about_messages_and_destinations_have_their_turn(self):
        clients, turns, others = 30, 8, 2  # others: about the state of qmgr and anvil, which cost them nothing
        self.assertEqual(self.ids(), set())
        (pid,) = [s["pid"] for s in self.mx.status()["services"] if s["service"] == "penapi/unix"]
        qmgr = self.mx.pids()["qmgr"]

        def asking():
            """Its connections to others; those that it has accepted have a path, also those of a moment ago."""
            sockets = set()
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(FileNotFoundError):
                    what = os.readlink(f"/proc/{pid}/fd/{fd}")
                    if what.startswith("socket:["):
                        sockets.add(what[8:-1])
            with open("/proc/net/unix", errors="replace") as table:
                return len(sockets - {words[6] for words in map(str.split, table) if len(words) > 7})
        quiet = asking()
        for path in ("/api/v1/queue/4bNone", "/api/v1/destinations", "/api/v1/destinations/there.example"):
            with self.subTest(path), contextlib.ExitStack() as stack:
                suspend(*qmgr)
                stack.callback(resume, *qmgr)
                connections = [stack.enter_context(contextlib.closing(self.api.connection())) for _ in range(clients)]
                for connection in connections:
                    connection.request("GET", path)
                seen = []
                eventually(lambda: seen.append(asking()) or seen[-1] >= quiet + turns, lambda: seen)
                for connection in connections[:turns]:  # nobody is greeted
                    connection.getresponse().read()
                    seen.append(asking())
                self.assertLess(max(seen), quiet + turns + others + 1)
                resume(*qmgr)
                for connection in connections[turns:]:
                    connection.getresponse().read()

    def test_settings_are_shown_without_secrets(self):
        self.mx.set(destdb_redis_password="hunter2-hunter2", smtp_sasl_password_maps=inline({"h": "u:hunter2-hunter2"}),
                    myldap_bind_pw="hunter2-hunter2",
                    event_webhooks="http://user:hunter2-hunter2@127.0.0.1:9/hook http://127.0.0.1:9/other")
        self.mx.reload()

        def shown():
            found = {s["name"]: s for s in self.api.get("/api/v1/settings")["settings"]}
            return found if "destdb_redis_password" in found else None
        settings = eventually(shown, "the new settings")
        self.assertEqual(settings["myhostname"]["value"], "mx.test.example")
        for name in ("destdb_redis_password", "smtp_sasl_password_maps", "myldap_bind_pw"):
            self.assertTrue(settings[name]["hidden"])
        self.assertEqual(settings["event_webhooks"]["value"], "http://127.0.0.1:9/hook http://127.0.0.1:9/other")
        self.assertNotIn("hunter2", json.dumps(settings))
        # What no line of main.cf has is not told as set there.
        self.assertEqual({"service_name", "process_name", "process_id"} & set(settings), set())


class Health(Suite):
    def wait(self, api, path, status):
        """Returns the answer with that status, when it comes."""
        seen = []

        def look():
            seen[:] = [api.ask(path)]
            return seen[0][1] if seen[0][0] == status else None
        return eventually(look, lambda: f"{path}: {status}, not {seen}", 60)

    def test_it_says_what_is_wrong_for_as_long_as_it_is(self):
        with Instance({}, dict([UNIX])) as mx:
            api = Api(mx)
            with self.subTest("all is well"):
                self.assertEqual(self.wait(api, "/healthz", 200)["problems"], [])
                self.assertEqual(self.wait(api, "/readyz", 200), {"ready": True, "accepting": True, "recovered": True})

            with self.subTest("a queue manager that does not answer"):
                pid, = mx.pids()["qmgr"]
                with suspended(pid):
                    with ThreadPoolExecutor() as pool:
                        listing = pool.submit(api.ask, "/api/v1/queue")  # is given ten seconds
                        began = time.monotonic()
                        said = self.wait(api, "/readyz", 503)
                        self.assertFalse(said["ready"] or said["accepting"])
                        self.assertIn("the queue manager does not answer", said["problem"])
                        self.assertEqual(api.figures()["penstock_up"], 0)
                        self.assertLess(time.monotonic() - began, 30, "less than a minute, whatever the machine does")
                        self.assertEqual(listing.result()[0], 503, "not an empty queue")
                self.assertTrue(self.wait(api, "/readyz", 200)["ready"])

            with self.subTest("a service whose program dies, and the rest goes on"):
                port = free_port()
                bad = f"0.0.0.0:{port}"  # a penapi that does not start, for it has no certificate
                mx.set_services({bad: "inet n - n - 1 penapi"})
                mx.reload()
                eventually(lambda: answers(port), "the new port is open")  # which wakes the program
                said = self.wait(api, "/healthz", 503)
                self.assertFalse(said["healthy"])
                self.assertTrue(any(p.startswith(f"service {bad}/inet dies: ") for p in said["problems"]), said)
                self.assertTrue(api.get("/readyz")["ready"])
                mx.set_services({bad: None})
                mx.reload()
                self.assertTrue(self.wait(api, "/healthz", 200)["healthy"])

            with self.subTest("a disk without room for the largest message"):
                mx.set(message_size_limit=str(2 ** 62))
                mx.reload()
                said = self.wait(api, "/healthz", 503)
                self.assertTrue(all(d["low"] for d in said["disks"]), said)
                self.assertEqual(len(said["problems"]), 3)
                mx.set(message_size_limit="10240000")
                mx.reload()
                self.wait(api, "/healthz", 200)


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

    def test_what_comes_too_often_has_a_reason_of_its_own(self):
        with Instance({"smtpd_client_event_limit_exceptions": "", "smtpd_client_message_rate_limit": "2",
                       "smtpd_client_recipient_rate_limit": "1", "smtpd_error_sleep_time": "0"}, dict([UNIX])) as mx:
            with Client(mx.port) as c:
                for code in ("250", "250", "450"):
                    self.assertEqual(c.command("MAIL FROM:<a@local.test.example>")[:3], code)
                    if code == "250":
                        c.command("RCPT TO:<u@virtual.test.example>")
                        c.command("RSET")
                c.quit()
            counted = lambda: {k.split("{")[1]: v for k, v in Api(mx).figures().items()
                               if k.startswith("penstock_smtpd_rejects_total{") and 'code="450"' in k}
            eventually(lambda: counted() == {'stage="mail",code="450",reason="rate"}': 1,
                                             'stage="rcpt",code="450",reason="rate"}': 1}, lambda: str(counted()), 60)

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
