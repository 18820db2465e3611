"""TLS when sending: every level against right and wrong certificates, and peers whose TLS is broken or altered."""
import json
import os
import shutil
import socket
import ssl
import threading

import peers
from certificates import Authority, Certificate, openssl
from harness import *
from peer import server_context

SOON = {"minimal_backoff_time": "1s", "maximal_backoff_time": "4s", "queue_run_delay": "1s"}
NAME = "mx.rcpt.example"


def expired(authority, name):
    """A certificate that expired yesterday."""
    made = Certificate(os.path.join(authority.directory, f"expired.{name}"))
    request = openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", made.key,
                      "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}")
    with open(made.pem, "w") as out:
        out.write(openssl("x509", "-req", "-CA", authority.own.pem, "-CAkey", authority.own.key, "-days", "-1",
                          "-copy_extensions", "copy", stdin=request.encode()))
    return made


class Plain:
    """A TCP server that a test scripts by hand: talk(socket) for each connection in order; the last one repeats."""

    def __init__(self, *talks):
        self.talks, self.connections = talks, 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=50)
        self.port = self.listener.getsockname()[1]
        self.got = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            talk = self.talks[min(self.connections, len(self.talks) - 1)]
            self.connections += 1
            threading.Thread(target=self._run, args=(talk, connection), daemon=True).start()

    def _run(self, talk, connection):
        connection.settimeout(60)
        with connection:
            try:
                talk(connection, connection.makefile("rb"))
            except (OSError, EOFError):
                pass

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Certified(Suite):
    """Certificates for the class, and one instance with a domain, and thus a policy, for each case."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.directory = cls.folder()
        cls.ca = Authority(os.path.join(cls.directory, "ca"))
        cls.other_ca = Authority(os.path.join(cls.directory, "other"), "Other CA")
        cls.right = cls.ca.issue(NAME)
        cls.certificates = {"right": cls.right, "wrong name": cls.ca.issue("elsewhere.example"),
                            "wrong CA": cls.other_ca.issue(NAME), "expired": expired(cls.ca, NAME)}

    def settings(self, *more, **own):
        base = {"smtp_tls_CAfile": self.ca.pem, "smtp_tls_loglevel": "1"}
        for m in more:
            base.update(m)
        return {**base, **own}

    def explain(self, mx, address):
        done = mx.tool("pendest", "--json", "explain", address, check=True)
        return json.loads(done.stdout.splitlines()[0])

    def clean(self, *talked):
        for peer in talked:
            self.assertEqual(peer.violations, [])


class Levels(Certified):
    # level -> result with a peer that has the right certificate, a wrong name, a wrong CA, an expired certificate,
    # none.
    SENT, CLEAR = "sent", "clear"
    EXPECTED = {
        "may": {"right": SENT, "wrong name": SENT, "wrong CA": SENT, "expired": SENT, "not offered": CLEAR},
        "encrypt": {"right": SENT, "wrong name": SENT, "wrong CA": SENT, "expired": SENT,
                    "not offered": "TLS is required, but was not offered by host"},
        "verify": {"right": SENT, "wrong name": "Server certificate not verified",
                   "wrong CA": "Server certificate not trusted", "expired": "Server certificate not trusted",
                   "not offered": "TLS is required, but was not offered by host"},
        # A level that names the certificate itself checks nothing else.
        "fingerprint": {"right": SENT, "wrong name": "Server certificate not verified",
                        "wrong CA": "Server certificate not verified", "expired": "Server certificate not verified",
                        "not offered": "TLS is required, but was not offered by host"},
    }
    EXPECTED["secure"] = EXPECTED["verify"]

    def test_every_level_with_every_kind_of_certificate(self):
        kinds = {**self.certificates, "not offered": None}
        attributes = {"verify": f" match={NAME}", "secure": f" match={NAME}",
                      "fingerprint": f" match={self.right.fingerprint()}"}
        servers = {kind: Peer(tls=certificate and server_context(certificate)) for kind, certificate in kinds.items()}
        cases, hops, policies = [], {}, []
        for level, outcomes in self.EXPECTED.items():
            for kind in kinds:
                domain = f"{level}.{kind.replace(' ', '-').lower()}.example"
                # One transport each: the policy depends on the next hop, which is otherwise the same.
                cases.append((level, kind, domain, outcomes[kind]))
                hops[domain] = f"{level}:[127.0.0.1]:{servers[kind].port}"
        for level in self.EXPECTED:
            policies.append(f"{level} unix - - n - - smtp\n"
                            f"    -o {{ smtp_tls_policy_maps = static:{{{level}{attributes.get(level, '')}}} }}\n")
        settings = self.settings(relay_domains=", ".join(hops), transport_maps=inline(hops))
        with Instance(settings, start=False) as mx:
            with open(mx.path("etc", "master.cf"), "a") as out:
                out.write("".join(policies))
            mx.start()
            for level, kind, domain, outcome in cases:
                send(mx.port, "ada@sender.example", [f"a@{domain}"], mail())
            for level, kind, domain, outcome in cases:
                with self.subTest(level=level, kind=kind):
                    taken = outcome in (self.SENT, self.CLEAR)
                    line = mx.wait_log(rf"to=<a@{domain}>, .*status=.*").group(0)
                    mine = [m for m in servers[kind].messages if m.recipients == [f"a@{domain}"]]
                    if taken:
                        self.assertIn("status=sent", line)
                        self.assertEqual(len(mine), 1)
                        self.assertEqual(mine[0].session.tls, None if outcome == self.CLEAR else "TLSv1.3")
                    else:
                        self.assertIn("status=deferred", line)
                        self.assertRegex(line, r"dsn=4\.7\.[45]")
                        self.assertIn(outcome, line)
                        self.assertEqual(mine, [])
            log = mx.log()
            for word in ("Untrusted", "Trusted", "Verified"):
                self.assertRegex(
                    log, rf"{word} TLS connection established to 127\.0\.0\.1\[127\.0\.0\.1\]:\d+: TLSv1\.3 with cipher"
                )
            self.clean(*servers.values())
            # Peers that were not good enough have seen only EHLO and STARTTLS.
            for session in servers["wrong CA"].sessions:
                if not any(c.startswith("MAIL") for c in session.commands):
                    self.assertEqual({c.split()[0] for c in session.commands} - {"EHLO", "STARTTLS", "QUIT"}, set())
        for server in servers.values():
            server.close()

    def test_a_fingerprint_of_the_key_or_another_digest_counts_too(self):
        with Peer(tls=server_context(self.certificates["wrong CA"])) as peer:
            digest = self.certificates["wrong CA"].fingerprint("sha512").lower()
            with Instance(
                self.settings(
                    relay_to(peer),
                    smtp_tls_security_level="fingerprint",
                    smtp_tls_fingerprint_digest="sha512",
                    smtp_tls_fingerprint_cert_match=digest,
                )
            ) as mx:
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                self.assertEqual(peer.wait_messages(1)[0].session.tls, "TLSv1.3")

    def test_trust_anchors_of_a_policy_take_the_place_of_the_authorities(self):
        with Peer(tls=server_context(self.certificates["wrong CA"])) as peer:
            hop = f"[127.0.0.1]:{peer.port}"
            with Instance(self.settings(relay_to(peer), smtp_tls_policy_maps=inline(
                    {hop: f"secure match={NAME} tafile={self.other_ca.pem}"}))) as mx:
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                peer.wait_messages(1)
                self.assertIn("Verified TLS connection established", mx.log())


class Policies(Certified):
    def test_the_host_name_is_asked_for_and_matched_and_explained(self):
        context = server_context(self.right)
        with Peer(host="127.0.0.11", tls=context) as peer, \
                Dns({("rcpt.example", "MX"): [(10, NAME)], (NAME, "A"): ["127.0.0.11"]}) as dns:
            with Instance(self.settings(dns.settings(), smtp_tcp_port=str(peer.port), smtp_tls_servername="hostname",
                                        smtp_tls_policy_maps=inline({".example": "secure match=hostname"}))) as mx:
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                peer.wait_messages(1)
                self.assertEqual(context.asked, [NAME])
                mx.wait_log(rf"Verified TLS connection established to {NAME}\[127\.0\.0\.11\]:{peer.port}: ")
                explained = self.explain(mx, "a@rcpt.example")
                self.assertEqual(explained["tls"], "secure, by smtp_tls_policy_maps (.example)")
                self.assertTrue(explained["hosts"][0]["starttls"])
                self.assertIn("secure, by", mx.tool("pendest", "explain", "a@rcpt.example", check=True).stdout)

    def test_domains_share_a_connection_only_with_the_same_policy(self):
        domains = {"a.example": "may", "b.example": "may", "c.example": "encrypt", "d.example": "none"}
        with Peer(host="127.0.0.12", tls=server_context(self.right)) as peer:
            zone = {(NAME, "A"): ["127.0.0.12"]}
            for d in domains:
                zone[(d, "MX")] = [(10, NAME)]
            # One connection for each destination: destinations that may share it do.
            with Dns(zone) as dns, Instance(self.settings(dns.settings(), smtp_tcp_port=str(peer.port),
                                                          default_destination_concurrency_limit="1",
                                                          smtp_tls_policy_maps=inline(domains))) as mx:
                for d in domains:
                    send(mx.port, "ada@sender.example", [f"x@{d}"], mail())
                by_domain = {m.recipients[0].split("@")[1]: m.session for m in peer.wait_messages(4)}
                self.assertIs(by_domain["a.example"], by_domain["b.example"])
                self.assertEqual(len(set(map(id, by_domain.values()))), 3)
                self.assertIsNone(by_domain["d.example"].tls)
                for d in "abc":
                    self.assertEqual(by_domain[f"{d}.example"].tls, "TLSv1.3")

    def test_a_bad_entry_makes_mail_wait_until_it_is_mended(self):
        with Peer(tls=server_context(self.right)) as peer:
            hop = f"[127.0.0.1]:{peer.port}"
            with Instance(
                self.settings(relay_to(peer), SOON, smtp_tls_policy_maps=inline({hop: "encrypt colour=blue"}))
            ) as mx:
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                mx.wait_log(r"to=<a@rcpt\.example>, .*dsn=4\.7\.5, status=deferred \(client TLS configuration problem: "
                            r"smtp_tls_policy_maps \(.*\): no such attribute \"colour\"")
                mx.set(smtp_tls_policy_maps=inline({hop: "encrypt"}))
                mx.reload_whole()
                mx.flush()
                self.assertEqual(peer.wait_messages(1)[0].session.tls, "TLSv1.3")

    def test_protocols_and_ciphers_of_a_policy_are_kept_to(self):
        with Peer(tls=server_context(self.ca.issue(NAME, kind="rsa"))) as peer:
            hop = f"[127.0.0.1]:{peer.port}"
            with Instance(self.settings(relay_to(peer), smtp_tls_policy_maps=inline(
                    {hop: "encrypt protocols=TLSv1.2 ciphers=high exclude=AES256:CHACHA20"}))) as mx:
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                self.assertEqual(peer.wait_messages(1)[0].session.tls, "TLSv1.2")
                mx.wait_log(r"established to .*: TLSv1\.2 with cipher \S*AES128")

    def test_a_client_certificate_is_shown_and_sessions_are_resumed(self):
        own = self.other_ca.issue("client.example")
        context = server_context(self.right)
        context.load_verify_locations(self.other_ca.pem)
        context.verify_mode = ssl.CERT_REQUIRED
        with Peer(tls=context) as peer, Instance(self.settings(
                relay_to(peer), smtp_tls_security_level="encrypt", smtp_tls_cert_file=own.pem,
                smtp_tls_key_file=own.key)) as mx:
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
            first = peer.wait_messages(1)[0].session
            self.assertEqual(openssl("x509", "-inform", "DER", "-noout", "-subject", stdin=first.certificate).strip(),
                             "subject=CN = client.example")
            # The peer ends the first connection, so that another is needed.
            peer.replies["MAIL"] = ["421 4.3.2 enough"]
            send(mx.port, "ada@sender.example", ["b@rcpt.example"], mail())
            second = peer.wait_messages(2)[1].session
            self.assertIsNot(first, second)
            self.assertTrue(second.resumed)

    def test_sessions_are_kept_unless_their_database_is_empty(self):
        for database, kept in (("btree:/nonexistent/smtp_scache", True), ("", False)):
            with self.subTest(database), Peer(tls=server_context(self.right)) as peer, Instance(self.settings(
                    relay_to(peer), smtp_tls_security_level="encrypt",
                    smtp_tls_session_cache_database=database)) as mx:
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                peer.wait_messages(1)
                peer.replies["MAIL"] = ["421 4.3.2 enough"]
                send(mx.port, "ada@sender.example", ["b@rcpt.example"], mail())
                self.assertEqual(peer.wait_messages(2)[1].session.resumed, kept)

    def test_tls_from_the_first_byte(self):
        with Peer(tls=server_context(self.right), wrapped=True) as peer, Instance(self.settings(
                relay_to(peer), smtp_tls_wrappermode="yes", smtp_tls_security_level="encrypt")) as mx:
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
            session = peer.wait_messages(1)[0].session
            self.assertEqual(session.tls, "TLSv1.3")
            self.assertNotIn("STARTTLS", session.commands)
            self.clean(peer)

    def test_large_messages_and_many_on_one_connection_arrive_as_they_are(self):
        with Peer(tls=server_context(self.right)) as peer, Instance(self.settings(
                relay_to(peer), smtp_tls_security_level="encrypt", smtp_destination_concurrency_limit="1")) as mx:
            large = mail(body="".join(f"line {i}\r\n" for i in range(120000)))
            send(mx.port, "ada@sender.example", ["large@rcpt.example"], large)
            for i in range(30):
                send(mx.port, "ada@sender.example", [f"r{i}@rcpt.example"], mail(body=f"message {i}\r\n"))
            got = {m.recipients[0]: m.content for m in peer.wait_messages(31)}
            self.assertIsNone(without_trace(got["large@rcpt.example"], large))
            for i in range(30):
                self.assertEqual(split(got[f"r{i}@rcpt.example"])[1], b"message %d\r\n" % i)
            self.assertEqual({m.session.tls for m in peer.messages}, {"TLSv1.3"})
            self.clean(peer)


def hello(connection, lines, *offers):
    connection.sendall(b"220 broken.example ESMTP\r\n")
    if not lines.readline().startswith(b"EHLO"):
        raise EOFError
    connection.sendall(
        b"".join(b"250-%s\r\n" % o for o in (b"broken.example", b"PIPELINING") + offers) + b"250 STARTTLS\r\n"
    )
    if lines.readline() != b"STARTTLS\r\n":
        raise EOFError


class Broken(Certified):
    """STARTTLS goes wrong: at level may the mail goes in clear text at once, above it the mail waits."""

    @staticmethod
    def drops(connection, lines):
        hello(connection, lines)

    @staticmethod
    def garbage(connection, lines):
        hello(connection, lines)
        connection.sendall(b"220 go ahead\r\n")
        lines.read(1)
        connection.sendall(b"this is not TLS at all, is it?\r\n" * 20)
        lines.read()

    @staticmethod
    def half_closed(connection, lines):
        hello(connection, lines)
        connection.sendall(b"220 go ahead\r\n")
        lines.read(1)
        connection.shutdown(socket.SHUT_WR)
        lines.read()

    @staticmethod
    def silent(connection, lines):
        hello(connection, lines)
        connection.sendall(b"220 go ahead\r\n")
        lines.read()

    @staticmethod
    def injects(connection, lines):
        hello(connection, lines)
        connection.sendall(b"220 go ahead\r\n250-evil.example\r\n250 AUTH PLAIN\r\n")
        lines.read()

    @staticmethod
    def injects_half_a_line(connection, lines):
        hello(connection, lines)
        connection.sendall(b"220 go ahead\r\n250-evil")
        lines.read()

    @staticmethod
    def closes_inside(connection, lines):
        hello(connection, lines)
        connection.sendall(b"220 go ahead\r\n")
        with server_context(Broken.right).wrap_socket(connection, server_side=True) as inside, inside.makefile(
            "rb"
        ) as told:
            told.readline()  # EHLO
            inside.sendall(b"250 broken.example\r\n")
            told.readline()  # MAIL

    CASES = ("drops", "garbage", "half_closed", "silent", "injects", "injects_half_a_line", "closes_inside")

    def first_broken(self, peer, case):
        """The first connection meets the broken side, later ones the working peer."""
        broken, usual = getattr(self, case), peer._serve

        def serve(connection, session):
            if session.number > 0:
                return usual(connection, session)
            with connection:
                try:
                    broken(connection, connection.makefile("rb"))
                except (OSError, EOFError):
                    pass

        peer._serve = serve

    def to(self, servers, **settings):
        hops = {
            f"{case.replace('_', '-')}.example": f"smtp:[127.0.0.1]:{server.port}" for case, server in servers.items()
        }
        return self.settings(
            relay_domains=", ".join(hops), transport_maps=inline(hops), smtp_starttls_timeout="1s", **settings
        )

    def test_level_may_goes_on_at_once_in_clear_text_and_remembers(self):
        servers = {case: Peer(tls=server_context(self.right)) for case in self.CASES}
        with Instance(self.to(servers, smtp_tls_security_level="may")) as mx:
            for case, peer in servers.items():
                self.addCleanup(peer.close)
                self.first_broken(peer, case)
                send(mx.port, "ada@sender.example", [f"a@{case.replace('_', '-')}.example"], mail())
            for case, peer in servers.items():
                with self.subTest(case):
                    message = peer.wait_messages(1)[0]
                    self.assertNotIn("STARTTLS", message.session.commands)
                    mx.wait_log(rf"to=<a@{case.replace('_', '-')}\.example>.*status=sent")
                    self.clean(peer)
            self.assertNotIn("status=deferred", mx.log())
            shown = [json.loads(line) for line in mx.tool("pendest", "--json", "list", check=True).stdout.splitlines()]
            shown = [d for d in shown if d["type"] == "destination"]
            self.assertEqual(len(shown), len(servers))
            for d in shown:
                self.assertGreater(d["clear_text_until"], 0)
                self.assertEqual(d["failures"], 0)
            # The knowledge must be on disk, not in the memory of a program.
            mx.stop()
            eventually(lambda: not mx.pids(), "stopped")
            mx.start()
            send(mx.port, "ada@sender.example", ["b@drops.example"], mail())
            servers["drops"].wait_messages(2)
            for peer in servers.values():
                self.assertEqual([s.number for s in peer.sessions[1:] if "STARTTLS" in s.commands], [])

    def test_above_may_mail_waits_and_nothing_is_said(self):
        servers = {case: Plain(getattr(self, case)) for case in self.CASES}
        with Instance(self.to(servers, smtp_tls_security_level="encrypt")) as mx:
            for case, server in servers.items():
                self.addCleanup(server.__exit__)
                send(mx.port, "ada@sender.example", [f"a@{case.replace('_', '-')}.example"], mail())
            for case in servers:
                with self.subTest(case):
                    line = mx.wait_log(rf"to=<a@{case.replace('_', '-')}\.example>, .*status=.*").group(0)
                    self.assertIn("status=deferred", line)
                    self.assertNotIn("evil", line)

    def test_an_offer_that_is_taken_out_on_the_way(self):
        with Peer() as peer, Instance(self.settings(relay_to(peer), smtp_tls_security_level="encrypt")) as mx:
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
            mx.wait_log(
                r"dsn=4\.7\.4, status=deferred \(TLS is required, "
                r"but was not offered by host 127\.0\.0\.1\[127\.0\.0\.1\]\)"
            )
            self.assertEqual(peer.messages, [])

    def test_a_refusal_of_starttls(self):
        for level in ("may", "encrypt"):
            with self.subTest(level), Peer(tls=server_context(self.right)) as peer, \
                    Instance(self.settings(relay_to(peer), smtp_tls_security_level=level)) as mx:
                peer.replies["STARTTLS"] = lambda session, line: "454 4.7.0 TLS not available"
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                if level == "may":
                    self.assertIsNone(peer.wait_messages(1)[0].session.tls)
                else:
                    mx.wait_log(
                        r"dsn=4\.7\.4, status=deferred \(TLS is required, "
                        r"but host 127\.0\.0\.1\[127\.0\.0\.1\] refused to start TLS: 454 4\.7\.0 TLS not available"
                    )
                    self.assertEqual(peer.messages, [])

    def test_a_setting_of_ours_that_cannot_work_is_said_to_be_ours(self):
        missing_file = os.path.join(self.directory, "nowhere.pem")
        for level in ("may", "encrypt"):
            with self.subTest(level), Peer(tls=server_context(self.right)) as peer, Instance(self.settings(
                    relay_to(peer), smtp_tls_security_level=level, smtp_tls_cert_file=missing_file)) as mx:
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                if level == "may":
                    self.assertIsNone(peer.wait_messages(1)[0].session.tls)
                    self.assertIn("nowhere.pem", mx.log())
                else:
                    mx.wait_log(
                        r"dsn=4\.7\.5, status=deferred \(TLS is required, "
                        r"but there is a client TLS configuration problem.*nowhere"
                    )
                    self.assertEqual(peer.messages, [])


    def test_check_names_what_keeps_the_client_from_speaking_tls(self):
        missing_file = os.path.join(self.directory, "nowhere.pem")
        with Instance(
            self.settings(
                smtp_tls_cert_file=missing_file,
                smtp_tls_protocols="TLSv9",
                smtp_tls_mandatory_ciphers="strong",
                lmtp_tls_key_file=self.certificates["wrong name"].key,
                lmtp_tls_cert_file=self.right.pem,
            ),
            start=False,
        ) as mx:
            said = mx.tool("penstock", "check").stdout
            for words in (
                rf"warning: \S+:\d+: {missing_file}: cannot be read: No such file",
                r"warning: \S+:\d+: smtp_tls_protocols: .*TLSv9",
                r"warning: \S+:\d+: smtp_tls_mandatory_ciphers: no such cipher grade \"strong\"",
                r"warning: .* is not the key of the certificate in ",
            ):
                self.assertRegex(said, words)
        with Instance(self.settings(tls_medium_cipherlist="NOTHING-KNOWN"), start=False) as mx:
            self.assertRegex(
                mx.tool("penstock", "check").stdout,
                r"warning: .*smtp_tls_ciphers = medium, by tls_\*_cipherlist: .*NOTHING-KNOWN",
            )
        with Instance(
            self.settings(smtp_tls_cert_file=self.right.pem, smtp_tls_key_file=self.right.key,
                          compatibility_level="3.10"), start=False
        ) as mx:
            self.assertNotRegex(mx.tool("penstock", "check").stdout, r"tls_|\.pem|\.key")


@unittest.skipIf(peers.unavailable(), peers.unavailable())
class RealPeers(Certified):
    def test_postfix_takes_mail_over_tls_and_says_so(self):
        port = free_port()
        with Peer() as sink:
            postfix = peers.Postfix(port, relay_port=sink.port, settings="smtpd_tls_security_level = encrypt\n"
                                    "smtpd_tls_cert_file = /var/lib/tls.pem\nsmtpd_tls_key_file = /var/lib/tls.key\n"
                                    "smtpd_tls_received_header = yes\n")
            for name in ("pem", "key"):
                shutil.copy(getattr(self.right, name), os.path.join(postfix.dir, "lib", f"tls.{name}"))
            self.enterContext(postfix)
            hop = f"[127.0.0.1]:{port}"
            with Instance(
                self.settings(
                    relay_domains="rcpt.example",
                    transport_maps=inline({"rcpt.example": f"smtp:{hop}"}),
                    smtp_tls_policy_maps=inline({hop: f"secure match={NAME}"}),
                )
            ) as mx:
                for i in range(20):
                    send(mx.port, "ada@sender.example", [f"r{i}@rcpt.example"], mail(body=f"message {i}\r\n"))
                got = sink.wait_messages(20, seconds=60)
                self.assertEqual({m.recipients[0] for m in got}, {f"r{i}@rcpt.example" for i in range(20)})
                self.assertIn(b"using TLSv1.3 with cipher", b" ".join(got[0].content.split()))
                mx.wait_log(r"Verified TLS connection established to 127\.0\.0\.1\[127\.0\.0\.1\]:\d+: TLSv1\.3")
                mx.wait_empty_queue()


if __name__ == "__main__":
    unittest.main()
