"""DNS lists and the servers behind names, with real lists: rbldnsd behind unbound. Postfix under the same settings and
the same clients gives the same replies and log lines."""
import re
import select

import dns_lists
import peers
from dns_lists import DnsLists
from harness import *

LISTS = {
    "rbl.example": ("ip4set", ["192.0.2.2 :127.0.0.2:Spam source, see https://rbl.example/$", "192.0.2.3 :127.0.0.3:",
                               "192.0.2.4 :127.0.0.10:Dynamic address", "192.0.2.254 :127.255.255.254:Refused"]),
    "dbl.example": ("dnset", ["bad.example :127.0.1.2:Spam domain", ".bad.example :127.0.1.2:Spam domain"]),
    "wl.example": ("ip4set", ["192.0.2.2 :127.0.5.1:Fine", "192.0.2.5 :127.0.5.3:Fine"]),
    "dwl.example": ("dnset", ["mail.good.example :127.0.5.3:Fine"]),
}
RECORDS = [
    "mx.example. 60 IN MX 10 mx1.spam.example.", "mx1.spam.example. 60 IN A 203.0.113.66",
    "ns.example. 60 IN NS ns1.spam.example.", "ns1.spam.example. 60 IN A 203.0.113.77",
    "bare.example. 60 IN A 203.0.113.66", "null.example. 60 IN MX 0 .",
    "named.example. 60 IN MX 10 mx.blocked.example.", "mx.blocked.example. 60 IN A 203.0.113.1",
    "ok.example. 60 IN MX 10 mx.allowed.example.", "mx.allowed.example. 60 IN A 203.0.113.2",
    "backed.example. 60 IN MX 10 first.example.", "backed.example. 60 IN MX 20 us.example.",
    "led.example. 60 IN MX 10 us.example.", "led.example. 60 IN MX 20 first.example.",
    "us.example. 60 IN A 127.0.0.1", "first.example. 60 IN A 203.0.113.3",
]
EMPTY = ["mx.example", "ns.example", "bare.example", "null.example", "named.example", "ok.example", "backed.example",
         "led.example", "us.example", "first.example", "spam.example", "blocked.example", "allowed.example",
         "remote.example", "here.example", "nothing.example", "good.example"]
HOSTS = "inline:{ 203.0.113.66=REJECT, 203.0.113.77=REJECT, mx.blocked.example=REJECT, mx.allowed.example=OK }"
ADDRESS, NAME, HELO, SENDER = "192.0.2.9", "mail.remote.example", "helo.remote.example", "s@remote.example"

