"""Rarer settings by name in the running suite, beside what unit tests show of each."""
import ssl
import time

from certificates import Authority
from harness import *
from test_tls_server import TlsClient, client_context

TO = "ada@virtual.test.example"
MAILBOXES = {"virtual_mailbox_maps": inline({TO: "ada/"})}


class Receiving(Suite):
    def received(self, mx, content=None, sender="s@sender.example"):
        send(mx.port, sender, [TO], content or mail())
        (message,) = mx.virtual_box("ada").wait(1)
        return message

    def test_smtpd_hide_client_session(self):
        for hidden in ("no", "yes"):
            with self.subTest(hidden), Instance({**MAILBOXES, "smtpd_hide_client_session": hidden}) as mx:
                header = fields(split(self.received(mx), b"\n")[0], b"\n")
                trace = next(f for f in header if f.startswith(b"Received: "))
                self.assertEqual(b"127.0.0.1" in trace, hidden == "no")
                if hidden == "yes":
                    self.assertRegex(trace, rb"^Received: by mx\.test\.example \(Penstock\) id \w+\r?\n\tfor <ada@")

    def test_smtpd_reject_filter_maps(self):
        with Instance(MAILBOXES, start=False) as mx:
            mx.set(smtpd_reject_filter_maps="regexp:" + mx.write("filter", r"/^550 5(\.1\.1 .*)/ 450 4$1" + "\n"))
            mx.start()
            with self.assertRaises(Refused) as no:
                send(mx.port, "s@sender.example", ["nobody@virtual.test.example"], mail())
            self.assertTrue(no.exception.reply.startswith("450 4.1.1 <nobody@"), no.exception.reply)
            mx.wait_log(r"NOQUEUE: reject filter in: 550 5\.1\.1 ")
            mx.wait_log(r"NOQUEUE: reject filter out: 450 4\.1\.1 ")

    def test_non_empty_end_of_header_action(self):
        content = b"Subject: x\r\nno field\r\n\r\nbody\r\n"
        for action in ("fix_quietly", "add_header", "reject"):
            with self.subTest(action), Instance({**MAILBOXES, "non_empty_end_of_header_action": action}) as mx:
                if action == "reject":
                    with self.assertRaises(Refused) as no:
                        send(mx.port, "s@sender.example", [TO], content)
                    self.assertEqual(no.exception.reply,
                                     "550 5.6.0 message header was terminated with non-empty line")
                    mx.wait_log(r"reject: mime-error message header was terminated with non-empty line: no field")
                    continue
                header, body = split(self.received(mx, content), b"\n")
                self.assertTrue(body.startswith(b"no field"), body)
                self.assertEqual(b"\nMIME-Error: message header was not terminated by empty line" in header,
                                 action == "add_header")

    def test_queue_minfree(self):
        with Instance({**MAILBOXES, "queue_minfree": "1099511627776"}) as mx, Client(mx.port) as client:
            client.expect("MAIL FROM:<s@sender.example>", "452 4.3.1 Insufficient system storage")
            mx.wait_log("warning: not enough free space in mail queue")


