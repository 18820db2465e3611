"""Settings of the SMTP and LMTP client by name: each row has a transport with its own -o, a domain, and a check of
what the peer got. The lmtp_ twin of a setting must do for LMTP what the smtp_ one does for SMTP, so most rows run
with both."""
import os
import re
import shutil
import ssl
import tempfile

from certificates import Authority
from harness import *
from peer import server_context

NAME = "mx.rcpt.example"
ALL = ("PIPELINING", "8BITMIME", "SIZE 0", "XFORWARD NAME ADDR PROTO HELO SOURCE PORT IDENT")
PLAIN = ("8BITMIME", "SIZE 0")


class Row:
    """settings: $p stands for smtp or lmtp. peer: its name. sent: whether the mail arrives; else a pattern of the
    log. look(case, message, log): further checks."""

    def __init__(
        self, settings, peer="any", sent=True, look=None, content=None, hop=None, only=None, sender="ada@sender.example"
    ):
        self.settings, self.peer, self.sent, self.look = settings, peer, sent, look
        self.content, self.hop, self.only, self.sender = content or mail(), hop, only, sender


class ByName(Suite):
    def run_rows(self, rows, peers, prefixes=("smtp", "lmtp"), **settings):
        """One instance; the transports stand in master.cf."""
        cases, hops, services, relays = [], {}, "", []
        for prefix in prefixes:
            for number, row in enumerate(rows):
                if row.only not in (None, prefix):
                    continue
                peer = peers[prefix][row.peer]
                name = f"{prefix}{number}"
                domain = f"{name}.example"
                where = row.hop or "[127.0.0.1]"
                hops[domain] = f"{name}:" + (
                    f"inet:{where.strip('[]')}:{peer.port}" if prefix == "lmtp" else f"{where}:{peer.port}"
                )
                own = row.settings.replace("$p", prefix)
                options = "".join(f"    -o {{ {line.strip()} }}\n" for line in own.split("\n") if line.strip())
                services += f"{name} unix - - n - - {prefix}\n{options}"
                cases.append((row, domain, peer, own))
        with Instance(
            {"relay_domains": ", ".join(hops), "transport_maps": inline(hops), **settings}, start=False
        ) as mx:
            with open(mx.path("etc", "master.cf"), "a") as out:
                out.write(services)
            mx.start()
            for row, domain, _, _ in cases:
                with Client(mx.port) as client:
                    client.send(
                        row.sender, [f"a@{domain}"], row.content, mail="BODY=8BITMIME" if max(row.content) > 127 else ""
                    )
            for row, domain, peer, own in cases:
                with self.subTest(own):
                    line = mx.wait_log(rf"to=<a@{domain}>, .*status=.*").group(0)
                    mine = [m for m in peer.messages if m.recipients == [f"a@{domain}"]]
                    if row.sent is True:
                        self.assertIn("status=sent", line)
                        self.assertEqual(len(mine), 1)
                    else:
                        self.assertRegex(line, row.sent)
                        self.assertEqual(mine, [])
                    if row.look:
                        row.look(self, mine[0] if mine else None, mx.log())


def tls_is(version):
    return lambda case, message, log: case.assertEqual(message.session.tls, version)


def cipher(test):
    return lambda case, message, log: case.assertTrue(test(message.session.cipher), message.session.cipher)


ECDSA = "ECDHE-ECDSA-AES128-GCM-SHA256"


