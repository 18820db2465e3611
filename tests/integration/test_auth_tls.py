"""AUTH after STARTTLS, both directions: with this server and client, Python's client, and Exim on either side."""
import os
import re
import smtplib
import ssl

import peers
from certificates import Authority
from harness import *

USER, PASSWORD = "anna@local.test.example", "secret one"

EXIM_LOGINS = f"""cram:
  driver = cram_md5
  public_name = CRAM-MD5
  server_secret = ${{if eq{{$auth1}}{{{USER}}}{{{PASSWORD}}}fail}}
  server_set_id = $auth1
  client_name = {USER}
  client_secret = {PASSWORD}
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = ${{if and{{{{eq{{$auth2}}{{{USER}}}}}{{eq{{$auth3}}{{{PASSWORD}}}}}}}}}
  server_set_id = $auth2
  client_send = ^{USER}^{PASSWORD}
"""


@unittest.skipIf(peers.unavailable(), peers.unavailable())
class AuthWithTls(Suite):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dir = cls.folder()
        cls.ca = Authority(cls.dir)
        cls.certificate = certificate = cls.ca.issue("in.test.example")
        cls.sink = cls.enterClassContext(Peer())
        cls.dovecot = peers.Dovecot(free_port(), logins={USER: PASSWORD}, auth_port=free_port())
        cls.addClassCleanup(cls.dovecot.stop)
        cls.dovecot.start()
        cls.inside = Instance(
            {
                "smtpd_tls_security_level": "may",
                "smtpd_tls_cert_file": certificate.pem,
                "smtpd_tls_key_file": certificate.key,
                "smtpd_tls_auth_only": "yes",
                "smtpd_sasl_auth_enable": "yes",
                "smtpd_sasl_type": "dovecot",
                "smtpd_sasl_path": f"inet:127.0.0.1:{cls.dovecot.auth_port}",
                "smtpd_sasl_security_options": "noanonymous, noplaintext",
                "smtpd_sasl_tls_security_options": "noanonymous",
                "mynetworks": "192.0.2.1/32",
                "smtpd_relay_restrictions": "permit_sasl_authenticated, reject",
                "default_transport": "discard:",
                "smtpd_tls_received_header": "yes",
                "transport_maps": inline({"exim.example": f"smtp:[127.0.0.1]:{cls.sink.port}"}),
            }
        )
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

    def test_the_shipped_submission_services_work_when_they_are_taken_in(self):
        """As an administrator would do it: remove the # in master.cf (the ports are different here)."""
        ports = {"submission": free_port(), "submissions": free_port()}
        mx = Instance({
            "smtpd_tls_security_level": "may", "smtpd_tls_cert_file": self.certificate.pem,
            "smtpd_tls_key_file": self.certificate.key, "smtpd_sasl_type": "dovecot",
            "smtpd_sasl_path": f"inet:127.0.0.1:{self.dovecot.auth_port}", "mynetworks": "192.0.2.1/32",
            "smtpd_sasl_security_options": "noanonymous", "default_transport": "discard:"}, start=False)
        self.addCleanup(mx.close)
        path = os.path.join(mx.etc, "master.cf")
        with open(path) as file:
            lines, inside = file.read().split("\n"), False
        for i, line in enumerate(lines):
            name = line[1:].split(" ")[0]
            inside = name in ports if line.startswith("#submission") else inside and line.startswith("#  -o ")
            if inside:
                lines[i] = line[1:].replace(name, f"127.0.0.1:{ports[name]}", 1) if name in ports else line[1:]
        with open(path, "w") as file:
            file.write("\n".join(lines))
        mx.start()
        context = ssl.create_default_context(cafile=self.ca.pem)
        context.check_hostname = False
        for service, port in ports.items():
            wrapped = service == "submissions"
            eventually(lambda: answers(port), f"{service} answers")
            make = (lambda: smtplib.SMTP_SSL("127.0.0.1", port, timeout=60, context=context)) if wrapped else \
                   (lambda: smtplib.SMTP("127.0.0.1", port, timeout=60))
            with self.subTest(service), make() as client:
                client.ehlo("client.example")
                if not wrapped:
                    self.assertNotIn("auth", client.esmtp_features)
                    self.assertEqual(client.mail("x@local.test.example")[0], 530)
                    client.starttls(context=context)
                    client.ehlo("client.example")
                client.mail("x@local.test.example")
                self.assertEqual(client.rcpt("y@out.example")[0], 554)  # not logged in
                client.rset()
                client.login(USER, PASSWORD)
                client.sendmail("x@local.test.example", ["y@out.example"], mail())
                mx.wait_log(rf"penstock/{service}/smtpd\[\d+\]: \w+: client=\S+, sasl_method=\S+, sasl_username={USER}")

    def exim(self, port, relay_port, **more):
        exim = peers.Exim(port, relay_port, ca=self.ca.pem, authenticators=EXIM_LOGINS, **more)
        return self.enterContext(exim)

    def test_exim_logs_in_over_tls_that_it_verifies(self):
        port = free_port()
        self.exim(port, self.inside.port, relay_host="in.test.example",
                  out="  hosts_require_tls = *\n  hosts_require_auth = *\n  tls_verify_certificates = /var/lib/ca.pem\n"
                      "  tls_verify_hosts = *\n  tls_verify_cert_hostnames = *\n")
        before = len(self.sink.messages)
        with smtplib.SMTP("127.0.0.1", port, timeout=60) as client:
            client.sendmail("x@local.test.example", ["y@exim.example"], mail(body="by way of Exim\r\n"))
        got = self.sink.wait_messages(before + 1, seconds=60)[-1]
        self.assertTrue(got.content.endswith(b"by way of Exim\r\n"))
        received = b" ".join(got.content.split())
        self.assertRegex(
            received, rb"from peer\.example .*\(using TLSv1\.3 with cipher .* by mx\.test\.example .* with ESMTPSA "
        )
        self.inside.wait_log(f"sasl_method=CRAM-MD5, sasl_username={USER}")

    def test_exim_takes_mail_of_who_is_logged_in_over_tls(self):
        port = free_port()
        certificate = self.ca.issue("peer.example")
        exim = self.exim(
            port,
            self.sink.port,
            certificate=certificate,
            rcpt="accept authenticated = *",
            main="tls_advertise_hosts = *\ntls_certificate = /var/lib/tls.pem\ntls_privatekey = /var/lib/tls.key\n"
            "auth_advertise_hosts = ${if def:tls_in_cipher{*}{}}\n",
        )
        hop = f"[127.0.0.1]:{port}"
        mx = Instance(
            {
                "relay_domains": "cram.example, plain.example",
                "transport_maps": inline({"cram.example": f"smtp:{hop}", "plain.example": f"plain:{hop}"}),
                "smtp_tls_CAfile": self.ca.pem,
                "smtp_tls_loglevel": "1",
                "smtp_tls_policy_maps": inline({hop: "secure match=peer.example"}),
                "smtp_sasl_auth_enable": "yes",
                "smtp_sasl_tls_security_options": "noanonymous",
                "smtp_sasl_password_maps": inline({hop: f"{USER}:{PASSWORD}"}),
            },
            {"plain": "unix - - n - - smtp -o smtp_sasl_mechanism_filter=plain"},
        )
        self.addCleanup(mx.close)
        for mechanism in ("cram", "plain"):
            before = len(self.sink.messages)
            send(mx.port, "x@local.test.example", [f"y@{mechanism}.example"], mail(body=f"{mechanism}\r\n"))
            got = self.sink.wait_messages(before + 1, seconds=60)[-1]
            self.assertTrue(got.content.endswith(f"{mechanism}\r\n".encode()))
            self.assertRegex(b" ".join(got.content.split()), rb"by peer\.example with esmtpsa \(TLS1\.3\) ")
            self.assertRegex(exim.log(), rf"A={mechanism}:{USER} ")
        mx.wait_log(r"Verified TLS connection established to 127\.0\.0\.1\[127\.0\.0\.1\]:\d+: TLSv1\.3")
        mx.wait_empty_queue()


if __name__ == "__main__":
    unittest.main()
