"""Private keys in a process of their own: TLS servers and clients, names, DKIM, renewal, its death under load, and
hosts without it."""
import base64
import os
import re
import select
import shutil
import signal
import ssl
import subprocess
import threading

import dkim_peers
from certificates import Authority, openssl
from harness import *
from test_dkim import Keys
from test_tls_server import TlsClient, client_context


def server_context(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.pem, certificate.key)
    return context


class PrivateKeys(Suite):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        dkim_peers.unpack()
        cls.dir = cls.folder()
        cls.ca = Authority(cls.dir)
        cls.mx, cls.other = cls.ca.issue("mx.test.example"), cls.ca.issue("other.test.example")
        cls.client = cls.ca.issue("client.test.example", kind="rsa")

    def settings(self, **more):
        return {"smtpd_tls_security_level": "may", "smtpd_tls_cert_file": self.mx.pem, "smtpd_error_sleep_time": "0",
                "smtpd_tls_key_file": self.mx.key, "local_transport": "discard:",
                "smtpd_relay_restrictions": "permit_mynetworks,reject_unauth_destination", **more}

    def signed(self, mx):
        """How often keys has signed: for servers, for clients, for DKIM."""
        before = len(mx.log())
        os.kill(mx.pids()["keys"][0], signal.SIGUSR1)
        found = eventually(lambda: re.findall(r"keys\[\d+\]: status: signed: (\d+) for TLS servers, (\d+) for TLS "
                                              r"clients, (\d+) for DKIM", mx.log()[before:]), lambda: mx.log())
        return [int(n) for n in found[-1]]

    def shown(self, mx, name=None):
        with TlsClient(mx.port, name=name) as client:
            return client.starttls().common_name()

    def test_who_signs_is_the_key_process(self):
        keys = Keys(self.folder())
        peer_context = server_context(self.other)
        peer_context.load_verify_locations(self.ca.pem)
        peer_context.verify_mode = ssl.CERT_REQUIRED
        with Peer(tls=peer_context) as peer, Instance({
                **relay_to(peer), **self.settings(), **keys.settings(), "smtp_tls_security_level": "encrypt",
                "smtp_tls_cert_file": self.client.pem, "smtp_tls_key_file": self.client.key}, start=False) as mx:
            mx.set(tls_server_sni_maps="texthash:" + mx.write("sni", "other.test.example " + base64.b64encode(
                self.other.text().encode()).decode() + "\n"), tls_key_service_name="keys")
            mx.start()
            self.assertEqual(self.shown(mx), "mx.test.example")
            self.assertEqual(self.shown(mx, "other.test.example"), "other.test.example")
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                with TlsClient(mx.port, client_context(self.ca, version=version), name="unknown.example") as client:
                    client.starttls()
            with TlsClient(mx.port) as client:
                client.starttls()
                client.send("ada@sender.example", ["b@rcpt.example"], mail("x", sender="ada@sender.example"))
            message = peer.wait_messages(1)[0]
            self.assertEqual(openssl("x509", "-inform", "DER", "-noout", "-subject",
                                     stdin=message.session.certificate).strip(), "subject=CN = client.test.example")
            self.assertEqual(keys.verify(message.content), ["pass", "pass"])
            self.assertEqual(self.signed(mx), [5, 1, 2])
            self.assertIn("private keys: held by the service keys", mx.tool("penstock", "status").stdout)
            self.assertNotIn("must not make", mx.log())
            self.assertEqual(re.findall(r"(?:smtpd|smtp|pickup|bounce)\[\d+\]: warning: .*", mx.log()), [])
            # Local mail, and what bounce writes, is signed there as well.
            subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, "-f", "ada@sender.example", "c@rcpt.example"],
                           input=b"From: ada@sender.example\n\nx\n", timeout=60, check=True)
            self.assertEqual(keys.verify(peer.wait_messages(2)[1].content), ["pass", "pass"])
            self.assertEqual(self.signed(mx)[2], 4)

    def lineage(self):
        """Files of a certificate as certbot has them: a folder of links into a folder that root alone can enter. What
        else a renewal does is to have them lead to the next files."""
        top = self.folder()
        for name in ("live", "archive"):
            os.makedirs(os.path.join(top, name, "mx"), mode=0o700)
            os.chmod(os.path.join(top, name), 0o700)
        live, renewals = os.path.join(top, "live", "mx"), []

        def put(name, source):
            """One of the two."""
            renewals.append(name)
            new = f"../../archive/mx/{name}{len(renewals)}.pem"
            shutil.copy(source, os.path.join(live, new))
            os.chmod(os.path.join(live, new), 0o600)
            os.symlink(new, os.path.join(live, "next"))
            os.replace(os.path.join(live, "next"), os.path.join(live, name + ".pem"))
        put("privkey", self.mx.key)
        put("fullchain", self.mx.pem)
        return os.path.join(live, "fullchain.pem"), os.path.join(live, "privkey.pem"), put

    @unittest.skipIf(os.geteuid() != 0, "only root has files that others cannot look at")
    def test_it_has_the_threads_that_are_wanted_and_signs_with_rsa_in_any_number_of_them(self):
        rsa = self.ca.issue("rsa.test.example", kind="rsa")
        threads = {}
        for wanted in ("1", "4"):
            with Instance(self.settings(smtpd_tls_cert_file=rsa.pem, smtpd_tls_key_file=rsa.key,
                                        tls_key_process_threads=wanted)) as mx:
                for _ in range(8):
                    self.assertEqual(self.shown(mx), "rsa.test.example")
                self.assertEqual(self.signed(mx)[0], 8)
                threads[wanted] = len(os.listdir(f"/proc/{mx.pids()['keys'][0]}/task"))
        self.assertEqual(threads["4"] - threads["1"], 4)

    def test_renewed_certificates_that_only_root_can_read_are_used_without_a_reload(self):
        cert, key, put = self.lineage()
        peer_context = server_context(self.other)
        peer_context.load_verify_locations(self.ca.pem)
        peer_context.verify_mode = ssl.CERT_REQUIRED
        settings = self.settings(smtpd_tls_cert_file=cert, smtpd_tls_key_file=key, smtp_tls_cert_file=cert,
                                 smtp_tls_key_file=key, smtp_tls_security_level="encrypt",
                                 smtp_connection_cache_on_demand="no",
                smtp_tls_session_cache_database="")
        with Peer(tls=peer_context) as peer, Instance({**settings, **relay_to(peer)}, start=False) as mx:
            chains = free_port()
            mx.set_services({f"127.0.0.1:{chains}": "inet n - n - - smtpd -o smtpd_tls_chain_files=" + f"{key},{cert}"})
            mx.start()

            def shown():
                with TlsClient(chains) as client:
                    return self.shown(mx), client.starttls().common_name()

            def sent(number):
                """By which certificate smtp was known."""
                send(mx.port, "ada@sender.example", ["b@rcpt.example"], mail(sender="ada@sender.example"))
                return openssl("x509", "-inform", "DER", "-noout", "-subject",
                               stdin=peer.wait_messages(number)[number - 1].session.certificate).strip()
            self.assertEqual(shown(), ("mx.test.example",) * 2)
            self.assertEqual(sent(1), "subject=CN = mx.test.example")
            pids = mx.pids()
            put("privkey", self.other.key)
            mx.wait_log(r"keys\[\d+\]: warning: .* is not the key of the certificate in ", 120)
            self.assertEqual(shown(), ("mx.test.example",) * 2)
            self.assertEqual(sent(2), "subject=CN = mx.test.example")
            put("fullchain", self.other.pem)
            mx.wait_log(r"keys\[\d+\]: the renewed certificate of .*fullchain\.pem is used", 120)
            eventually(lambda: shown() == ("other.test.example",) * 2, lambda: mx.log())
            eventually(lambda: sent(len(peer.messages) + 1) == "subject=CN = other.test.example", lambda: mx.log())
            self.assertEqual({p: mx.pids()[p] for p in ("keys", "smtpd")}, {p: pids[p] for p in ("keys", "smtpd")})
            self.assertNotIn("refused", mx.log())

    @unittest.skipIf(os.geteuid() != 0, "only root has files that others cannot look at")
    def test_certificates_by_name_in_files_that_only_root_can_read_are_served(self):
        cert, key, put = self.lineage()
        for kind in ("hash", "texthash", "inline"):
            with self.subTest(kind), Instance({"smtpd_tls_security_level": "may", "smtpd_tls_cert_file": self.other.pem,
                                               "smtpd_tls_key_file": self.other.key}, start=False) as mx:
                text = mx.write("sni", f"mx.test.example {key}, {cert}\nlost.test.example {key} {cert}.not\n")
                mx.set(tls_server_sni_maps="inline:{ { mx.test.example = %s } }" % f"{key} {cert}"
                       if kind == "inline" else f"{kind}:{text}")
                if kind == "hash":
                    made = mx.tool("penmap", "--all")
                    self.assertIn("sni.lmdb: made", made.stdout)
                    self.assertRegex(made.stderr, r"line 2: .*\.not: .*No such file.*: skipping this entry")
                    self.assertEqual(os.stat(text + ".lmdb").st_mode & 0o777, 0o600)
                mx.start()
                for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                    for name in ("mx.test.example", "other.test.example"):
                        with TlsClient(mx.port, client_context(self.ca, version=version), name=name) as client:
                            self.assertEqual(client.starttls().common_name(), name)
                if kind == "texthash":
                    with TlsClient(mx.port, name="lost.test.example") as client:
                        with self.assertRaises((ssl.SSLError, OSError)):
                            client.starttls()
                    put("fullchain", self.mx.pem)  # the files are looked at again
                    eventually(lambda: self.shown(mx, "mx.test.example") == "mx.test.example", lambda: mx.log())
                if kind == "hash":
                    self.assertEqual(self.shown(mx, "lost.test.example"), "other.test.example")
                self.assertNotIn("refused", mx.log())

    @unittest.skipIf(os.geteuid() != 0, "only root has files that others cannot look at")
    def test_a_table_with_keys_in_it_is_made_anew_at_a_reload(self):
        cert, key, put = self.lineage()
        with Instance(self.settings(), start=False) as mx:
            mx.set(tls_server_sni_maps="hash:" + mx.write("sni", f"by.test.example {key} {cert}\n"))
            mx.tool("penmap", "--all")
            mx.start()
            self.assertEqual(self.shown(mx, "by.test.example"), "mx.test.example")
            put("privkey", self.other.key)
            put("fullchain", self.other.pem)
            past = os.stat(os.path.join(mx.dir, "sni")).st_mtime - 100
            os.utime(os.path.join(mx.dir, "sni.lmdb"), (past, past))
            os.utime(os.path.join(mx.dir, "sni"), (past - 1, past - 1))
            mx.reload()
            eventually(lambda: self.shown(mx, "by.test.example") == "other.test.example", lambda: mx.log())

    def keys_of_root(self):
        """Settings for a certificate and a key that root alone can see, and what puts another pair there."""
        own = os.path.join(self.folder(), "secret")
        os.makedirs(own, mode=0o700)
        cert, key = os.path.join(own, "cert"), os.path.join(own, "key")

        def put(certificate):
            for source, target in ((certificate.key, key), (certificate.pem, cert)):
                shutil.copy(source, target + ".new")
                os.chmod(target + ".new", 0o600)
                os.replace(target + ".new", target)
        put(self.mx)
        return self.settings(smtpd_tls_cert_file=cert, smtpd_tls_key_file=key), put

    def test_renewed_keys_of_root_are_there_after_a_reload(self):
        settings, put = self.keys_of_root()
        with Instance(settings) as mx:
            self.assertEqual(self.shown(mx), "mx.test.example")
            with TlsClient(mx.port) as before:
                put(self.other)
                mx.reload()
                eventually(lambda: self.shown(mx) == "other.test.example", lambda: mx.log())
                before.starttls()  # a session of the process before
                before.expect("NOOP", "250")

    def test_half_a_renewal_of_chain_files_leaves_the_chains_before_in_use(self):
        folder = self.folder()
        os.chmod(folder, 0o755)
        key, cert = os.path.join(folder, "key"), os.path.join(folder, "cert")

        def put(source, target):
            shutil.copy(source, target + ".new")
            os.chmod(target + ".new", 0o644)
            os.replace(target + ".new", target)
        peer_context = server_context(self.other)
        peer_context.load_verify_locations(self.ca.pem)
        peer_context.verify_mode = ssl.CERT_REQUIRED
        put(self.mx.key, key)
        put(self.mx.pem, cert)
        with Peer(tls=peer_context) as peer, Instance(self.settings(
                **relay_to(peer), smtpd_tls_chain_files=f"{key}, {cert}", smtp_tls_chain_files=f"{key}, {cert}",
                smtp_tls_security_level="encrypt", smtp_connection_cache_on_demand="no",
                smtp_tls_session_cache_database="")) as mx:

            def sent(number):
                """By which certificate smtp was known."""
                with TlsClient(mx.port) as client:
                    client.send("ada@sender.example", ["b@rcpt.example"], mail(sender="ada@sender.example"))
                return openssl("x509", "-inform", "DER", "-noout", "-subject",
                               stdin=peer.wait_messages(number)[number - 1].session.certificate).strip()
            self.assertEqual(self.shown(mx), "mx.test.example")
            self.assertEqual(sent(1), "subject=CN = mx.test.example")
            put(self.other.key, key)
            for _ in range(3):
                self.assertEqual(self.shown(mx), "mx.test.example")
            self.assertEqual(sent(2), "subject=CN = mx.test.example")
            mx.wait_log(r"smtpd\[\d+\]: warning: .* is not the key of the certificate in .*: "
                        "the certificates read before stay in use")
            put(self.other.pem, cert)
            eventually(lambda: self.shown(mx) == "other.test.example", lambda: mx.log())
            self.assertNotIn("TLS is not available", mx.log())

    def test_between_two_key_processes_no_handshake_begins_with_a_certificate_of_the_first(self):
        settings, put = self.keys_of_root()
        with Instance(settings) as mx:
            self.assertEqual(self.shown(mx), "mx.test.example")
            [first] = mx.pids()["keys"]
            with TlsClient(mx.port) as before, Client(mx.port) as beside:  # sessions of the smtpd before the reload
                with suspended(first):
                    put(self.other)
                    mx.reload()
                    second = eventually(lambda: [pid for pid in mx.pids()["keys"] if pid != first], lambda: mx.log())
                    suspend(*second)
                try:
                    eventually(lambda: not os.path.exists(f"/proc/{first}"), lambda: mx.log())
                    before.socket.sendall(b"STARTTLS\r\n")
                    beside.expect("NOOP", "250")  # so STARTTLS has been read
                    self.assertEqual(select.select([before.socket], [], [], 0)[0], [])
                finally:
                    resume(*second)
                self.assertRegex(before.reply(), "^220 ")
                before.handshake()
                self.assertEqual(before.common_name(), "other.test.example")
                before.expect("NOOP", "250")

    def test_its_death_under_load_loses_nothing(self):
        keys = Keys(self.folder())
        with Peer() as peer, Instance({**relay_to(peer), **self.settings(), **keys.settings()}) as mx:
            sent = []

            def some(which):
                for i in range(10):
                    with TlsClient(mx.port, timeout=120) as client:
                        client.starttls()
                        client.send("ada@sender.example", [f"b{which}.{i}@rcpt.example"],
                                    mail(f"{which}.{i}", sender="ada@sender.example"))
                    sent.append((which, i))
            threads = [threading.Thread(target=some, args=(which,)) for which in range(4)]
            for thread in threads:
                thread.start()
            for goal in (5, 15, 25):
                eventually(lambda: len(sent) >= goal, lambda: mx.log())
                eventually(lambda: mx.kill("keys"), lambda: mx.log())
            for thread in threads:
                thread.join()
            self.assertEqual(len(sent), 40)
            messages = peer.wait_messages(40)
            for message in messages:
                self.assertTrue(message.content.startswith(b"DKIM-Signature: "), message.content[:200])
            self.assertEqual(keys.verify(messages[-1].content), ["pass", "pass"])
            mx.wait_empty_queue()

    def test_a_handshake_rests_while_the_process_does_not_answer_and_others_go_on(self):
        with Instance(self.settings()) as mx:
            self.assertEqual(self.shown(mx), "mx.test.example")
            [pid] = mx.pids()["keys"]
            with suspended(pid):
                resting = threading.Thread(target=self.shown, args=(mx,))
                resting.start()
                for _ in range(5):  # sessions that need no key
                    send(mx.port, "a@sender.example", ["a@local.test.example"], mail())
                self.assertTrue(resting.is_alive())
            resting.join(60)
            self.assertFalse(resting.is_alive())

    def test_without_the_service_each_program_reads_its_keys(self):
        for settings, services, why in (
            ({"tls_key_process": "no"}, {}, "tls_key_process = no"),
            ({}, {"keys": None}, "master.cf has no "),
            ({"tls_key_service_name": "vault"}, {}, "master.cf has no "),
        ):
            with self.subTest(why):
                keys = Keys(self.folder())
                with Peer(tls=server_context(self.other)) as peer, Instance({
                        **relay_to(peer), **self.settings(**settings), **keys.settings(),
                        "smtp_tls_security_level": "encrypt"}, services=services) as mx:
                    with TlsClient(mx.port) as client:
                        client.starttls()
                        self.assertEqual(client.common_name(), "mx.test.example")
                        client.send("ada@sender.example", ["b@rcpt.example"], mail("x", sender="ada@sender.example"))
                    self.assertEqual(keys.verify(peer.wait_messages(1)[0].content), ["pass", "pass"])
                    self.assertRegex(mx.tool("penstock", "status").stdout,
                                     "private keys: each program reads its own: " + why)
                    self.assertRegex(mx.tool("penstock", "check").stdout,
                                     why + r".*smtpd, smtp and whatever signs with DKIM read private keys themselves")

    def test_the_service_may_have_another_name(self):
        with Instance(self.settings(tls_key_service_name="vault"), services={
                "keys": None, "vault": "unix - - n - - keys"}) as mx:
            self.assertEqual(self.shown(mx), "mx.test.example")
            self.assertIn("private keys: held by the service vault", mx.tool("penstock", "status").stdout)

    def test_keys_that_no_list_can_name_are_read_by_who_signs(self):
        keys = Keys(self.folder())
        table = keys.write("by_domain.table", f"any %:r1:{keys.folder}/%.r1.private\n")
        senders = keys.write("by_domain.senders", "*@sender.example any\n")
        with Peer() as peer, Instance({**relay_to(peer), **self.settings(), "dkim_signing": "yes",
                                       "dkim_key_table": table, "dkim_signing_table": "refile:" + senders}) as mx:
            send(mx.port, "ada@sender.example", ["b@rcpt.example"], mail("x", sender="ada@sender.example"))
            self.assertEqual(keys.verify(peer.wait_messages(1)[0].content), ["pass"])
            self.assertEqual(self.signed(mx)[2], 0)


if __name__ == "__main__":
    unittest.main()
