"""penstock check and values that end a program at its start: it tells all of them in one run."""
import json
import os
import re
import subprocess

from harness import *
from instance import LIBEXEC, TOP

SERVED = "socketmap:inet:127.0.0.1:1:x"  # where nobody may be asked
# setting, a value that its program cannot use, the program
VALUES = [
    # Kinds of values: no program starts.
    ("soft_bounce", "maybe", "smtpd"),
    ("hopcount_limit", "many", "smtpd"),
    ("queue_minfree", "10x", "smtpd"),
    ("smtpd_timeout", "soon", "smtpd"),
    ("header_from_format", "odd", "pickup"),
    ("smtpd_tls_loglevel", "9", "smtpd"),
    ("known_tcp_ports", "smtp", "smtp"),
    ("syslog_facility", "post", "verify"),
    # What one program reads.
    ("smtp_tls_security_level", "secur", "trivial-rewrite"),
    ("lmtp_tls_security_level", "secur", "trivial-rewrite"),
    ("smtp_tls_dane_insecure_mx_policy", "secure", "trivial-rewrite"),
    ("smtp_dns_resolver_options", "res_always", "trivial-rewrite"),
    ("smtp_requiretls_policy", "perhaps", "trivial-rewrite"),
    ("dns_resolver_addresses", "nowhere", "trivial-rewrite"),
    ("smtp_sasl_security_options", "nothing", "smtp"),
    ("smtp_header_checks", SERVED, "smtp"),
    ("smtp_generic_maps", SERVED, "smtp"),
    ("smtp_reply_filter", SERVED, "smtp"),
    ("smtpd_milters", "nonsense", "smtpd"),
    ("milter_default_action", "sleep", "smtpd"),
    ("milter_protocol", "77", "pickup"),
    ("dmarc_reject_action", "burn", "smtpd"),
    ("default_rbl_reply", "$nothing", "smtpd"),
    ("smtpd_relay_restrictions", "permit", "smtpd"),
    ("smtpd_sasl_tls_security_options", "nothing", "smtpd"),
    ("non_empty_end_of_header_action", "cut", "pickup"),
    ("header_checks", SERVED, "pickup"),
    ("message_strip_characters", "\\9", "pickup"),
    ("tenant_identity", "shoe_size", "pickup"),
    ("message_priority", "shoe_size", "pickup"),
    ("srs_domain", "-", "verify"),
    ("session_classes", "{ nonsense", "anvil"),
    ("shaping_minimum_rate", "quick", "qmgr"),
    ("default_egress_pool", "missing", "qmgr"),
    ("delivery_limit_maps", SERVED, "qmgr"),
    ("mailbox_size_limit", "1", "local"),
    ("allow_mail_to_commands", "everybody", "local"),
    ("mailbox_delivery_lock", "padlock", "local"),
    ("virtual_mailbox_lock", "padlock", "virtual"),
    ("event_webhooks", "ftp://here.example", "penevents"),
    ("event_log_types", "weather", "penevents"),
]
# What keeps TLS from working, of which a program names the first alone.
TLS = {"smtpd_tls_security_level": "may", "smtp_tls_security_level": "may", "smtpd_tls_protocols": "TLSv9",
       "smtpd_tls_ciphers": "hihg", "smtpd_tls_fingerprint_digest": "md7",
       "smtpd_tls_chain_files": "/no/such/chain", "smtp_tls_protocols": "foo", "smtp_tls_ciphers": "strong",
       "smtp_tls_fingerprint_digest": "sha9", "smtp_tls_CAfile": "/no/such/ca", "tls_ssl_options": "NO_SUCH",
       "tls_server_sni_maps": "inline:{a.example=/no/such/sni}"}
BASE = {"myhostname": "mx.test.example", "mydestination": "local.test.example", "alias_maps": "",
        "smtpd_sasl_auth_enable": "yes", "smtpd_sasl_type": "dovecot", "smtpd_sasl_path": "inet:127.0.0.1:1",
        "smtp_sasl_auth_enable": "yes", "smtp_sasl_password_maps": "static:x", "requiretls_enable": "yes",
        "shaping": "yes", "default_transport": "smtp", "virtual_transport": "virtual",
        "virtual_mailbox_domains": "box.example", "local_transport": "local"}


class CheckValues(Suite):
    def directory(self, settings):
        etc = os.path.join(self.folder(), "etc")
        os.makedirs(etc, exist_ok=True)
        with open(os.path.join(TOP, "conf", "master.cf")) as shipped, open(os.path.join(etc, "master.cf"), "w") as out:
            out.write(re.sub("(?m)^smtp +inet", "2525 inet", shipped.read()))  # not every machine knows the name
        with open(os.path.join(etc, "main.cf"), "w") as out:
            for name, value in {**BASE, "daemon_directory": LIBEXEC, **settings}.items():
                out.write(f"{name} = {value}\n")
        return etc

    def test_each_value_ends_its_program_and_check_tells_all_of_them_in_one_run(self):
        for name, value, program in VALUES:
            with self.subTest(name):
                etc = self.directory({name: value})
                command = [os.path.join(LIBEXEC, program), "--look", "-n", program, "-t", "unix", "-c", etc]
                done = subprocess.run(command, capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 78, done)
                self.assertRegex(done.stdout, "(?m)^(error|unreadable) ")
        etc = self.directory({name: value for name, value, _ in VALUES})
        done = subprocess.run([os.path.join(BIN, "penstock"), "-c", etc, "check", "--no-dns"], capture_output=True,
                              text=True, timeout=300)
        self.assertEqual(done.returncode, 78, done)
        errors = [line for line in done.stdout.splitlines() if line.startswith("error: ")]
        for name, _, program in VALUES:
            with self.subTest(name):
                self.assertTrue(any(name in line for line in errors), (program, errors))

    def test_all_that_keeps_tls_from_working_is_told_in_one_run_with_its_line(self):
        etc = self.directory(TLS)
        done = subprocess.run([os.path.join(BIN, "penstock"), "-c", etc, "check", "--no-dns", "--json"],
                              capture_output=True, text=True, timeout=300)
        with open(os.path.join(etc, "main.cf")) as main:
            lines = [line.split(" = ")[0] for line in main]
        found = [one for one in json.loads(done.stdout) if one["level"] != "note" and one.get("line")]
        places = {lines[one["line"] - 1] for one in found if one["file"].endswith("/main.cf")}
        self.assertEqual({name for name in TLS if not name.endswith("_level")} - places, set(), done.stdout)

    def test_what_is_right_gives_no_error(self):
        etc = self.directory({})
        done = subprocess.run([os.path.join(BIN, "penstock"), "-c", etc, "check", "--no-dns"], capture_output=True,
                              text=True, timeout=300)
        self.assertNotIn("will not start", done.stdout)
