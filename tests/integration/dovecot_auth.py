"""A server that speaks the authentication protocol of Dovecot, with answers that a test chooses."""
import os
import socket
import threading


class FakeDovecot(threading.Thread):
    """Sends the protocol's greeting, then calls `then` with each connection."""

    def __init__(self, then, path=None, mechanisms=("PLAIN\tplaintext",)):
        super().__init__(daemon=True)
        if path:
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(path)
            os.chmod(path, 0o666)
            self.listener.listen()
        else:
            self.listener = socket.create_server(("127.0.0.1", 0))
            self.port = self.listener.getsockname()[1]
        self.then, self.mechanisms, self.lines = then, mechanisms, []
        self.start()

    def run(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.converse, args=(peer,), daemon=True).start()

    def converse(self, peer):
        with peer, peer.makefile("rb") as lines:
            try:
                peer.sendall("".join(["VERSION\t1\t2\n", *(f"MECH\t{m}\n" for m in self.mechanisms),
                                      "SPID\t1\nCUID\t1\nCOOKIE\t00\nDONE\n"]).encode())
                for line in lines:
                    self.lines.append(line.decode().rstrip("\n"))
                    if self.then(peer, self.lines[-1]) is False:
                        break
            except OSError:
                pass

    def close(self):
        self.listener.close()
