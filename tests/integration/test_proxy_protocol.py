"""smtpd_upstream_proxy_protocol: sessions through a real haproxy, with both versions of its protocol and with TLS."""
import os
import socket
import ssl
import tempfile

import haproxy
from certificates import Authority
from harness import *

BEHIND = "inet n - n - - smtpd -o smtpd_upstream_proxy_protocol=haproxy"
# 127.0.0.9 may relay; haproxy's own address may not.
TRUST = {"mynetworks": "127.0.0.9/32, [::1]/128", "inet_protocols": "ipv4, ipv6", "smtpd_client_port_logging": "yes"}
RELAYED = ["MAIL FROM:<a@x.example>", "RCPT TO:<b@elsewhere.example>"]


class ProxyProtocol(Suite):
    @unittest.skipIf(haproxy.unavailable(), haproxy.unavailable())
    def test_both_versions_name_the_client_to_lists_log_and_trace_fields(self):
        port = free_port()
        with Instance({**TRUST, "virtual_mailbox_maps": "inline:{ { a@virtual.test.example = a/ } }"},
                      {f"127.0.0.1:{port}": BEHIND}) as mx:
            fronts = {"one": (port, "send-proxy"), "two": (port, "send-proxy-v2"),
                      "tlv": (port, "send-proxy-v2 proxy-v2-options crc32c,unique-id")}
            with haproxy.Haproxy(fronts) as proxy:
                for name in fronts:
                    with Client(proxy.port(name), source="127.0.0.9") as client:
                        own = client.socket.getsockname()[1]
                        self.assertEqual([client.command(line)[:3] for line in RELAYED], ["250", "250"])
                        client.command("RSET")
                        client.send("a@x.example", ["a@virtual.test.example"], mail(subject=name))
                        client.quit()
                    mx.wait_log(rf"\w+: client=\S+\[127\.0\.0\.9\]:{own}\b")
                    mx.wait_log(rf"disconnect from \S+\[127\.0\.0\.9\]:{own} ehlo=1 mail=2 ")
                    with Client(proxy.port(name)) as client:  # from 127.0.0.1
                        self.assertEqual([client.command(line)[:3] for line in RELAYED], ["250", "454"])
                    with Client(proxy.port(name), host="::1") as client:
                        self.assertEqual([client.command(line)[:3] for line in RELAYED], ["250", "250"])
                for message in Maildir(os.path.join(mx.virtual_base, "a")).wait(len(fronts)):
                    self.assertIn(b"[127.0.0.9]", message)

    @unittest.skipIf(haproxy.unavailable(), haproxy.unavailable())
    def test_the_header_comes_before_the_handshake_of_wrapper_mode(self):
        port = free_port()
        with tempfile.TemporaryDirectory() as files:
            certificate = Authority(files).issue("mx.test.example")
            with Instance({**TRUST, "smtpd_tls_security_level": "may", "smtpd_tls_cert_file": certificate.pem,
                           "smtpd_tls_key_file": certificate.key},
                          {f"127.0.0.1:{port}": BEHIND + " -o smtpd_tls_wrappermode=yes"}) as mx:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                fronts = {"one": (port, "send-proxy"), "two": (port, "send-proxy-v2")}
                with haproxy.Haproxy(fronts) as proxy:
                    for name in fronts:
                        plain = socket.create_connection(("127.0.0.1", proxy.port(name)), timeout=60,
                                                         source_address=("127.0.0.9", 0))
                        own = plain.getsockname()[1]
                        with context.wrap_socket(plain) as secured:
                            self.assertTrue(secured.recv(1000).startswith(b"220 "))
                            secured.sendall(b"QUIT\r\n")
                        mx.wait_log(rf"disconnect from \S+\[127\.0\.0\.9\]:{own} quit=1 ")

    @unittest.skipIf(haproxy.unavailable(), haproxy.unavailable())
    def test_health_checks_of_the_proxy_are_served_as_its_own(self):
        port = free_port()
        with Instance(TRUST, {f"127.0.0.1:{port}": BEHIND}) as mx:
            with haproxy.Haproxy({"two": (port, "send-proxy-v2 check inter 50ms")}):  # the check says LOCAL
                mx.wait_log(r"connect from \S+\[127\.0\.0\.1\]")
        self.assertNotIn("haproxy read", mx.log())

    def test_without_a_header_the_session_ends_in_silence_and_the_log_says_why(self):
        port = free_port()
        with Instance({**TRUST, "smtpd_upstream_proxy_timeout": "1s"}, {f"127.0.0.1:{port}": BEHIND}) as mx:
            binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x31\0\x01x"
            for sent, said in ((b"EHLO x\r\n", "unrecognized protocol header: EHLO x"),
                               (b"PROXY UNKNOWN\r\n", r"bad or missing protocol type: PROXY UNKNOWN"),
                               (b"PROXY TCP4 1.2.3.4 x 1 1\r\n", "bad or missing server address"),
                               (binary, "unsupported network protocol"), (b"", "timeout error")):
                with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
                    client.sendall(sent)
                    try:
                        self.assertEqual(client.recv(100), b"")
                    except ConnectionResetError:
                        pass
                mx.wait_log("warning: haproxy read: " + said)
            with socket.create_connection(("127.0.0.1", port), timeout=20):
                pass
            mx.wait_log("warning: haproxy read: EOF")
            mx.wait_log(r"connect from unknown\[unknown\]")
            mx.wait_log(r"disconnect from unknown\[unknown\]\S* commands=0")


if __name__ == "__main__":
    unittest.main()
