"""TLS in the SMTP server: STARTTLS and TLS from the first byte, with real clients."""
import base64
import os
import re
import shutil
import socket
import ssl
import subprocess

import peers
from certificates import Authority, openssl
from harness import *


def client_context(ca=None, certificate=None, version=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED if ca else ssl.CERT_NONE
    if ca:
        context.load_verify_locations(ca.pem)
    if certificate:
        context.load_cert_chain(certificate.pem, certificate.key)
    if version:
        context.minimum_version = context.maximum_version = version
    return context


class TlsClient(Client):
    """A client with STARTTLS, or with TLS at once (wrapped); .tls is the TLS socket then."""

    def __init__(self, port, context=None, wrapped=False, name=None, session=None, **options):
        self.context, self.name, self.session = context or client_context(), name, session
        if wrapped:
            plain = socket.create_connection(("127.0.0.1", port), timeout=60)
            self._wrap(plain)
            self.greeting = self.reply()
            self.features = [l[4:] for l in self.expect("EHLO client.example", "250").split("\n")[1:]]
        else:
            super().__init__(port, **options)

    def _wrap(self, plain):
        self.socket = self.tls = self.context.wrap_socket(plain, server_hostname=self.name, session=self.session)
        self.file = self.socket.makefile("rb")

    def starttls(self, hello=True):
        self.expect("STARTTLS", "220")
        return self.handshake(hello)

    def handshake(self, hello=True):
        """What follows the reply to STARTTLS."""
        self.file.close()
        self._wrap(self.socket)
        if hello:
            self.features = [l[4:] for l in self.expect("EHLO client.example", "250").split("\n")[1:]]
        return self

    def common_name(self):
        der = self.tls.getpeercert(binary_form=True)
        name = openssl("x509", "-inform", "der", "-noout", "-subject", stdin=der)
        return name.strip().split("CN = ")[1]


class TlsServer(Suite):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dir = cls.folder()
        cls.ca = Authority(cls.dir)
        cls.mx = cls.ca.issue("mx.test.example")
        cls.other = cls.ca.issue("other.test.example")

    def settings(self, level="may", certificate=None, **more):
        certificate = certificate or self.mx
        return {"smtpd_tls_security_level": level, "smtpd_tls_cert_file": certificate.pem,
                "smtpd_tls_key_file": certificate.key, "smtpd_tls_loglevel": "1", "smtpd_error_sleep_time": "0",
                "local_transport": "discard:", "smtpd_relay_restrictions": "reject_unauth_destination",
                **more}

    def test_a_client_that_says_it_speaks_another_protocol_gets_no_connection(self):
        def offering(*protocols):
            context = client_context()
            context.set_alpn_protocols(protocols)
            return context

        with Instance(self.settings()) as mx:
            for protocols, chosen in ((["smtp"], "smtp"), (["h2", "esmtp"], "esmtp"), (["esmtp", "smtp"], "smtp")):
                with self.subTest(protocols), TlsClient(mx.port, offering(*protocols)) as client:
                    client.starttls()
                    self.assertEqual(client.tls.selected_alpn_protocol(), chosen)
            with TlsClient(mx.port, offering("h2", "http/1.1", "SMTP")) as client:
                with self.assertRaisesRegex(ssl.SSLError, "no application protocol"):
                    client.starttls()
            with TlsClient(mx.port) as client:  # who says nothing is as welcome as before
                self.assertIsNone(client.starttls().tls.selected_alpn_protocol())

    def test_a_message_over_starttls(self):
        with Instance({**self.settings(smtpd_tls_received_header="yes", smtpd_helo_required="yes"),
                       "virtual_mailbox_maps": inline({"a@virtual.test.example": "a/"})}) as mx:
            with TlsClient(mx.port, client_context(self.ca)) as client:
                self.assertTrue(client.has("STARTTLS"))
                client.expect("STARTTLS now", "501 5.5.4")
                client.expect("MAIL FROM:<a@sender.example>", "250")
                client.starttls(hello=False)
                # What the client said before is forgotten (RFC 3207 section 4.2).
                client.expect("RCPT TO:<b@virtual.test.example>", "503")
                client.expect("MAIL FROM:<a@sender.example>", "503")
                client.features = [l[4:] for l in client.expect("EHLO client.example", "250").split("\n")]
                self.assertFalse(client.has("STARTTLS"))
                client.expect("STARTTLS", "503 5.5.1")
                client.send(
                    "a@sender.example", ["a@virtual.test.example"], mail(body="x" * 900 + "\r\n" + "y\r\n" * 50000)
                )
                client.expect("QUIT", "221")
                self.assertEqual(client.socket.recv(100), b"")  # close_notify: without it Python fails
            message = mx.virtual_box("a").wait()[0].decode()
            self.assertIn("y\n" * 50000, message.replace("\r\n", "\n"))
            received = message[message.index("Received: from client.example"):message.index("From: ")]
            received = re.sub(r"\r?\n[ \t]+", " ", received)
            self.assertRegex(
                received,
                r"\(using TLSv1\.3 with cipher TLS_AES_256_GCM_SHA384 \(256/256 bits\) key-exchange "
                r"X25519 server-signature ECDSA \(prime256v1\) server-digest SHA256\) "
                r"\(No client certificate requested\) by mx\.test\.example \(Penstock\) with ESMTPS id",
            )
            mx.wait_log(
                r"Anonymous TLS connection established from \S+\[127\.0\.0\.1\]: TLSv1\.3 with cipher "
                r"TLS_AES_256_GCM_SHA384 \(256/256 bits\) key-exchange X25519 "
            )
            mx.wait_log(r"disconnect from \S+ ehlo=2 starttls=1/3 mail=2/3 rcpt=1/2 data=1 quit=1 commands=")

    def test_injection_behind_starttls(self):
        with Instance(self.settings()) as mx:
            with Client(mx.port) as client:
                client.raw(b"STARTTLS\r\nRSET\r\n")
                self.assertTrue(client.reply().startswith("554 5.5.0"))
                self.assertEqual(client.socket.recv(100), b"")
        with Instance(self.settings(smtpd_forbid_unauth_pipelining="no")) as mx:
            with TlsClient(mx.port) as client:
                client.raw(b"STARTTLS\r\nMAIL FROM:<evil@sender.example>\r\n")
                self.assertTrue(client.reply().startswith("220"))
                client.file.close()
                client._wrap(client.socket)
                # The next reply is to an encrypted command, and there is no transaction.
                client.expect("NOOP", "250 2.0.0 Ok")
                client.expect("RCPT TO:<a@local.test.example>", "503 5.5.1")
                mx.wait_log(r"33 bytes in clear text behind STARTTLS from .* are dropped")
            # Clear text in a packet of its own is no handshake.
            with Client(mx.port) as client:
                client.expect("STARTTLS", "220")
                client.raw(b"MAIL FROM:<evil@sender.example>\r\n")
                self.assertNotIn(b"250", b"".join(iter(lambda: client.socket.recv(100), b"")))
                mx.wait_log(r"SSL_accept error from .*: .*wrong version number")
                mx.wait_log(r"lost connection after STARTTLS from")

    def test_level_encrypt_takes_no_mail_in_clear_text(self):
        with Instance(self.settings("encrypt")) as mx:
            with TlsClient(mx.port) as client:
                for command in ("MAIL FROM:<a@sender.example>", "RSET", "VRFY a", "AUTH PLAIN AA=="):
                    client.expect(command, "530 5.7.0 Must issue a STARTTLS command first")
                client.expect("NOOP", "250")
                client.starttls()
                client.send("a@sender.example", ["a@local.test.example"], mail())
        old = {k: v for k, v in self.settings().items() if k != "smtpd_tls_security_level"}
        with Instance({**old, "smtpd_enforce_tls": "yes"}) as mx, TlsClient(mx.port) as client:
            client.expect("MAIL FROM:<a@sender.example>", "530 5.7.0")
            client.starttls()
        with Instance({**old, "smtpd_use_tls": "yes"}) as mx, TlsClient(mx.port) as client:
            client.expect("RSET", "250")
            client.starttls()

    def test_tls_from_the_first_byte(self):
        port = free_port()
        with Instance(
            self.settings("none"), {f"127.0.0.1:{port}": "inet n - n - - smtpd -o smtpd_tls_wrappermode=yes"}
        ) as mx:
            with TlsClient(port, client_context(self.ca), wrapped=True) as client:
                self.assertTrue(client.greeting.startswith("220"))
                self.assertFalse(client.has("STARTTLS"))
                client.send("a@sender.example", ["a@local.test.example"], mail())
                client.quit()
            with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
                plain.sendall(b"EHLO client.example\r\n")
                self.assertNotIn(b"220", b"".join(iter(lambda: plain.recv(100), b"")))
            mx.wait_log(r"lost connection after CONNECT from")
            with Client(mx.port) as client:  # the other service has no TLS
                client.expect("STARTTLS", "502")

    def test_half_a_handshake(self):
        with Instance(self.settings(smtpd_starttls_timeout="1s")) as mx:
            for ending in (lambda s: s.shutdown(socket.SHUT_WR), lambda s: s.close(), lambda s: None):
                with Client(mx.port) as client:
                    client.expect("STARTTLS", "220")
                    client.raw(b"\x16\x03\x01\x02\x00\x01\x00")
                    ending(client.socket)
                    if client.socket.fileno() >= 0:
                        rest = b"".join(iter(lambda: client.socket.recv(100), b""))
                        self.assertNotIn(b"421", rest)  # nothing more in clear text
            mx.wait_log(r"SSL_accept error from .*: connection lost in the TLS handshake")
            mx.wait_log(r"timeout after STARTTLS from")

    def test_many_clients_that_stop_in_the_handshake(self):
        most = 1000
        self.need_descriptors(most + 200)
        with Instance(self.settings(smtpd_starttls_timeout="8s", smtpd_client_connection_count_limit="0")) as mx:
            def resident():
                with open(f"/proc/{mx.pids()['smtpd'][0]}/statm") as statm:
                    return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            with TlsClient(mx.port) as client:
                client.starttls()
            hello = ssl.MemoryBIO()
            try:
                client_context().wrap_bio(ssl.MemoryBIO(), hello).do_handshake()
            except ssl.SSLWantReadError:
                hello = hello.read()
            before, clients = resident(), []
            for i in range(most):
                client = Client(mx.port)
                client.expect("STARTTLS", "220")
                client.raw(hello if i % 2 else hello[:100])
                clients.append(client)
            for client in clients[1::2]:
                self.assertEqual(client.socket.recv(1), b"\x16")  # the server has answered: it has had its turn
            grown = (resident() - before) / most
            self.assertLess(grown, 120_000, "bytes per session in a handshake")
            with TlsClient(mx.port, client_context(self.ca)) as client:
                client.starttls()
                client.send("a@sender.example", ["a@local.test.example"], mail())
            for client in clients:
                while client.socket.recv(65536):
                    pass
                client.close()
            eventually(lambda: mx.log().count("timeout after STARTTLS") >= most, "all are logged")

    def test_sessions_are_resumed_elsewhere_and_after_a_restart(self):
        port = free_port()
        with Instance(self.settings(), {f"127.0.0.1:{port}": "inet n - n - - smtpd"}) as mx:
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                context = client_context(self.ca, version=version)
                with TlsClient(mx.port, context) as client:
                    client.starttls()
                    self.assertFalse(client.tls.session_reused)
                    session = client.tls.session
                with TlsClient(port, context, session=session) as client:
                    client.starttls()
                    self.assertTrue(client.tls.session_reused, version)
                    session = client.tls.session
                mx.kill("smtpd")
                eventually(lambda: answers(mx.port), "smtpd is back")
                with TlsClient(mx.port, context, session=session) as client:
                    client.starttls()
                    self.assertTrue(client.tls.session_reused, version)
            self.assertNotIn("good for this process only", mx.log())

    def test_a_session_of_one_service_opens_none_that_demands_more_of_clients(self):
        port, context = free_port(), client_context(self.ca)
        known = client_context(self.ca, self.other)
        with Instance(self.settings(), {f"127.0.0.1:{port}": "inet n - n - - smtpd -o smtpd_tls_security_level=encrypt "
                                        f"-o smtpd_tls_req_ccert=yes -o smtpd_tls_CAfile={self.ca.pem}"}) as mx:
            eventually(lambda: answers(port), "the second service answers")
            with TlsClient(mx.port, context) as client:
                session = client.starttls().tls.session
            with TlsClient(mx.port, context, session=session) as client:
                self.assertTrue(client.starttls().tls.session_reused)
            with self.assertRaises(OSError), TlsClient(port, context, session=session) as client:
                client.starttls()
            with TlsClient(port, known) as client:
                client.starttls().expect("NOOP", "250")

    def test_no_tickets_no_resumption(self):
        with Instance(self.settings(smtpd_tls_session_cache_timeout="0")) as mx:
            context = client_context(self.ca)
            with TlsClient(mx.port, context) as client:
                session = client.starttls().tls.session
            with TlsClient(mx.port, context, session=session) as client:
                self.assertFalse(client.starttls().tls.session_reused)

    def reused(self, mx, *options):
        """Whether openssl s_client's second connection resumes the session of its first."""
        session = os.path.join(self.folder(), "session")
        said = []
        for how in ("-sess_out", "-sess_in"):
            done = subprocess.run(
                ["openssl", "s_client", "-connect", f"127.0.0.1:{mx.port}", "-starttls", "smtp", "-tls1_2", *options,
                 how, session], input="QUIT\r\n", capture_output=True, text=True, timeout=60)
            said.append(re.findall(r"^(New|Reused), TLSv1\.2", done.stdout, re.M))
        self.assertEqual(said[0], ["New"])
        return said[1] == ["Reused"]

    def test_sessions_of_clients_without_tickets_are_kept_where_that_is_asked(self):
        for database, kept in (("", False), ("btree:/nonexistent/smtpd_scache", True)):
            with Instance(self.settings(smtpd_tls_session_cache_database=database)) as mx:
                self.assertEqual(self.reused(mx, "-no_ticket"), kept)
                self.assertTrue(self.reused(mx))

    def dh_group(self, mx):
        """The group of a handshake with DHE, as openssl s_client shows it."""
        done = subprocess.run(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{mx.port}", "-starttls", "smtp", "-tls1_2", "-cipher",
             "DHE-RSA-AES256-GCM-SHA384"], input="QUIT\r\n", capture_output=True, text=True, timeout=60)
        return re.findall(r"^Server Temp Key: (.*)$", done.stdout, re.M)

    def test_parameters_of_diffie_hellman(self):
        own = self.folder()
        mx_rsa = self.ca.issue("rsa.test.example", kind="rsa")
        file = os.path.join(own, "dh.pem")

        def put(group):
            openssl("genpkey", "-genparam", "-algorithm", "DH", "-pkeyopt", f"group:{group}", "-out", file + ".new")
            os.chmod(file + ".new", 0o644)
            os.replace(file + ".new", file)
        put("ffdhe3072")
        with Instance(self.settings(certificate=mx_rsa, smtpd_tls_dh1024_param_file=file)) as mx:
            self.assertEqual(self.dh_group(mx), ["DH, 3072 bits"])
            put("ffdhe4096")
            self.assertEqual(self.dh_group(mx), ["DH, 4096 bits"])
        put("ffdhe3072")
        if os.geteuid() == 0:
            os.chmod(file, 0o600)  # as administrators keep it
            with Instance(self.settings(certificate=mx_rsa, smtpd_tls_dh1024_param_file=file)) as mx:
                self.assertEqual(self.dh_group(mx), ["DH, 3072 bits"])
        weak = os.path.join(own, "weak.pem")
        openssl("genpkey", "-genparam", "-algorithm", "DH", "-pkeyopt", "group:modp_1536", "-out", weak)
        os.chmod(weak, 0o644)
        for path, why in (("auto", None), (weak, "dh key too small: .*: OpenSSL chooses others"),
                          (mx_rsa.pem, "No supported data .*: OpenSSL chooses others"),
                          (own + "/none", "No such file or directory: OpenSSL chooses the parameters")):
            with self.subTest(path), Instance(
                    self.settings(certificate=mx_rsa, smtpd_tls_dh1024_param_file=path)) as mx:
                self.assertEqual(self.dh_group(mx), ["DH, 2048 bits"])
                checked = mx.tool("penstock", "check", "--no-dns").stdout
                for text in (mx.log(), checked):
                    if why:
                        self.assertRegex(text, "smtpd_tls_dh1024_param_file: .*" + why)
                    else:
                        self.assertNotIn("OpenSSL chooses", text)

    def test_certificates_that_change(self):
        own = os.path.join(self.dir, "changing")
        os.makedirs(own, exist_ok=True)
        cert, key = os.path.join(own, "cert"), os.path.join(own, "key")

        def put(certificate, text=None):
            for source, target in ((certificate.key, key), (certificate.pem, cert)):
                with open(target + ".new", "w") as out, open(source) as text_in:
                    out.write(text if text is not None else text_in.read())
                os.chmod(target + ".new", 0o644)  # readable for the server's account, as administrators set it up
                os.replace(target + ".new", target)
        put(self.mx)
        files = {"smtpd_tls_cert_file": cert, "smtpd_tls_key_file": key}
        with Instance({**self.settings(), **files}) as mx:
            def shown():
                with TlsClient(mx.port) as client:
                    return client.starttls().common_name()
            self.assertEqual(shown(), "mx.test.example")
            with TlsClient(mx.port) as old:
                old.starttls()
                put(self.other)
                self.assertEqual(shown(), "other.test.example")
                old.expect("NOOP", "250")  # continues with its first settings
            put(self.mx, text="broken\n")
            self.assertEqual(shown(), "other.test.example")
            mx.wait_log(r"warning: .*cert: no certificate in it.*: the certificates read before stay in use")
            warnings = mx.log().count("stay in use")
            self.assertEqual(shown(), "other.test.example")
            self.assertEqual(mx.log().count("stay in use"), warnings)
            put(self.mx)
            self.assertEqual(shown(), "mx.test.example")

    def test_keys_of_root_are_read_before_rights_are_dropped(self):
        if os.geteuid() != 0:
            self.skipTest("root only")
        secret = os.path.join(self.dir, "secret")
        os.makedirs(secret, mode=0o700, exist_ok=True)
        key = shutil.copy(self.mx.key, os.path.join(secret, "key"))
        with Instance({**self.settings(), "smtpd_tls_key_file": key}, start=False) as mx:
            mx.start()
            with TlsClient(mx.port) as client:
                client.starttls()
            self.assertEqual(re.findall(r"smtpd\[\d+\]: warning: .*", mx.log()), [])

    def test_what_is_wrong_with_the_files_is_said(self):
        for level, keyword, answer in (("may", "250", "454 4.7.0"), ("encrypt", "530", "454 4.7.0")):
            with self.subTest(level), \
                    Instance({**self.settings(level), "smtpd_tls_key_file": self.other.key}) as mx:
                mx.wait_log(r"warning: .*is not the key of the certificate in .*: TLS is not available")
                self.assertRegex(
                    mx.tool("penstock", "check").stdout,
                    r"warning: .*is not the key of the certificate in .*: TLS is not available",
                )
                with Client(mx.port) as client:
                    self.assertFalse(client.has("STARTTLS"))
                    client.expect("MAIL FROM:<a@sender.example>", keyword)
                    client.expect("STARTTLS", answer)
        with Instance({**self.settings(), "smtpd_tls_cert_file": "/nonexistent/cert.pem"}) as mx:
            mx.wait_log(r"warning: /nonexistent/cert\.pem: cannot be read: No such file or directory")
            send(mx.port, "a@sender.example", ["a@local.test.example"], mail())

    def test_certificates_by_server_name(self):
        names = os.path.join(self.dir, "by_name.pem")
        with open(names, "w") as out:
            out.write(self.other.text())
        with Instance(self.settings(), start=False) as mx:
            mx.set(tls_server_sni_maps="texthash:" + mx.write("sni", "\n".join([
                "other.test.example " + base64.b64encode(self.other.text().encode()).decode(),
                f".wild.example {names}", "bad.example @@@"]) + "\n"))
            mx.start()
            for name, shown in (
                ("other.test.example", "other.test.example"),
                ("OTHER.test.example", "other.test.example"),
                ("a.b.wild.example", "other.test.example"),
                ("unknown.example", "mx.test.example"),
                (None, "mx.test.example"),
            ):
                with self.subTest(name), TlsClient(mx.port, name=name) as client:
                    self.assertEqual(client.starttls().common_name(), shown)
            mx.wait_log(r"TLS connection established from \S+ to other\.test\.example: TLSv1\.3")
            with TlsClient(mx.port, name="bad.example") as client:
                with self.assertRaises((ssl.SSLError, OSError)):
                    client.starttls()
            mx.wait_log(r"warning: tls_server_sni_maps: bad\.example: ")

    def test_client_certificates(self):
        known, stranger = self.ca.issue("known.example"), Authority(os.path.join(self.dir, "2")).issue(
            "stranger.example"
        )
        with Instance(
            {
                **self.settings(),
                "mynetworks": "192.0.2.1",
                "smtpd_tls_ask_ccert": "yes",
                "smtpd_tls_CAfile": self.ca.pem,
                "smtpd_tls_received_header": "yes",
                "transport_maps": inline({"out.example": "discard:"}),
            },
            start=False,
        ) as mx:
            table = mx.write("prints", known.fingerprint() + " known\n")
            access = mx.write("access", f"{stranger.fingerprint()} 554 5.7.1 we know you\n")
            mx.set(relay_clientcerts=f"texthash:{table}",
                   smtpd_relay_restrictions=f"check_ccert_access texthash:{access}, permit_tls_clientcerts, "
                                            "reject_unauth_destination")
            mx.start()

            def relay(certificate):
                with TlsClient(mx.port, client_context(certificate=certificate)) as client:
                    client.starttls().expect("MAIL FROM:<a@sender.example>", "250")
                    return client.command("RCPT TO:<b@out.example>")
            self.assertRegex(relay(None), "^454 4.7.1|^554 5.7.1 <b@out.example>: Relay access denied")
            self.assertRegex(relay(known), "^250")
            mx.wait_log(r"Trusted TLS connection established from ")
            self.assertRegex(relay(stranger), "^554 5.7.1 .*we know you")
            mx.wait_log(r"Untrusted TLS connection established from ")
            for order, taken in (("cert_fingerprint, pubkey_fingerprint", False), ("pubkey_fingerprint", True),
                                 ("cert_fingerprint", False)):
                mx.set(mynetworks="127.0.0.0/8",
                       smtpd_relay_restrictions=f"check_ccert_access {{ texthash:{access}, {{ search_order = {order} "
                                                "} }, permit_mynetworks, reject_unauth_destination")
                self.assertNotIn("ccert", mx.tool("penstock", "check").stdout)
                mx.reload()
                eventually(lambda: relay(stranger).startswith("250" if taken else "554"), order)
            mx.set(smtpd_relay_restrictions=f"check_ccert_access {{ texthash:{access}, {{ search_order = subject_cn }} "
                                            "}, reject_unauth_destination")
            self.assertIn('search_order: "subject_cn" is neither', mx.tool("penstock", "check").stdout)
        with Instance({**self.settings(), "mynetworks": "192.0.2.1", "smtpd_tls_ask_ccert": "yes",
                       "smtpd_tls_CAfile": self.ca.pem,
                       "smtpd_relay_restrictions": "permit_tls_all_clientcerts, reject_unauth_destination",
                       "transport_maps": inline({"out.example": "discard:"})}) as mx:
            self.assertRegex(relay(known), "^250")
            self.assertNotRegex(relay(stranger), "^250")
        with Instance(
            {**self.settings("encrypt"), "smtpd_tls_req_ccert": "yes", "smtpd_tls_CAfile": self.ca.pem}
        ) as mx:
            with TlsClient(mx.port, client_context(certificate=known)) as client:
                client.starttls().send("a@sender.example", ["a@local.test.example"], mail())
            with TlsClient(mx.port, client_context(certificate=stranger)) as client:
                client.starttls(hello=False)
                self.assertRegex(client.reply(), "^421 4.7.1 ")
            with TlsClient(mx.port) as client:
                with self.assertRaises((ssl.SSLError, OSError)):
                    client.starttls()
            mx.wait_log(r"SSL_accept error from .*peer did not return a certificate")

    def test_protocols_and_ciphers_in_both_syntaxes(self):
        old, new = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
        for setting, refused, taken in ((">=TLSv1.3", old, new), ("!SSLv2, !SSLv3, !TLSv1.3", new, old)):
            with self.subTest(setting), Instance(self.settings(smtpd_tls_protocols=setting)) as mx:
                with TlsClient(mx.port, client_context(version=refused)) as client:
                    with self.assertRaises((ssl.SSLError, OSError)):
                        client.starttls()
                with TlsClient(mx.port, client_context(version=taken)) as client:
                    client.starttls()
        strict = {"smtpd_tls_mandatory_ciphers": "high", "smtpd_tls_mandatory_protocols": "<=TLSv1.2",
                  "smtpd_tls_mandatory_exclude_ciphers": "AES256, CHACHA20:ARIA"}
        with Instance({**self.settings("encrypt"), **strict}) as mx, TlsClient(mx.port) as client:
            self.assertIn("AES128", client.starttls().tls.cipher()[0])
        with Instance(self.settings(smtpd_tls_protocols="TLSv9")) as mx:
            mx.wait_log(r"warning: smtpd_tls_protocols: protocol \"TLSv9\".*TLS is not available")
            with Client(mx.port) as client:
                self.assertFalse(client.has("STARTTLS"))

    def test_rsa_beside_ecdsa(self):
        rsa = self.ca.issue("rsa.test.example", kind="rsa")
        both = {"smtpd_tls_cert_file": rsa.pem, "smtpd_tls_key_file": rsa.key, "smtpd_tls_eccert_file": self.mx.pem,
                "smtpd_tls_eckey_file": self.mx.key, "smtpd_tls_protocols": "<=TLSv1.2"}
        with Instance({**self.settings(), **both}) as mx:
            for ciphers, shown in (("aRSA", "rsa.test.example"), ("aECDSA", "mx.test.example")):
                context = client_context()
                context.set_ciphers(ciphers)
                with TlsClient(mx.port, context) as client:
                    self.assertEqual(client.starttls().common_name(), shown)

    def test_new_tls_sessions_of_a_client_are_limited_and_resumed_ones_are_free(self):
        strangers = {"mynetworks": "192.0.2.1/32", "smtpd_client_new_tls_session_rate_limit": "2"}
        with Instance(self.settings(**strangers)) as mx:
            context = client_context(self.ca)
            with TlsClient(mx.port, context) as client:
                session = client.starttls().tls.session
            for _ in range(3):
                with TlsClient(mx.port, context, session=session) as client:
                    self.assertTrue(client.starttls().tls.session_reused)
                    session = client.tls.session
            with TlsClient(mx.port, client_context()) as client:
                client.starttls()
            with TlsClient(mx.port, client_context()) as client:
                client.expect("STARTTLS", "454 4.7.0 Error: too many new TLS sessions from 127.0.0.1")

    def test_renegotiation_is_refused(self):
        """Only TLS 1.2 has renegotiation. s_client starts it at a line that begins with R."""
        with Instance(self.settings()) as mx:
            client = subprocess.Popen(
                ["openssl", "s_client", "-starttls", "smtp", "-connect", f"127.0.0.1:{mx.port}", "-tls1_2", "-crlf"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            self.addCleanup(client.kill)
            client.stdin.write(b"NOOP\n")
            client.stdin.flush()
            told = b""
            while b"250 2.0.0 Ok" not in told:
                line = client.stdout.readline()
                self.assertNotEqual(line, b"", told)
                told += line
            told = client.communicate(b"R\nNOOP\n", timeout=60)[0]
            self.assertIn(b"RENEGOTIATING", told)
            self.assertIn(b"no renegotiation", told)
            self.assertNotIn(b"250 2.0.0 Ok", told)
            with TlsClient(mx.port) as other:
                other.starttls()

    def test_openssl_and_swaks(self):
        with Instance(
            {**self.settings("encrypt"), "virtual_mailbox_maps": inline({"a@virtual.test.example": "a/"})}
        ) as mx:
            done = subprocess.run(
                [
                    "openssl",
                    "s_client",
                    "-starttls",
                    "smtp",
                    "-connect",
                    f"127.0.0.1:{mx.port}",
                    "-CAfile",
                    self.ca.pem,
                    "-verify_return_error",
                    "-quiet",
                    "-crlf",
                ],
                input=b"QUIT\n",
                capture_output=True,
                timeout=60,
            )
            self.assertIn(b"221 2.0.0 Bye", done.stdout, done.stderr)
            if not shutil.which("swaks"):
                self.skipTest("no swaks")
            done = subprocess.run(
                [
                    "swaks",
                    "--tls",
                    "--server",
                    f"127.0.0.1:{mx.port}",
                    "--from",
                    "a@sender.example",
                    "--to",
                    "a@virtual.test.example",
                ],
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            mx.virtual_box("a").wait()

    @unittest.skipIf(peers.unavailable(), str(peers.unavailable()))
    def test_postfix_sends_and_looks(self):
        with Instance({**self.settings("encrypt", smtpd_tls_received_header="yes"),
                       "virtual_mailbox_maps": inline({"a@virtual.test.example": "a/"})}) as mx:
            tls = f"""smtp_tls_security_level = verify
smtp_tls_verify_cert_match = mx.test.example
smtp_tls_CAfile = /etc/ca.pem
smtp_tls_loglevel = 1
smtp_tls_session_cache_database = lmdb:/var/lib/postfix/smtp_scache
"""
            postfix = peers.Postfix(free_port(), mx.port, tls)
            with open(self.ca.pem) as ca:
                postfix.write("etc/ca.pem", ca.read())
            with postfix:
                for _ in range(2):
                    send(postfix.port, "a@sender.example", ["a@virtual.test.example"], mail())
                mx.virtual_box("a").wait(2)
                postfix.wait_log("Verified TLS connection established to 127\\.0\\.0\\.1")
                looked = postfix.run("/usr/sbin/posttls-finger", "-c", "-l", "secure", "-F", "/etc/ca.pem",
                                     "-r", "1", f"[127.0.0.1]:{mx.port}", "mx.test.example")
                self.assertIn("Verified TLS connection established", looked.stdout)


if __name__ == "__main__":
    unittest.main()
