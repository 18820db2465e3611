"""penapi at an address that is not loopback: encrypted and for tokens only, or not at all."""
import http.client
import ssl

import own_network
from certificates import Authority
from harness import *
from test_penapi import TOKEN, token_file

SERVER = own_network.ADDRESS


def setUpModule():
    own_network.enter()


class Network(Suite):
    def test_without_tls_and_tokens_it_does_not_start(self):
        port = free_port()
        for settings in ({}, {"penapi_token_file": token_file(self.folder())}):
            with Instance(settings, {f"{SERVER}:{port}": "inet n - n - - penapi"}, start=False) as mx:
                mx.tool("penstock", "start")
                mx.wait_log(rf"penapi\[\d+\]: error: .*{SERVER}.* is no loopback address")
                self.assertNotEqual({s["service"]: s["state"] for s in mx.status()["services"]}
                                    [f"{SERVER}:{port}/inet"], "serving")

    def test_requests_are_encrypted_and_need_a_token(self):
        port, directory = free_port(), self.folder()
        authority = Authority(directory)
        certificate = authority.issue("mx.test.example")
        settings = {"penapi_token_file": token_file(directory), "penapi_tls_cert_file": certificate.pem,
                    "penapi_tls_key_file": certificate.key}
        with Instance(settings, {f"{SERVER}:{port}": "inet n - n - - penapi"}):
            trust = ssl.create_default_context(cafile=authority.pem)
            trust.check_hostname = False  # it is asked by address

            def status(path, token=None):
                client = http.client.HTTPSConnection(SERVER, port, timeout=60, context=trust)
                client.request("GET", path, headers={"Authorization": "Bearer " + token} if token else {})
                answer = client.getresponse()
                answer.read()
                client.close()
                return answer.status
            self.assertEqual(status("/healthz"), 200)
            self.assertEqual(status("/metrics"), 401)
            self.assertEqual(status("/api/v1/queue", "x" * 20), 401)
            self.assertEqual(status("/metrics", TOKEN), 200)
            with self.subTest("nothing in clear text"):
                client = http.client.HTTPConnection(SERVER, port, timeout=60)
                with self.assertRaises((http.client.HTTPException, ConnectionError)):
                    client.request("GET", "/healthz")
                    client.getresponse()
                client.close()


if __name__ == "__main__":
    unittest.main()
