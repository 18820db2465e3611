"""AUTH behind STARTTLS, both directions, with this server and Python's client."""
import os
import re
import shutil
import smtplib
import ssl
import tempfile

import peers
from certificates import Authority
from harness import *

USER, PASSWORD = "anna@local.test.example", "secret one"


@unittest.skipIf(peers.unavailable(), peers.unavailable())
class AuthWithTls(Suite):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dir = tempfile.mkdtemp(prefix="pen-auth-tls-")
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        os.chmod(cls.dir, 0o755)
        cls.ca = Authority(cls.dir)
        certificate = cls.ca.issue("in.test.example")
        cls.dovecot = peers.Dovecot(free_port(), logins={USER: PASSWORD}, auth_port=free_port())
        cls.addClassCleanup(cls.dovecot.stop)
        cls.dovecot.start()
        cls.inside = Instance({
            "smtpd_tls_security_level": "may", "smtpd_tls_cert_file": certificate.pem, "smtpd_tls_key_file": certificate.key,
            "smtpd_tls_auth_only": "yes", "smtpd_sasl_auth_enable": "yes", "smtpd_sasl_type": "dovecot",
            "smtpd_sasl_path": f"inet:127.0.0.1:{cls.dovecot.auth_port}", "smtpd_sasl_security_options": "noanonymous, noplaintext",
            "smtpd_sasl_tls_security_options": "noanonymous", "mynetworks": "192.0.2.1/32",
            "smtpd_relay_restrictions": "permit_sasl_authenticated, reject", "default_transport": "discard:"})
        cls.addClassCleanup(cls.inside.close)

    def test_auth_comes_with_tls_and_not_before(self):
        with Client(self.inside.port) as client:
            self.assertFalse(client.has("AUTH"))
            client.expect("AUTH PLAIN AGEAYg==", "504 5.5.4")
        context = ssl.create_default_context(cafile=self.ca.pem)
        context.check_hostname = False
        for mechanism in ("CRAM-MD5", "PLAIN", "LOGIN"):
            with smtplib.SMTP("127.0.0.1", self.inside.port, timeout=60) as client:
                client.starttls(context=context)
                client.ehlo("client.example")
                self.assertIn(mechanism, client.esmtp_features["auth"])
                client.esmtp_features["auth"] = mechanism
                client.login(USER, PASSWORD)
                client.sendmail("x@out.example", ["y@out.example"], mail())
            self.inside.wait_log(f"sasl_method={mechanism}, sasl_username={USER}")

    def test_the_client_logs_in_behind_tls_and_says_no_password_without_it(self):
        hop = f"[127.0.0.1]:{self.inside.port}"
        mx = Instance({"relay_domains": "in.example, plain.example",
                       "transport_maps": inline({"in.example": f"smtp:{hop}", "plain.example": f"clear:{hop}"}),
                       "smtp_tls_security_level": "encrypt", "smtp_sasl_auth_enable": "yes",
                       "smtp_sasl_mechanism_filter": "plain", "smtp_sasl_tls_security_options": "noanonymous",
                       "smtp_sasl_password_maps": inline({hop: f"{USER}:{PASSWORD}"})},
                      {"clear": "unix - - n - - smtp -o smtp_tls_security_level=none"})
        self.addCleanup(mx.close)
        for domain, outcome in (("in.example", "status=sent"), ("plain.example", r"status=bounced .*Access denied")):
            queue_id = re.search(r"queued as (\w+)", send(mx.port, "x@local.test.example", [f"y@{domain}"], mail()))[1]
            mx.wait_log(rf"{queue_id}: to=<y@{domain}>.*{outcome}")
        self.inside.wait_log(rf"client=\S+, sasl_method=PLAIN, sasl_username={USER}")
        self.assertNotIn(PASSWORD, mx.log())


if __name__ == "__main__":
    unittest.main()
