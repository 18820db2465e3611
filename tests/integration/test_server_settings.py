"""TLS settings of the SMTP server by name: each row is a service with its own -o on a port of its own."""
import os
import shutil
import ssl

from certificates import Authority, openssl
from harness import *
from test_tls_server import TlsClient, client_context

OLD = ssl.TLSVersion.TLSv1_2


class Services(Suite):
    """Gives each row of settings a port, in one instance."""

    def served(self, rows, **settings):
        """rows: text of -o by line -> port."""
        ports = {row: free_port() for row in rows}
        mx = Instance(settings, start=False)
        self.addCleanup(mx.__exit__, None, None, None)
        with open(mx.path("etc", "master.cf"), "a") as out:
            for row, port in ports.items():
                options = "".join(f"    -o {{ {line.strip()} }}\n" for line in row.split("\n") if line.strip())
                out.write(f"127.0.0.1:{port} inet n - n - - smtpd\n{options}")
        mx.start()
        for port in ports.values():
            eventually(lambda: answers(port), f"a service on {port}")
        return mx, ports


class Tls(Services):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dir = cls.folder()
        cls.ca = Authority(cls.dir)
        cls.mx = cls.ca.issue("mx.test.example")
        cls.rsa = cls.ca.issue("rsa.test.example", kind="rsa")

    def base(self, **more):
        return {
            "smtpd_tls_security_level": "may",
            "smtpd_tls_cert_file": self.mx.pem,
            "smtpd_tls_key_file": self.mx.key,
            "local_transport": "discard:",
            "smtpd_relay_restrictions": "reject_unauth_destination",
            **more,
        }

    def cipher(self, port, ciphers=None):
        context = client_context(version=OLD)
        if ciphers:
            context.set_ciphers(ciphers)
        with TlsClient(port, context) as client:
            return client.starttls().tls.cipher()[0]

    def test_ciphers(self):
        small, large = "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"
        _, ports = self.served([
            "smtpd_tls_ciphers = high\ntls_high_cipherlist = " + small,
            "smtpd_tls_ciphers = medium\ntls_medium_cipherlist = " + large,
            "smtpd_tls_ciphers = null\ntls_null_cipherlist = " + small,
            "smtpd_tls_exclude_ciphers = AES256, CHACHA20, ARIA, CAMELLIA",
            f"tls_medium_cipherlist = {large}:{small}\ntls_preempt_cipherlist = no",
            f"tls_medium_cipherlist = {large}:{small}\ntls_preempt_cipherlist = yes",
            f"tls_medium_cipherlist = {large}:{small}\ntls_ssl_options = CIPHER_SERVER_PREFERENCE",
        ], **self.base())
        got = [self.cipher(port, f"{small}:{large}") for port in ports.values()]
        self.assertEqual(got, [small, large, small, small, small, large, large])

    def test_groups(self):
        _, ports = self.served(["tls_eecdh_auto_curves = secp384r1\ntls_ffdhe_auto_groups =",
                                "tls_eecdh_auto_curves = X25519\ntls_ffdhe_auto_groups =",
                                "tls_eecdh_auto_curves = X25519\ntls_ffdhe_auto_groups = ffdhe2048"], **self.base())
        taken = []
        for port in ports.values():
            for group in ("P-384", "X25519", "ffdhe2048"):
                done = openssl_client(port, "-groups", group, "-tls1_3")
                taken.append(group if "New, TLSv1.3" in done else None)
        self.assertEqual(taken, ["P-384", None, None, None, "X25519", None, None, "X25519", "ffdhe2048"])

    def test_certificates_of_other_settings(self):
        chain = os.path.join(self.dir, "chain.pem")
        with open(chain, "w") as out:
            out.write(self.rsa.text())
        os.chmod(chain, 0o600)
        _, ports = self.served(
            [
                "smtpd_tls_chain_files = " + chain,
                "smtpd_tls_cert_file =\nsmtpd_tls_key_file =\n"
                f"smtpd_tls_dcert_file = {self.rsa.pem}\nsmtpd_tls_dkey_file = {self.rsa.key}",
            ],
            **self.base(),
        )
        for row, port in ports.items():
            with self.subTest(row), TlsClient(port, client_context(self.ca)) as client:
                self.assertEqual(client.starttls().common_name(), "rsa.test.example")

    def test_client_certificates(self):
        hashed = os.path.join(self.dir, "hashed")
        os.makedirs(hashed, exist_ok=True)
        shutil.copy(self.ca.pem, hashed + "/ca.pem")
        openssl("rehash", hashed)
        client_certificate = self.ca.issue("known.example")
        between, deep = intermediate(self.ca, self.dir)
        table = inline({client_certificate.fingerprint("sha1"): "known"})
        ask = "smtpd_tls_ask_ccert = yes\n"
        relay = "smtpd_relay_restrictions = permit_tls_all_clientcerts, reject_unauth_destination\nmynetworks =\n"
        known = ("smtpd_relay_restrictions = permit_tls_clientcerts, reject_unauth_destination\nmynetworks =\n"
                 f"relay_clientcerts = {table}\n")
        rows = [ask + relay + f"smtpd_tls_CApath = {hashed}",
                ask + relay,
                ask + relay + "tls_append_default_CA = yes",
                ask + known + "smtpd_tls_fingerprint_digest = sha1",
                ask + known + "smtpd_tls_fingerprint_digest = sha256",
                ask + relay + f"smtpd_tls_CAfile = {self.ca.pem}\nsmtpd_tls_ccert_verifydepth = 9",
                ask + relay + f"smtpd_tls_CAfile = {self.ca.pem}\nsmtpd_tls_ccert_verifydepth = 0"]
        mx, ports = self.served(rows, **self.base(transport_maps=inline({"out.example": "discard:"}),
                                                  import_environment=f"MAIL_CONFIG TZ SSL_CERT_FILE={self.ca.pem}"))
        said = []
        for number, port in enumerate(ports.values()):
            with TlsClient(port, client_context(certificate=deep if number >= 5 else client_certificate)) as client:
                client.starttls().expect("MAIL FROM:<a@sender.example>", "250")
                said.append(client.command("RCPT TO:<b@out.example>")[:3])
        self.assertEqual(said, ["250", "554", "250", "250", "554", "250", "554"], mx.log())


def openssl_client(port, *options):
    import subprocess

    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-starttls", "smtp", *options],
        input=b"QUIT\r\n",
        capture_output=True,
        timeout=60,
    )
    return done.stdout.decode("utf-8", "replace")


def intermediate(ca, directory):
    """An intermediate authority, and a certificate that it has signed, with the chain."""
    from certificates import Certificate
    middle = Certificate(os.path.join(directory, "middle"))
    ca._make(
        middle, "Middle CA", "-CA", ca.own.pem, "-CAkey", ca.own.key, "-addext", "basicConstraints=critical,CA:TRUE"
    )
    below = Authority.__new__(Authority)
    below.directory, below.count, below.own, below.pem = directory, 1000, middle, middle.pem
    leaf = below.issue("deep.example")
    with open(leaf.pem, "a") as out, open(ca.pem) as root:
        out.write(root.read())
    return middle, leaf


if __name__ == "__main__":
    unittest.main()