class Tls(ByName):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.directory = cls.folder()
        cls.ca = Authority(os.path.join(cls.directory, "ca"))
        cls.certificate = cls.ca.issue(NAME)
        cls.wild = cls.ca.issue("*.wild.example")
        cls.own = cls.ca.issue("client.example")
        cls.own_rsa = cls.ca.issue("rsa.example", kind="rsa")
        for made in (cls.own, cls.own_rsa):
            os.chmod(made.key, 0o600)
        cls.chain = os.path.join(cls.directory, "chain.pem")
        with open(cls.chain, "w") as out:
            out.write(cls.own.text())
        cls.hashed = os.path.join(cls.directory, "hashed")
        os.mkdir(cls.hashed)
        shutil.copy(cls.ca.pem, cls.hashed + "/ca.pem")
        os.system(f"openssl rehash {cls.hashed}")

    def contexts(self):
        asks = server_context(self.certificate)
        asks.verify_mode = ssl.CERT_OPTIONAL
        asks.load_verify_locations(self.ca.pem)
        twelve = server_context(self.certificate, maximum_version=ssl.TLSVersion.TLSv1_2)
        twelve.set_ciphers("ALL")
        curve = server_context(self.certificate)
        curve.set_ecdh_curve("secp384r1")
        return {"any": server_context(self.certificate), "asks": asks, "twelve": twelve, "curve": curve,
                "wild": server_context(self.wild)}

    def test_settings_of_tls(self):
        fine, coarse = self.certificate.fingerprint("sha256"), self.certificate.fingerprint("sha1")
        secure = f"$p_tls_security_level = secure\n$p_tls_CAfile = {self.ca.pem}\n"

        def shown(word, there=True):
            def look(case, message, log):
                found = re.search(rf"{message.recipients[0].split('@')[1].split('.')[0]}/\w+\[\d+\]: .*{word}", log)
                case.assertEqual(bool(found), there)
            return look

        def own(certificate):
            def look(case, message, log):
                with open(certificate.pem) as pem:
                    first = pem.read().split("-----END")[0] + "-----END CERTIFICATE-----\n"
                case.assertEqual(message.session.certificate, ssl.PEM_cert_to_DER_cert(first))
            return look

        rows = [
            Row("$p_tls_security_level = none", look=tls_is(None)),
            Row("$p_tls_security_level = may", look=tls_is("TLSv1.3")),
            Row("$p_tls_security_level = may\n$p_tls_protocols = <=TLSv1.2", look=tls_is("TLSv1.2")),
            Row("$p_tls_security_level = encrypt\n$p_tls_protocols = <=TLSv1.2", look=tls_is("TLSv1.3")),
            Row("$p_tls_security_level = encrypt\n$p_tls_mandatory_protocols = <=TLSv1.2", look=tls_is("TLSv1.2")),
            Row(
                "$p_tls_security_level = encrypt\n$p_tls_mandatory_protocols = >=TLSv1.3",
                "twelve",
                "status=deferred.*TLS",
            ),
            Row("$p_tls_security_level = may", "twelve", look=cipher(lambda c: "GCM" in c)),
            Row(
                "$p_tls_security_level = may\n$p_tls_exclude_ciphers = AESGCM CHACHA20",
                "twelve",
                look=cipher(lambda c: "GCM" not in c),
            ),
            Row(
                "$p_tls_security_level = encrypt\n$p_tls_mandatory_exclude_ciphers = AESGCM CHACHA20",
                "twelve",
                look=cipher(lambda c: "GCM" not in c),
            ),
            Row(
                "$p_tls_security_level = may\n$p_tls_mandatory_exclude_ciphers = AESGCM CHACHA20",
                "twelve",
                look=cipher(lambda c: "GCM" in c),
            ),
            Row(
                f"$p_tls_security_level = may\n$p_tls_ciphers = high\ntls_high_cipherlist = {ECDSA}",
                "twelve",
                look=cipher(lambda c: c == ECDSA),
            ),
            Row(
                f"$p_tls_security_level = encrypt\n$p_tls_mandatory_ciphers = high\ntls_high_cipherlist = {ECDSA}",
                "twelve",
                look=cipher(lambda c: c == ECDSA),
            ),
            Row(
                f"$p_tls_security_level = encrypt\n$p_tls_mandatory_ciphers = medium\ntls_medium_cipherlist = {ECDSA}",
                "twelve",
                look=cipher(lambda c: c == ECDSA),
            ),
            Row(
                f"$p_tls_security_level = encrypt\n$p_tls_mandatory_ciphers = null\ntls_null_cipherlist = {ECDSA}",
                "twelve",
                look=cipher(lambda c: c == ECDSA),
            ),
            Row("$p_tls_security_level = encrypt\ntls_eecdh_auto_curves = secp384r1\ntls_ffdhe_auto_groups =", "curve"),
            Row("$p_tls_security_level = encrypt\ntls_eecdh_auto_curves = X25519\ntls_ffdhe_auto_groups =", "curve",
                "status=deferred.*TLS"),
            Row("$p_tls_security_level = encrypt\ntls_eecdh_auto_curves =\ntls_ffdhe_auto_groups = ffdhe2048", "curve",
                "status=deferred.*TLS"),
            Row(secure + f"$p_tls_secure_cert_match = {NAME}"),
            Row(
                secure + "$p_tls_secure_cert_match = other.example",
                sent="status=deferred.*Server certificate not verified",
            ),
            Row(
                f"$p_tls_security_level = secure\n$p_tls_secure_cert_match = {NAME}",
                sent="status=deferred.*Server certificate not trusted",
            ),
            Row(f"$p_tls_security_level = verify\n$p_tls_CApath = {self.hashed}\n$p_tls_verify_cert_match = {NAME}"),
            Row(
                f"$p_tls_security_level = verify\n$p_tls_CApath = {self.hashed}\n"
                "$p_tls_verify_cert_match = other.example",
                sent="status=deferred.*Server certificate not verified",
            ),
            Row(
                f"$p_tls_security_level = secure\n$p_tls_trust_anchor_file = {self.ca.pem}\n"
                f"$p_tls_secure_cert_match = {NAME}"
            ),
            Row(f"$p_tls_security_level = secure\n$p_tls_secure_cert_match = {NAME}\ntls_append_default_CA = yes"),
            Row(secure + "$p_tls_secure_cert_match = a.b.wild.example", "wild"),
            Row(
                secure + "$p_tls_secure_cert_match = a.b.wild.example\ntls_wildcard_matches_multiple_labels = no",
                "wild",
                "status=deferred.*Server certificate not verified",
            ),
            Row(f"$p_tls_security_level = fingerprint\n$p_tls_fingerprint_cert_match = {fine}"),
            Row(
                f"$p_tls_security_level = fingerprint\n$p_tls_fingerprint_cert_match = {coarse}",
                sent="status=deferred.*Server certificate not verified",
            ),
            Row(
                f"$p_tls_security_level = fingerprint\n$p_tls_fingerprint_cert_match = {coarse}\n"
                "$p_tls_fingerprint_digest = sha1"
            ),
            Row(
                "$p_tls_security_level = may",
                "asks",
                look=lambda case, message, log: case.assertIsNone(message.session.certificate),
            ),
            Row(
                f"$p_tls_security_level = may\n$p_tls_cert_file = {self.own_rsa.pem}\n"
                f"$p_tls_key_file = {self.own_rsa.key}",
                "asks",
                look=own(self.own_rsa),
            ),
            Row(
                f"$p_tls_security_level = may\n$p_tls_eccert_file = {self.own.pem}\n$p_tls_eckey_file = {self.own.key}",
                "asks",
                look=own(self.own),
            ),
            Row(
                f"$p_tls_security_level = may\n$p_tls_dcert_file = {self.own.pem}\n$p_tls_dkey_file = {self.own.key}",
                "asks",
                look=own(self.own),
            ),
            Row(f"$p_tls_security_level = may\n$p_tls_chain_files = {self.chain}", "asks", look=own(self.own)),
            Row("$p_tls_security_level = may\n$p_tls_loglevel = 1", look=shown("TLS connection established to")),
            Row("$p_tls_security_level = may\n$p_tls_loglevel = 0", look=shown("TLS connection established to", False)),
            Row(
                "$p_tls_security_level = none\n$p_tls_note_starttls_offer = yes", look=shown("[Hh]ost offered STARTTLS")
            ),
            Row("$p_tls_security_level = none", look=shown("[Hh]ost offered STARTTLS", False)),
            Row("$p_tls_security_level = encrypt\n$p_tls_wrappermode = yes", "wrapped", look=tls_is("TLSv1.3")),
            Row("$p_tls_security_level = encrypt\n$p_starttls_timeout = 1s", "hangs", "status=deferred.*timed out"),
        ]
        peers = {}
        for prefix in ("smtp", "lmtp"):
            made = {kind: Peer(ALL, lmtp=prefix == "lmtp", tls=context) for kind, context in self.contexts().items()}
            made["wrapped"] = Peer(ALL, lmtp=prefix == "lmtp", tls=server_context(self.certificate), wrapped=True)
            made["hangs"] = Peer(ALL, lmtp=prefix == "lmtp", tls=server_context(self.certificate))
            made["hangs"].replies["STARTTLS"] = lambda session, line: NOTHING
            peers[prefix] = made
            for peer in made.values():
                self.addCleanup(peer.close)
        # Rows name themselves in the log; the system's authorities of OpenSSL are the test's.
        for number, row in enumerate(rows):
            row.settings += "\nsyslog_name = $p%d" % number
        self.run_rows(rows, peers, import_environment=f"MAIL_CONFIG TZ SSL_CERT_FILE={self.ca.pem}")

    def test_log_ins_over_tls(self):
        features = (*PLAIN, "AUTH PLAIN")
        table = (
            "$p_tls_security_level = encrypt\n$p_sasl_auth_enable = yes\n$p_sasl_password_maps = static:{user:pass}\n"
        )
        verified = f"$p_tls_security_level = secure\n$p_tls_CAfile = {self.ca.pem}\n$p_tls_secure_cert_match = {NAME}\n"
        peers = {}
        for prefix in ("smtp", "lmtp"):
            peers[prefix] = {"any": Peer(features, lmtp=prefix == "lmtp", tls=server_context(self.certificate))}
            peers[prefix]["any"].replies["AUTH"] = lambda session, line: "235 2.7.0 ok"
            self.addCleanup(peers[prefix]["any"].close)
        self.run_rows(
            [
                Row(table + "$p_sasl_security_options = noplaintext\n$p_sasl_tls_security_options = noanonymous"),
                Row(
                    table + "$p_sasl_security_options = noanonymous\n$p_sasl_tls_security_options = noplaintext",
                    sent="status=deferred.*SASL",
                ),
                Row(
                    table
                    + "$p_sasl_tls_security_options = noplaintext\n$p_sasl_tls_verified_security_options = noanonymous",
                    sent="status=deferred.*SASL",
                ),
                Row(
                    table
                    + verified
                    + "$p_sasl_tls_security_options = noplaintext\n$p_sasl_tls_verified_security_options = noanonymous"
                ),
            ],
            peers,
        )

    def test_the_name_that_is_asked_for(self):
        for prefix in ("smtp", "lmtp"):
            context = server_context(self.certificate)
            with Peer(ALL, lmtp=prefix == "lmtp", tls=context) as peer:
                rows = [Row(f"$p_tls_security_level = encrypt\n$p_tls_servername = asked.{prefix}.example")]
                self.run_rows(rows, {prefix: {"any": peer}}, (prefix,))
                self.assertEqual(context.asked, [f"asked.{prefix}.example"])