# A recipient's local part -> what its restriction class holds, and what is peculiar to the client.
CASES = {
    "rbl": ("reject_rbl_client rbl.example", {"addr": "192.0.2.2"}),
    "rbl-other": ("reject_rbl_client rbl.example", {"addr": "192.0.2.8"}),
    "rbl-old": ("reject_rbl rbl.example", {"addr": "192.0.2.2"}),
    "rbl-no-text": ("reject_rbl_client rbl.example", {"addr": "192.0.2.3"}),
    "filter-in": ("reject_rbl_client rbl.example=127.0.0.[2..4;10]", {"addr": "192.0.2.4"}),
    "filter-out": ("reject_rbl_client rbl.example=127.0.0.[2..9;11]", {"addr": "192.0.2.4"}),
    "filter-fields": ("reject_rbl_client rbl.example=127.[0;1].[0..255].3", {"addr": "192.0.2.3"}),
    "reply-map": ("reject_rbl_client wl.example", {"addr": "192.0.2.5"}),
    "reply-map-filter": ("reject_rbl_client rbl.example=127.0.0.[2..3]", {"addr": "192.0.2.2"}),
    "warned": ("warn_if_reject reject_rbl_client rbl.example", {"addr": "192.0.2.2"}),
    "client": ("reject_rhsbl_client dbl.example", {"name": "host.bad.example"}),
    "client-unknown": ("reject_rhsbl_client dbl.example", {"name": "[UNAVAILABLE]"}),
    "reverse": ("reject_rhsbl_reverse_client dbl.example", {"name": "[UNAVAILABLE]", "reverse": "x.bad.example"}),
    "helo": ("reject_rhsbl_helo dbl.example", {"helo": "bad.example"}),
    "helo-literal": ("reject_rhsbl_helo dbl.example", {"helo": "[192.0.2.9]"}),
    "helo-number": ("reject_rhsbl_helo dbl.example", {"helo": "192.0.2.9"}),
    "sender": ("reject_rhsbl_sender dbl.example=127.0.1.2", {"sender": "spam@bad.example"}),
    "sender-null": ("reject_rhsbl_sender dbl.example", {"sender": ""}),
    "sender-fine": ("reject_rhsbl_sender dbl.example", {}),
    "recipient": ("reject_rhsbl_recipient dbl.example", {"domain": "bad.example"}),
    "dnswl": ("permit_dnswl_client wl.example=127.0.[0..255].[1..3], reject", {"addr": "192.0.2.5"}),
    "dnswl-first": ("permit_dnswl_client wl.example, reject_rbl_client rbl.example", {"addr": "192.0.2.2"}),
    "dnswl-not": ("permit_dnswl_client wl.example=127.0.[0..255].3, reject", {"addr": "192.0.2.2"}),
    "rhswl": ("permit_rhswl_client dwl.example, reject", {"name": "mail.good.example"}),
    "rhswl-not": ("permit_rhswl_client dwl.example, reject", {}),
    "client-a": (f"check_client_a_access {HOSTS}", {"name": "bare.example"}),
    "client-mx": (f"check_client_mx_access {HOSTS}", {"name": "mx.example"}),
    "client-ns": (f"check_client_ns_access {HOSTS}", {"name": "ns.example"}),
    "reverse-a": (f"check_reverse_client_hostname_a_access {HOSTS}", {"name": "bare.example"}),
    "reverse-mx": (f"check_reverse_client_hostname_mx_access {HOSTS}", {"name": "mx.example"}),
    "reverse-ns": (f"check_reverse_client_hostname_ns_access {HOSTS}", {"name": "ns.example"}),
    "helo-a": (f"check_helo_a_access {HOSTS}", {"helo": "bare.example"}),
    "helo-mx": (f"check_helo_mx_access {HOSTS}", {"helo": "named.example"}),
    "helo-ns": (f"check_helo_ns_access {HOSTS}", {"helo": "deep.below.ns.example"}),
    "helo-mx-literal": (f"check_helo_mx_access {HOSTS}", {"helo": "[203.0.113.66]"}),
    "sender-a": (f"check_sender_a_access {HOSTS}", {"sender": "s@bare.example"}),
    "sender-mx": (f"check_sender_mx_access {HOSTS}", {"sender": "s@named.example"}),
    "sender-mx-none": (f"check_sender_mx_access {HOSTS}", {"sender": "s@bare.example"}),
    "sender-mx-null": (f"check_sender_mx_access {HOSTS}", {"sender": "s@null.example"}),
    "sender-mx-ok": (f"check_sender_mx_access {HOSTS}", {"sender": "s@ok.example"}),
    "sender-mx-missing": (f"check_sender_mx_access {HOSTS}", {"sender": "s@nothing.example"}),
    "sender-ns": (f"check_sender_ns_access {HOSTS}", {"sender": "s@ns.example"}),
    "sender-null-mx": (f"check_sender_mx_access {HOSTS}", {"sender": ""}),
    "recipient-a": (f"check_recipient_a_access {HOSTS}", {"domain": "bare.example"}),
    "recipient-mx": (f"check_recipient_mx_access {HOSTS}", {"domain": "mx.example"}),
    "recipient-ns": (f"check_recipient_ns_access {HOSTS}", {"domain": "ns.example"}),
    "backup": ("permit_mx_backup, reject", {"domain": "backed.example"}),
    "primary": ("permit_mx_backup, reject", {"domain": "led.example"}),
    "no-backup": ("permit_mx_backup, reject", {"domain": "named.example"}),
    "sleep": ("sleep 1, reject", {}),
    "deferred": ("defer_if_reject, reject", {}),
}


