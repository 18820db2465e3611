"""AUTH in the SMTP client: real servers (Postfix with Dovecot, and this smtpd) ask for a login."""
import base64
import http.server
import json
import re
import threading
import urllib.parse

import peers
from harness import *

ANNA, BERTA = "anna@local.test.example", "berta"
PASSWORDS = {ANNA: "secret, one", BERTA: "b\u00e4r two"}
TOKEN = "ya29.vF9dft4qmTc2Nvb3RlckBhdHRhdmlzdGEuY29tCg"
MECHANISMS = ("PLAIN", "LOGIN", "CRAM-MD5", "SCRAM-SHA-1", "SCRAM-SHA-256")


class Tokens:
    """Knows valid tokens and their users (RFC 7662): token -> name."""

    def __init__(self, tokens):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                name = tokens.get(form.get("token", [""])[0])
                body = json.dumps({"active": True, "username": name} if name else {"active": False}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def transport(*options):
    return "unix - - n - - smtp " + " ".join(f"-o {o}" for o in options)


@unittest.skipIf(peers.unavailable(), peers.unavailable())
class ToPostfix(Suite):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tokens = Tokens({TOKEN: ANNA})
        cls.addClassCleanup(tokens.close)
        cls.dovecot = peers.Dovecot(free_port(), logins=PASSWORDS, auth_port=free_port(), introspection=tokens.url)
        cls.addClassCleanup(cls.dovecot.stop)
        cls.dovecot.start()
        cls.postfix = peers.Postfix(free_port(), settings=f"""smtpd_sasl_auth_enable = yes
smtpd_sasl_type = dovecot
smtpd_sasl_path = inet:127.0.0.1:{cls.dovecot.auth_port}
mynetworks = 192.0.2.1/32
smtpd_relay_restrictions = permit_sasl_authenticated, reject
default_transport = discard:
""")
        cls.addClassCleanup(cls.postfix.stop)
        cls.postfix.start()

    def instance(self, passwords, routes, services=None, **settings):
        """routes: domain -> transport name (or ""), all to Postfix; passwords: key -> user:password."""
        mx = Instance(start=False)
        self.addCleanup(mx.close)
        self.table = mx.write("sasl_passwd", "")
        self.passwords(passwords)
        mx.set(relay_domains=", ".join(routes), smtp_sasl_auth_enable="yes",
               smtp_sasl_password_maps=f"texthash:{self.table}", smtp_sasl_security_options="noanonymous",
               transport_maps=inline({domain: f"{name or 'smtp'}:[127.0.0.1]:{self.postfix.port}"
                                      for domain, name in routes.items()}), **settings)
        mx.set_services(services or {})
        mx.start()
        return mx

    def passwords(self, passwords):
        with open(self.table, "w") as out:
            out.write("".join(f"{key} {value}\n" for key, value in passwords.items()))

    @property
    def hop(self):
        return f"[127.0.0.1]:{self.postfix.port}"

    def submit(self, mx, domain, sender="x@local.test.example"):
        return re.search(r"queued as (\w+)", send(mx.port, sender, [f"y@{domain}"], mail()))[1]

    def test_every_mechanism_gets_mail_through(self):
        names = {m.lower(): m for m in MECHANISMS}
        mx = self.instance({self.hop: f"{ANNA}:{PASSWORDS[ANNA]}"}, {f"{n}.example": n for n in names},
                           {n: transport(f"smtp_sasl_mechanism_filter={n}") for n in names})
        for name, mechanism in names.items():
            mx.wait_log(self.submit(mx, f"{name}.example") + r": to=<y@\S+ relay=\S+ .*status=sent")
            self.postfix.wait_log(f"sasl_method={mechanism}, sasl_username={ANNA}")
        self.assertNotIn(PASSWORDS[ANNA], mx.log())

    def test_a_token_gets_mail_through(self):
        mx = self.instance({self.hop: f"{ANNA}:{TOKEN}"}, {"token.example": "token"},
                           {"token": transport("smtp_sasl_mechanism_filter=xoauth2")})
        mx.wait_log(self.submit(mx, "token.example") + r": to=<y@\S+ relay=\S+ .*status=sent")
        self.postfix.wait_log(f"sasl_method=XOAUTH2, sasl_username={ANNA}")
        self.assertNotIn(TOKEN, mx.log())

    def test_a_token_that_has_expired_makes_mail_wait(self):
        mx = self.instance(
            {self.hop: f"{ANNA}:expired"},
            {"token.example": "token"},
            {"token": transport("smtp_sasl_mechanism_filter=xoauth2")},
        )
        mx.wait_log(
            self.submit(mx, "token.example")
            + r": to=<y@\S+ .*dsn=4\.7\.8, status=deferred \(SASL authentication failed; "
            r"server 127\.0\.0\.1\S* said: 535 5\.7\.8 "
        )

    def test_the_strongest_is_chosen_and_options_may_leave_none(self):
        mx = self.instance({self.hop: f"{BERTA}:{PASSWORDS[BERTA]}"}, {"any.example": "", "none.example": "none"},
                           {"none": transport("smtp_sasl_mechanism_filter=plain,login",
                                              "smtp_sasl_security_options=noplaintext")})
        before = len(self.postfix.log())
        mx.wait_log(self.submit(mx, "any.example") + r": to=<y@\S+ .*status=sent")
        self.postfix.wait_log(f"sasl_method=SCRAM-SHA-256, sasl_username={BERTA}", before)
        mx.wait_log(
            self.submit(mx, "none.example") + r": to=<y@\S+ .*dsn=4\.7\.0, status=deferred \(SASL authentication "
            r"failed; cannot authenticate to server \S+: no mechanism available\)"
        )

    def test_a_wrong_password_defers_until_it_is_right(self):
        mx = self.instance({self.hop: f"{ANNA}:guess"}, {"soft.example": "plain", "hard.example": "hard"},
                           {"plain": transport("smtp_sasl_mechanism_filter=plain"),
                            "hard": transport("smtp_sasl_mechanism_filter=plain", "smtp_sasl_auth_soft_bounce=no")},
                           minimal_backoff_time="1s", maximal_backoff_time="1s")
        soft = self.submit(mx, "soft.example")
        mx.wait_log(soft + r": to=<y@\S+ .*dsn=4\.7\.8, status=deferred \(SASL authentication failed; server "
                    r"127\.0\.0\.1\S* said: 535 5\.7\.8 ")
        hard = self.submit(mx, "hard.example")
        mx.wait_log(hard + r": to=<y@\S+ .*dsn=5\.7\.8, status=bounced \(SASL authentication failed; server ")
        self.passwords({self.hop: f"{ANNA}:{PASSWORDS[ANNA]}"})

        def gone():
            mx.flush()
            return re.search(soft + r": to=<y@\S+ .*status=sent", mx.log())
        eventually(gone, "sent with the new password")

    def test_senders_have_their_own_logins_and_connections(self):
        mx = self.instance({"anna@a.example": f"{ANNA}:{PASSWORDS[ANNA]}", "@b.example": f"{BERTA}:{PASSWORDS[BERTA]}",
                            self.hop: f"{BERTA}:wrong"},
                           {"one.example": "", "two.example": ""}, smtp_sender_dependent_authentication="yes")
        before = len(self.postfix.log())
        for sender, domain in (("anna@a.example", "one.example"), ("x@b.example", "one.example"),
                               ("anna@a.example", "two.example"), ("y@b.example", "two.example")):
            mx.wait_log(self.submit(mx, domain, sender) + r": to=<y@\S+ .*status=sent")
        for sender, user, mails in (("anna@a.example", ANNA, 2), ("x@b.example", BERTA, 1), ("y@b.example", BERTA, 1)):
            came = rf"(\w+): from=<{re.escape(sender)}>"
            self.postfix.wait_log(rf"(?s)(?:{came}.*){{{mails}}}", before)
            for queue_id in re.findall(came, self.postfix.log()[before:]):
                self.postfix.wait_log(rf"{queue_id}: client=\S+ sasl_method=\S+ sasl_username={re.escape(user)}\n",
                                      before)
        mx.wait_log(self.submit(mx, "one.example", "other@c.example") + r": to=<y@\S+ .*status=deferred \(SASL")

    def test_where_nobody_asks_or_nothing_is_known_mail_goes_as_before(self):
        with Peer() as peer:
            mx = Instance({**relay_to(peer), "smtp_sasl_auth_enable": "yes",
                           "smtp_sasl_password_maps": inline({f"[127.0.0.1]:{peer.port}": "user:password"})})
            self.addCleanup(mx.close)
            send(mx.port, "x@local.test.example", ["y@rcpt.example"], mail())
            peer.wait_messages(1)
            self.assertFalse([c for c in peer.sessions[-1].commands if c.upper().startswith("AUTH")])

    def test_a_table_that_cannot_be_read_makes_mail_wait(self):
        with Peer() as peer:
            mx = Instance({**relay_to(peer), "smtp_sasl_auth_enable": "yes",
                           "smtp_sasl_password_maps": "texthash:/nonexistent/sasl_passwd"})
            self.addCleanup(mx.close)
            send(mx.port, "x@local.test.example", ["y@rcpt.example"], mail())
            mx.wait_log(r"to=<y@rcpt.example>.*dsn=4\.3\.0, status=deferred \(look-up of credentials failed")
            self.assertEqual(peer.sessions, [])

    def test_our_own_server_takes_our_own_client(self):
        inside = Instance({"smtpd_sasl_auth_enable": "yes", "smtpd_sasl_type": "dovecot", "mynetworks": "192.0.2.1/32",
                           "smtpd_sasl_path": f"inet:127.0.0.1:{self.dovecot.auth_port}",
                           "smtpd_relay_restrictions": "permit_sasl_authenticated, reject",
                           "default_transport": "discard:"})
        self.addCleanup(inside.close)
        hop = f"[127.0.0.1]:{inside.port}"
        mx = Instance(
            {
                "relay_domains": "in.example",
                "transport_maps": inline({"in.example": f"smtp:{hop}"}),
                "smtp_sasl_auth_enable": "yes",
                "smtp_sasl_password_maps": inline({hop: f"{BERTA}:{PASSWORDS[BERTA]}"}),
            }
        )
        self.addCleanup(mx.close)
        for _ in range(3):
            send(mx.port, "x@local.test.example", ["y@in.example"], mail())
        inside.wait_log(rf"client=\S+, sasl_method=SCRAM-SHA-256, sasl_username={BERTA}\n")
        mx.wait_empty_queue()
        self.assertEqual(mx.log().count("status=sent"), 3)


class Scripted(Suite):
    """XOAUTH2 as the large providers speak it: byte for byte, and the challenge that says why a token is refused."""

    def test_what_is_said_and_what_a_refusal_says(self):
        why = base64.b64encode(b'{"status":"401","schemes":"bearer","scope":"https://mail.example/"}').decode()
        for token, good in ((TOKEN, True), ("expired", False)):
            with self.subTest(good=good), Peer(features=["PIPELINING", "AUTH LOGIN XOAUTH2"]) as peer:
                said = base64.b64encode(f"user={ANNA}\1auth=Bearer {token}\1\1".encode()).decode()
                peer.replies["AUTH"] = lambda session, line: "235 2.7.0 welcome" if good else f"334 {why}"
                peer.replies["RESPONSE"] = (
                    lambda session, line: "535 5.7.8 the token is of no use" if line == "" else "501 what?"
                )
                hop = f"[127.0.0.1]:{peer.port}"
                with Instance(
                    {
                        **relay_to(peer),
                        "smtp_sasl_auth_enable": "yes",
                        "smtp_sasl_security_options": "noanonymous",
                        "smtp_sasl_mechanism_filter": "xoauth2",
                        "smtp_sasl_password_maps": inline({hop: f"{ANNA}:{token}"}),
                    }
                ) as mx:
                    send(mx.port, "x@local.test.example", ["y@rcpt.example"], mail())
                    if good:
                        peer.wait_messages(1)
                    else:
                        mx.wait_log(
                            r"dsn=4\.7\.8, status=deferred \(SASL authentication failed; "
                            r"server \S+ said: 535 5\.7\.8 the token"
                        )
                commands = peer.sessions[0].commands
                self.assertEqual(commands[1], f"AUTH XOAUTH2 {said}")
                if not good:
                    self.assertEqual(commands[2], "")
                    self.assertFalse([c for c in commands if c.startswith("MAIL")])
                self.assertEqual(peer.violations, [])


if __name__ == "__main__":
    unittest.main()