class Dialogue(ByName):
    def peers(self, **kinds):
        made = {}
        for prefix in ("smtp", "lmtp"):
            made[prefix] = {}
            for kind, (features, replies) in kinds.items():
                peer = made[prefix][kind] = Peer(features, lmtp=prefix == "lmtp")
                peer.replies.update(replies)
                self.addCleanup(peer.close)
        return made

    def test_time_limits_of_each_step(self):
        def hangs(verb):
            return PLAIN, {verb: lambda session, line: NOTHING}

        peers = self.peers(
            any=(PLAIN, {}),
            helo=hangs("EHLO"),
            mail=hangs("MAIL"),
            rcpt=hangs("RCPT"),
            data=hangs("DATA"),
            dot=hangs("DOT"),
            xforward=(ALL[1:], {"XFORWARD": lambda session, line: NOTHING}),
        )
        late = "status=deferred.*(timed out|timeout)"
        self.run_rows(
            [
                Row("smtp_helo_timeout = 1s", "helo", late, only="smtp"),
                Row("lmtp_lhlo_timeout = 1s", "helo", late, only="lmtp"),
                Row("$p_mail_timeout = 1s", "mail", late),
                Row("$p_rcpt_timeout = 1s", "rcpt", late),
                Row("$p_data_init_timeout = 1s", "data", late),
                Row("$p_send_xforward_command = yes\n$p_xforward_timeout = 1s", "xforward", late),
            ],
            peers,
        )
        # The end of data took effect at the peer, but the answer was lost.
        for prefix in ("smtp", "lmtp"):
            peer = peers[prefix]["dot"]
            hop = f"lmtp:inet:127.0.0.1:{peer.port}" if prefix == "lmtp" else f"smtp:[127.0.0.1]:{peer.port}"
            with Instance({"relay_domains": "rcpt.example", "transport_maps": inline({"rcpt.example": hop}),
                           f"{prefix}_data_done_timeout": "1s"}) as mx:
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                mx.wait_log(rf"to=<a@rcpt\.example>, .*{late}")

    def test_what_is_said_and_sent(self):
        long_line = mail(body="x" * 120 + "\r\n")
        utf8 = mail(subject="caf\u00e9")

        def has(text, there=True):
            return lambda case, message, log: case.assertEqual(text in message.content, there, message.content)

        def forwarded(case, message, log):
            case.assertEqual(message.xforward.get("ADDR"), "127.0.0.1")
        peers = self.peers(any=(ALL, {}))
        self.run_rows(
            [
                Row("$p_line_length_limit = 50", content=long_line, look=has(b"x" * 50 + b"\r\n x")),
                Row("$p_line_length_limit = 998", content=long_line, look=has(b"x" * 120)),
                Row("$p_send_xforward_command = yes", look=forwarded),
                Row(
                    "$p_bind_address = 127.0.0.9",
                    look=lambda case, m, log: case.assertEqual(m.session.address, "127.0.0.9"),
                ),
                Row("$p_header_checks = static:{PREPEND X-Check: header}", look=has(b"X-Check: header")),
                Row(
                    "$p_mime_header_checks = inline:{ { nothing = here } }\n$p_nested_header_checks =\n"
                    "$p_body_checks = regexp:" + self.rule("/^hello/ REPLACE bye"),
                    look=has(b"\r\nbye\r\n"),
                ),
                Row(
                    "$p_mime_header_checks = regexp:" + self.rule("/^Content-Type: text/ IGNORE"),
                    content=mail(extra="MIME-Version: 1.0\r\nContent-Type: text/plain\r\n"),
                    look=has(b"Content-Type", False),
                ),
                Row(
                    "$p_nested_header_checks = regexp:" + self.rule("/^Subject: inner/ REPLACE Subject: changed"),
                    content=mail(
                        extra="MIME-Version: 1.0\r\nContent-Type: message/rfc822\r\n",
                        body="Subject: inner\r\n\r\nx\r\n",
                    ),
                    look=has(b"Subject: changed"),
                ),
                Row(
                    "$p_generic_maps = inline:{ { ada@sender.example = outside@public.example } }",
                    look=lambda case, m, log: case.assertEqual(m.sender, "outside@public.example"),
                ),
                Row(
                    "$p_delivery_status_filter = regexp:" + self.rule("/^2\\.0\\.0/ 2.7.7 seen"),
                    look=lambda case, m, log: case.assertRegex(log, rf"to=<{m.recipients[0]}>, .*dsn=2\.7\.7"),
                ),
                Row("$p_utf8_header_without_smtputf8 = yes", content=utf8, look=has("caf\u00e9".encode())),
            ],
            peers,
        )

    def rule(self, text):
        directory = getattr(self, "rules", None)
        if directory is None:
            directory = self.rules = tempfile.mkdtemp(prefix="pen-rules-")
            os.chmod(directory, 0o755)
            self.addCleanup(shutil.rmtree, directory)
        path = os.path.join(directory, str(len(os.listdir(directory))))
        with open(path, "w") as out:
            out.write(text + "\n")
        return path

    def test_a_source_address_that_this_host_does_not_have(self):
        # With _bind_address_enforce mail waits; without, the connection is tried from another address.
        for prefix, transport in (("smtp", "smtp:[::1]:"), ("lmtp", "lmtp:inet:[::1]:")):
            for enforced, why in (("yes", "[Cc]annot assign requested address"), ("no", "Connection refused")):
                with self.subTest(prefix=prefix, enforced=enforced), Instance(
                    {
                        "relay_domains": "rcpt.example",
                        "transport_maps": inline({"rcpt.example": f"{transport}{free_port()}"}),
                        "inet_protocols": "all",
                        f"{prefix}_bind_address6": "2001:db8::1",
                        f"{prefix}_bind_address_enforce": enforced,
                    }
                ) as mx:
                    send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                    mx.wait_log(r"to=<a@rcpt\.example>, .*status=deferred.*" + why)

    def test_greetings(self):
        def said(*verbs):
            return lambda case, m, log: case.assertEqual(
                [c.split()[0] for c in m.session.commands[: len(verbs)]], list(verbs)
            )

        peers = self.peers(any=(ALL, {"GREETING": "220 peer.example old server"}), esmtp=(ALL, {}))
        self.run_rows(
            [
                Row("smtp_always_send_ehlo = yes", look=said("EHLO", "MAIL")),
                Row("smtp_always_send_ehlo = no", look=said("HELO", "MAIL")),
                Row("smtp_always_send_ehlo = no", "esmtp", look=said("EHLO", "MAIL")),
                Row("smtp_never_send_ehlo = yes", "esmtp", look=said("HELO", "MAIL")),
                Row(
                    "smtp_helo_name = its.name.example",
                    look=lambda case, m, log: case.assertEqual(m.session.helo, "EHLO its.name.example"),
                ),
                Row(
                    "smtp_discard_ehlo_keywords = size",
                    "esmtp",
                    look=lambda case, m, log: case.assertFalse([p for p in m.parameters if p.startswith("SIZE")]),
                ),
            ],
            peers,
            ("smtp",),
        )

    def test_log_ins(self):
        offers = (*PLAIN, "AUTH PLAIN LOGIN")
        accepts = {
            "AUTH": lambda s, line: "235 2.7.0 ok" if line.startswith("AUTH PLAIN") else "334 VXNlcm5hbWU6",
            "RESPONSE": lambda s, line: "235 2.7.0 ok"
            if s.commands[-2].startswith("AUTH") is False
            else "334 UGFzc3dvcmQ6",
        }
        refuses = {"AUTH": "535 5.7.8 no such login"}
        peers = self.peers(any=(offers, accepts), refuses=(offers, refuses))
        table = (
            "$p_sasl_auth_enable = yes\n$p_sasl_security_options = noanonymous\n"
            "$p_sasl_password_maps = static:{user:pass}\n"
        )

        def auth(beginning):
            return lambda case, m, log: case.assertEqual(
                [c for c in m.session.commands if c.startswith("AUTH")][:1], [beginning] if beginning else [])
        plain = "AUTH PLAIN AHVzZXIAcGFzcw=="
        self.run_rows([
            Row(table, look=auth(plain)),
            Row(table.replace("auth_enable = yes", "auth_enable = no"), look=auth(None)),
            Row(table + "$p_sasl_mechanism_filter = login", look=auth("AUTH LOGIN")),
            Row(table.replace("user:pass", "user;pass") + "$p_sasl_password_result_delimiter = ;", look=auth(plain)),
            Row(table.replace("= noanonymous", "= noplaintext"), sent="status=deferred.*SASL"),
            Row(table + "$p_sasl_auth_soft_bounce = yes", "refuses", "status=deferred.*SASL authentication failed"),
            Row(table + "$p_sasl_auth_soft_bounce = no", "refuses", "status=bounced.*SASL authentication failed"),
            Row(table.replace("static:{user:pass}", "inline:{ { other@sender.example = user:pass } }")
                + "$p_sender_dependent_authentication = yes", look=auth(plain), sender="other@sender.example"),
            Row(table.replace("static:{user:pass}", "inline:{ { other@sender.example = user:pass } }")
                + "$p_sender_dependent_authentication = no", look=auth(None), sender="other@sender.example"),
        ], peers)


if __name__ == "__main__":
    unittest.main()