def recipient(case):
    return f"{case}@{CASES[case][1].get('domain', 'here.example')}"


def class_of(case):
    return "class_" + case.replace("-", "_")


def settings():
    """The restrictions of all cases, as settings that both servers understand."""
    domains = sorted({recipient(case).split("@")[1] for case in CASES})
    return {
        "myhostname": "mx.test.example",
        "mydestination": ", ".join(domain for domain in domains if domain not in ("backed.example", "led.example")),
        "local_recipient_maps": "",
        "mynetworks": "127.0.0.0/8",
        "smtpd_peername_lookup": "no",
        "smtpd_authorized_xclient_hosts": "127.0.0.0/8",
        "smtpd_restriction_classes": ", ".join(class_of(case) for case in CASES),
        **{class_of(case): restrictions for case, (restrictions, _) in CASES.items()},
        "smtpd_relay_restrictions": "permit_mx_backup, permit_auth_destination, reject",
        "smtpd_recipient_restrictions": "check_recipient_access inline:{ "
        + ", ".join(f"{recipient(case)}={class_of(case)}" for case in CASES) + " }",
        "rbl_reply_maps": "regexp:{ {/^wl.example$$/ 550 5.7.9 $$$$rbl_what is too good, $$$$sender}"
        " {/^rbl.example=127.0.0..2..3.$$/ 450 $$$$rbl_domain has $$$$rbl_class"
        " $$$${client_name?$$$$client_name }$$$${helo_name:none}($$$$rbl_code)} }",
        "smtpd_reject_footer_maps": "regexp:{ {/blocked using dbl/ \\c (ask us of $$$$client_address"
        " \\\\n or $$$$server_name)} }",
    }


def ask(port, case):
    """Poses as the client of the case; returns the reply to RCPT."""
    said = CASES[case][1]
    name = said.get("name", NAME)
    reverse = said.get("reverse", name)
    with Client(port, ehlo=False) as client:
        client.expect("EHLO proxy.example", "250")
        client.expect(f"XCLIENT ADDR={said.get('addr', ADDRESS)} NAME={name} REVERSE_NAME={reverse}", "220")
        client.expect(f"EHLO {said.get('helo', HELO)}", "250")
        client.expect(f"MAIL FROM:<{said.get('sender', SENDER)}>", "250")
        reply = client.command(f"RCPT TO:<{recipient(case)}>")
        client.command("QUIT")
    return reply


def refusals(log):
    """What a log says of refused recipients: recipient -> from "reject" on."""
    found = {}
    for line in log.splitlines():
        match = re.search(r"NOQUEUE: ((reject\w*): RCPT from .* to=<([^>]*)>.*)", line)
        if match:
            found[match[3]] = match[1]
    return found


class DnsListsOfBoth(Suite):
    def setUp(self):
        reason = dns_lists.unavailable() or peers.unavailable()
        if reason:
            self.skipTest(reason)

    def test_same_settings_same_clients_same_replies_and_log(self):
        with DnsLists(LISTS, RECORDS, EMPTY) as dns:
            postfix = peers.Postfix(
                free_port(), settings="".join(f"{name} = {value}\n" for name, value in settings().items())
            )
            postfix.write("etc/resolv.conf", f"nameserver {dns.address}\n")
            postfix.write("etc/nsswitch.conf", "hosts: files dns\npasswd: files\ngroup: files\n")
            with postfix, Instance(dns.settings(**settings())) as mx:
                theirs = {case: ask(postfix.port, case) for case in CASES}
                ours = {case: ask(mx.port, case) for case in CASES}
                for case in CASES:
                    with self.subTest(case):
                        self.assertEqual(ours[case], theirs[case])
                self.assertEqual({reply[:3] for reply in ours.values()}, {"250", "450", "451", "550", "554"})
                refused = sum(not reply.startswith("250") for reply in theirs.values())
                wanted = eventually(lambda: (found := refusals(postfix.log())) and len(found) >= refused and found,
                                    lambda: f"{refused} refusals in {postfix.log()}")
                self.assertGreater(len(wanted), 20)
                eventually(lambda: len(refusals(mx.log())) == len(wanted), lambda: f"the log has {wanted}")
                self.assertEqual(refusals(mx.log()), wanted)


