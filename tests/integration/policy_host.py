"""An HTTPS server that stands for the policy hosts of many domains, honest and otherwise (MTA-STS).

Use:     # `certificate` serves domains without one of their own
         with PolicyHost(certificate) as host:
             host.policies["d.example"] = policy("enforce", "mx.d.example")     # text, or a function(connection)
             host.certificates["d.example"] = another
             … host.port; host.fetches["d.example"]
A function gets the connection after the request was read, and may write anything.
"""
import collections
import socket
import ssl
import threading


def policy(mode, *mx, max_age=604800):
    return "".join(f"{line}\r\n" for line in ("version: STSv1", f"mode: {mode}", *(f"mx: {m}" for m in mx),
                                              f"max_age: {max_age}"))


def answer(body="", status="200 OK", kind="text/plain", more=""):
    """What makes such an answer of it."""
    text = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n{body}"
    return lambda connection: connection.sendall(text.encode())


class PolicyHost:
    def __init__(self, certificate):
        self.policies, self.certificates, self.fetches = {}, {}, collections.Counter()
        self.requests = []
        self.context = self._context(certificate)
        self.context.sni_callback = self._choose
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self.listener.getsockname()[1]
        self.closing = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    @staticmethod
    def _context(certificate):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.pem, certificate.key)
        return context

    def _choose(self, connection, name, context):
        domain = (name or "").removeprefix("mta-sts.")
        connection.domain = domain
        if domain in self.certificates:
            connection.context = self._context(self.certificates[domain])

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        connection.settimeout(60)
        try:
            with self.context.wrap_socket(connection, server_side=True) as tls:
                request = b""
                while b"\r\n\r\n" not in request:
                    got = tls.recv(4096)
                    if not got:
                        return
                    request += got
                domain = tls.domain
                self.requests.append(request.decode())
                self.fetches[domain] += 1
                says = self.policies.get(domain, answer("no", "404 Not Found"))
                (says if callable(says) else answer(says))(tls)
        except OSError:
            pass

    def never_ends(self, connection):
        """Sends a little of a policy now and then, until the other side or the test ends it."""
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nversion: STSv1\r\n")
        while not self.closing.wait(0.2):
            connection.sendall(b"x: y\r\n")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.closing.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
