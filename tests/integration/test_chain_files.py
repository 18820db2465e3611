"""Keys and certificates in every order and number of files that people have them, beside Postfix: which certificates
are served, or that there is no TLS."""
import os
import ssl

import peers
from certificates import Authority, openssl
from harness import *
from test_tls_server import TlsClient, client_context

# Files of blocks with + between.
ROWS = """
key cert
key cert+issuer
key cert issuer
key+cert
key+cert+issuer
key+cert issuer
key cert rsa-key rsa-cert
rsa-key rsa-cert+issuer key cert+issuer
key+cert rsa-key rsa-cert
key cert+rsa-key rsa-cert
key cert+rsa-key+rsa-cert
key+cert rsa-key+rsa-cert
key+cert+issuer+rsa-key+rsa-cert+issuer
params+key cert
params key cert
key params+cert
text+key text+cert text
key empty cert
sec1 cert pkcs1 rsa-cert
params+sec1+cert
rsa-key rsa-cert
cert key
cert+key
key
cert
key cert rsa-key
key rsa-key cert rsa-cert
key+rsa-key
key rsa-cert
key+rsa-cert
key issuer cert
empty
text
""".split("\n")[1:-1]

# Two certificates whose keys are of one kind: Postfix has no TLS then, here the last one is used, with a warning.
OF_ONE_KIND = ("key cert key2 cert2", "key+cert key2+cert2 rsa-key+rsa-cert")


def served(port):
    """The kinds of certificates that a server has, or that it offers no TLS."""
    kinds = []
    for kind in ("ECDSA", "RSA"):
        context = client_context(version=ssl.TLSVersion.TLSv1_2)
        context.set_ciphers("a" + kind)
        try:
            with TlsClient(port, context) as client:
                if not client.has("STARTTLS"):
                    return "no TLS"
                client.starttls()
                kinds.append(kind)
        except (ssl.SSLError, ConnectionError):
            pass
        except Refused as refused:
            assert refused.reply.startswith("454"), refused.reply
    return " ".join(kinds) or "no TLS"


@unittest.skipIf(peers.unavailable(), peers.unavailable() or "")
class ChainFiles(Suite):
    def test_the_same_certificates_are_served_as_by_postfix(self):
        ca = Authority(self.folder())
        mine, rsa = ca.issue("mx.test.example"), ca.issue("mx.test.example", kind="rsa")
        second = ca.issue("second.test.example")

        def read(path):
            with open(path) as text:
                return text.read()

        def certificate(pem):
            return openssl("x509", "-in", pem)

        blocks = {
            "key": read(mine.key), "cert": certificate(mine.pem), "rsa-key": read(rsa.key),
            "key2": read(second.key), "cert2": certificate(second.pem), "rsa-cert": certificate(rsa.pem),
            "issuer": certificate(ca.pem), "empty": "",
            "params": openssl("ecparam", "-name", "prime256v1"), "text": "Bag Attributes\n    friendlyName: mx\n",
            "sec1": openssl("ec", "-in", mine.key), "pkcs1": openssl("rsa", "-in", rsa.key, "-traditional"),
        }
        files, names = {}, []
        rows = (*ROWS, *OF_ONE_KIND)
        for n, row in enumerate(rows):
            names.append([])
            for m, file in enumerate(row.split()):
                names[-1].append(f"{n}.{m}.pem")
                files[names[-1][-1]] = "".join(blocks[block] for block in file.split("+"))

        def service(port, etc, of):
            chain = ",".join(os.path.join(etc, name) for name in of)
            return f"inet n - n - - smtpd -o smtpd_tls_security_level=may -o smtpd_tls_chain_files={chain}"

        ports = [free_port() for _ in rows]
        postfix = peers.Postfix(free_port(), services="\n".join(
            f"127.0.0.1:{port} {service(port, '/etc/pems', of)}" for port, of in zip(ports, names)))
        for name, text in files.items():
            postfix.write("etc/pems/" + name, text)
        postfix.port = ports[0]
        with postfix:
            theirs = dict(zip(rows, map(served, ports)))
        mx = Instance(start=False)
        pems = os.path.join(mx.dir, "pems")
        for name, text in files.items():
            os.chmod(mx.write("pems/" + name, text), 0o600)
        ports = [free_port() for _ in rows]
        mx.set_services({f"127.0.0.1:{port}": service(port, pems, of) for port, of in zip(ports, names)})
        with mx:
            mx.start()
            eventually(lambda: all(map(answers, ports)), "every service answers", 120)
            ours = dict(zip(rows, map(served, ports)))
            with TlsClient(ports[-2]) as client:
                self.assertEqual(client.starttls().common_name(), "second.test.example")
            warning = r"several certificates have keys of one kind \(EC\): of these the last one is used"
            mx.wait_log(r"smtpd\[\d+\]: warning: " + warning)
            self.assertRegex(mx.tool("penstock", "check").stdout, warning)
        self.assertEqual([(theirs.pop(row), ours.pop(row)) for row in OF_ONE_KIND],
                         [("no TLS", "ECDSA"), ("no TLS", "ECDSA RSA")])
        self.assertEqual(ours, theirs)
        self.assertEqual({theirs["key cert"], theirs["key+cert rsa-key+rsa-cert"], theirs["cert key"]},
                         {"ECDSA", "ECDSA RSA", "no TLS"})


if __name__ == "__main__":
    unittest.main()
