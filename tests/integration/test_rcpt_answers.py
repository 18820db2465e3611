"""Replies to RCPT and BDAT, and of access tables, that are easily wrong."""
import unittest

from client import Client
from instance import Instance, missing

CONTENT = b"Subject: x\r\n\r\nhello\r\n"


@unittest.skipIf(missing(), missing())
class Answers(unittest.TestCase):
    def client(self, settings=None, source=None):
        self.mx = Instance(settings)
        self.addCleanup(self.mx.close)
        client = Client(self.mx.port)
        self.addCleanup(client.close)
        client.expect("MAIL FROM:<a@example.org>", "250")
        return client

    def test_a_recipient_whose_route_is_error_is_refused_with_its_text(self):
        client = self.client({"transport_maps": "inline:{ {gone.example = error:5.1.2 no such place} }"})
        self.assertEqual(client.command("RCPT TO:<jo@gone.example>"),
                         "550 5.1.2 <jo@gone.example>: Recipient address rejected: no such place")
        client.expect("RCPT TO:<jo@there.example>", "250")

    def test_local_names_are_known_in_any_case_and_quoted_aliases_too(self):
        aliases = "inline:{ {two words = root} }"
        client = self.client({"alias_maps": aliases, "local_recipient_maps": "proxy:unix:passwd.byname $alias_maps"})
        for known in ("root", "ROOT", "Root", '"two words"', '"Two Words"'):
            client.expect(f"RCPT TO:<{known}@local.test.example>", "250")
        client.expect("RCPT TO:<nobody-of-this-name@local.test.example>", "550")
        client.expect('RCPT TO:<"no words"@local.test.example>', "550")

    def test_postmaster_without_a_domain_is_taken(self):
        client = self.client({"myorigin": "elsewhere.example", "mynetworks": "192.0.2.1",
                              "smtpd_recipient_restrictions": "reject"})
        client.expect("RCPT TO:<postmaster>", "250")
        client.expect("RCPT TO:<jo@there.example>", "454")

    def test_521_and_421_of_an_access_table_end_the_session(self):
        for code in ("521", "421"):
            client = self.client(
                {"smtpd_recipient_restrictions": f"check_recipient_access inline:{{ {{bad.example = {code} go}} }}"}
            )
            client.expect("RCPT TO:<jo@bad.example>", code)
            self.assertEqual(client.socket.recv(100), b"")

    def test_a_chunk_above_64_bits_is_answered_at_once(self):
        client = self.client()
        client.expect("RCPT TO:<jo@there.example>", "250")
        client.expect("BDAT 99999999999999999999 LAST", "552")
        self.assertTrue(client.reply().startswith("421"))
        self.assertEqual(client.socket.recv(100), b"")

    def test_addresses_of_a_virtual_alias_may_have_blanks_between_them(self):
        client = self.client(
            {"virtual_alias_maps": "inline:{ {list@a.example = x@b.example y@b.example} }", "defer_transports": "smtp"}
        )
        client.command("RSET")
        client.send("a@example.org", ["list@a.example"], CONTENT)
        entry, = self.mx.queue()
        self.assertEqual(sorted(r["address"] for r in entry["recipients"]), ["x@b.example", "y@b.example"])

    def test_pattern_tables_may_stand_in_the_setting(self):
        for kind in ("pcre", "regexp"):
            client = self.client(
                {"smtpd_recipient_restrictions": f"check_recipient_access {kind}:{{ {{/^bad/ REJECT so it is}} }}"}
            )
            self.assertIn("so it is", client.command("RCPT TO:<bad@there.example>"))
            client.expect("RCPT TO:<good@there.example>", "250")

    def test_a_network_that_is_excepted_says_nothing_of_the_other_family(self):
        client = self.client(
            {
                "mynetworks": "192.0.2.1",
                "relay_domains": "there.example",
                "smtpd_client_restrictions": "check_client_access cidr:{{!2001:db8::/32 REJECT not there}}",
            }
        )
        client.expect("RCPT TO:<jo@there.example>", "250")


if __name__ == "__main__":
    unittest.main()