class Hosts(Suite):
    def test_smtpd_dns_reply_filter(self):
        with Dns({("known.example", "MX"): [(10, "mx.known.example")]}) as dns:
            for table, reply in ((False, "250"), (True, "450 4.1.8")):
                with self.subTest(table), Instance({**dns.settings(), **MAILBOXES,
                                                    "mynetworks": "192.0.2.1",
                                                    "smtpd_sender_restrictions": "reject_unknown_sender_domain"},
                                                   start=False) as mx:
                    if table:
                        mx.set(smtpd_dns_reply_filter="regexp:" + mx.write(
                            "filter", "/^known.example. [0-9]+ IN MX 10 mx.known.example.$/ IGNORE\n"))
                    mx.start()
                    with Client(mx.port) as client:
                        client.expect("MAIL FROM:<s@known.example>", "250")
                        client.expect(f"RCPT TO:<{TO}>", reply)

    def test_srv_records_lead_to_host_and_port(self):
        with Peer(host="127.0.0.91") as peer, Dns({
            ("_submission._tcp.rcpt.example", "SRV"): [(10, 5, peer.port, "out.rcpt.example")],
            ("out.rcpt.example", "A"): ["127.0.0.91"],
        }) as dns, Instance({**dns.settings(), "use_srv_lookup": "submission",
                             "relayhost": "rcpt.example:submission"}) as mx:
            send(mx.port, "s@sender.example", ["x@far.example"], mail())
            peer.wait_messages(1)

    def test_best_mx_transport(self):
        with Dns({("ours.example", "MX"): [(10, "mx.ours.example")],
                  ("mx.ours.example", "A"): ["127.0.0.1"]}) as dns, Peer(("SIZE 0",), lmtp=True) as peer:
            for best, end in (("", r"status=bounced \(mail for ours\.example loops back to myself\)"),
                              (f"lmtp:inet:127.0.0.1:{peer.port}", "status=sent")):
                with self.subTest(best), Instance({**dns.settings(), "best_mx_transport": best,
                                                   "relay_domains": "ours.example"}, start=False) as mx:
                    mx.set(smtp_tcp_port=str(mx.port))
                    mx.start()
                    send(mx.port, "s@sender.example", ["x@ours.example"], mail())
                    mx.wait_log(r"to=<x@ours\.example>, .*" + end)


class Pace(Suite):
    def test_transport_rate_delay_is_kept_whatever_the_destinations(self):
        begun = []
        with Peer() as one, Peer() as two:
            for peer in (one, two):
                peer.replies["MAIL"] = lambda session, line: begun.append(time.monotonic())
            hops = {f"{name}.example": f"smtp:[127.0.0.1]:{peer.port}" for name, peer in (("one", one), ("two", two))}
            with Instance({"relay_domains": ", ".join(hops), "transport_maps": inline(hops),
                           "default_transport_rate_delay": "1h", "smtp_transport_rate_delay": "6s"}) as mx:
                for domain in hops:
                    send(mx.port, "s@sender.example", ["x@" + domain], mail())
                one.wait_messages(1)
                two.wait_messages(1)
                # Without the delay both go at once. A slow machine may say the first MAIL late, but not so late.
                self.assertGreater(abs(begun[1] - begun[0]), 2)


class Tls(Suite):
    CONFIG = "openssl_conf = all\npen = own\n[all]\n[own]\nssl_conf = ssl\n[ssl]\nsystem_default = tls\n" \
             "[tls]\nCiphersuites = TLS_CHACHA20_POLY1305_SHA256\n"

    def instance(self, mx, **settings):
        authority = Authority(mx.path("ca"))
        issued = authority.issue("mx.test.example")
        mx.set(smtpd_tls_security_level="may", smtpd_tls_cert_file=issued.pem, smtpd_tls_key_file=issued.key,
               **settings)

    def test_tls_config_file_and_its_name_decide_which_ciphers_there_are(self):
        for name, cipher in (("", "TLS_AES_256_GCM_SHA384"), ("pen", "TLS_CHACHA20_POLY1305_SHA256")):
            with self.subTest(name), Instance(start=False) as mx:
                self.instance(mx, tls_config_file=mx.write("openssl.cnf", self.CONFIG), tls_config_name=name)
                mx.start()
                with TlsClient(mx.port, client_context(version=ssl.TLSVersion.TLSv1_3)) as client:
                    self.assertEqual(client.starttls().tls.cipher()[0], cipher)

    def test_without_the_tls_config_file_there_is_no_tls(self):
        with Instance(start=False) as mx:
            self.instance(mx, tls_config_file="/nonexistent/openssl.cnf")
            mx.start()
            with Client(mx.port) as client:
                self.assertNotIn("STARTTLS", client.features)
            mx.wait_log(r"warning: .*tls_config_file = /nonexistent/openssl\.cnf")


class Services(Suite):
    def test_master_service_disable(self):
        for disabled in (False, True):
            other = free_port()
            name = f"127.0.0.1:{other}"
            with self.subTest(disabled), Instance(
                {"master_service_disable": name + "/inet"} if disabled else {},
                services={name: "inet n - n - - smtpd"},
            ) as mx:
                self.assertTrue(answers(mx.port))
                self.assertEqual(answers(other), not disabled)