class SilentLists(Suite):
    def setUp(self):
        reason = dns_lists.unavailable()
        if reason:
            self.skipTest(reason)

    def test_a_list_that_never_answers_holds_up_only_who_asks_it_and_not_for_long(self):
        strangers = 12
        with DnsLists(LISTS, RECORDS, EMPTY, silent=["dead.example"]) as dns:
            more = {
                "mydestination": "here.example",
                "mynetworks": "127.0.0.0/8",
                "smtpd_authorized_xclient_hosts": "127.0.0.0/8",
                "dns_resolver_timeout": "2s",
                "smtpd_recipient_restrictions": "permit_mynetworks, reject_rbl_client dead.example, "
                "reject_rbl_client rbl.example=127.0.0.10",
            }
            with Instance(dns.settings(**more)) as mx:
                clients = []
                for i in range(strangers):
                    client = Client(mx.port)
                    client.expect(f"XCLIENT ADDR=192.0.2.{100 + i} NAME=[UNAVAILABLE]", "220")
                    client.expect("EHLO x.example", "250")
                    client.expect("MAIL FROM:<s@remote.example>", "250")
                    client.raw(b"RCPT TO:<u@here.example>\r\n")
                    clients.append(client)
                # Meanwhile a session that does not ask the list is served from its beginning to its end.
                send(mx.port, "a@here.example", ["u@here.example"], mail("meanwhile"))
                waiting = [client for client in clients if not select.select([client.socket], [], [], 0)[0]]
                self.assertEqual(len(waiting), strangers)
                for client in clients:
                    self.assertTrue(client.reply().startswith("250"))
                    client.close()
                # The list is said to be dead once. The other list still acts.
                self.assertEqual(mx.log().count("RBL lookup error"), 1)
                with Client(mx.port) as late:
                    late.expect("XCLIENT ADDR=192.0.2.4 NAME=[UNAVAILABLE]", "220")
                    late.expect("EHLO x.example", "250")
                    late.expect("MAIL FROM:<s@remote.example>", "250")
                    late.expect("RCPT TO:<u@here.example>", "554")

    def test_a_list_that_refuses_to_answer_refuses_nobody(self):
        """127.255.255.0/24 says that this resolver may not ask; Postfix takes it for a listing."""
        with DnsLists(LISTS, RECORDS, EMPTY) as dns:
            more = {
                "mydestination": "here.example",
                "smtpd_authorized_xclient_hosts": "127.0.0.0/8",
                "smtpd_client_restrictions": "reject_rbl_client rbl.example",
            }
            with Instance(dns.settings(**more)) as mx:
                for address, code in (("192.0.2.254", "250"), ("192.0.2.2", "554")):
                    with Client(mx.port) as client:
                        client.expect(f"XCLIENT ADDR={address} NAME=[UNAVAILABLE]", "220")
                        client.expect("EHLO x.example", "250")
                        client.expect("MAIL FROM:<s@remote.example>", "250")
                        client.expect("RCPT TO:<u@here.example>", code)
                self.assertIn("254.2.0.192.rbl.example: RBL lookup error: the list answers 127.255.255.254", mx.log())


if __name__ == "__main__":
    unittest.main()
