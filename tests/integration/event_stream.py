"""Events of an instance: its files, readers of public/event-stream, web servers that events are posted to."""
import hashlib
import hmac
import http.server
import json
import os
import pwd
import socket
import ssl
import threading

import jsonschema

from instance import TOP, mail_owner
from waiting import eventually

with open(os.path.join(TOP, "docs", "events.schema.json"), encoding="utf-8") as file:
    SCHEMA = json.load(file)


def described(line):
    """The event in the line, if docs/events.schema.json describes it."""
    event = json.loads(line)
    if event.get("type") not in SCHEMA["definitions"]:
        raise AssertionError(f"no such type: {line!r}")
    # By its type: what is wrong is said better than of one of all.
    whole = {"definitions": SCHEMA["definitions"], "allOf": [{"$ref": "#/definitions/" + event["type"]}]}
    problems = sorted(jsonschema.Draft7Validator(whole).iter_errors(event), key=lambda e: list(e.path))
    if problems:
        told = "\n".join(f"{list(e.path)}: {e.message[:300]}" for e in problems[:5])
        raise AssertionError(f"not as described:\n{told}\n{line[:2000]!r}")
    return event


def files(mx, **more):
    """Settings with an event log and an accounting file, in a directory that mail_owner may write."""
    return {"event_log_file": os.path.join(events_directory(mx), "events.json"),
            "event_accounting_file": os.path.join(events_directory(mx), "accounting.csv"), **more}


def events_directory(mx):
    path = mx.path("data", "logs")
    if not os.path.isdir(path):
        os.makedirs(path)
        if os.geteuid() == 0:
            owner = pwd.getpwnam(mail_owner())
            os.chown(path, owner.pw_uid, owner.pw_gid)
    return path


def logged(mx, name="events.json"):
    """The whole lines of the event log."""
    try:
        with open(os.path.join(events_directory(mx), name), "rb") as file:
            return [described(line) for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]
    except FileNotFoundError:
        return []


def wait_logged(mx, wanted, what):
    """Waits until wanted(events) is true; returns the events."""
    def look():
        found = logged(mx)
        return found if wanted(found) else None
    return eventually(look, lambda: f"{what}\n{json.dumps(logged(mx), indent=1)}\n{mx.log()}")


class Reader:
    """A reader of public/event-stream."""

    def __init__(self, mx, request=None, buffer=None):
        self.sock = socket.socket(socket.AF_UNIX)
        if buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.sock.settimeout(60)
        self.sock.connect(mx.path("spool", "public", "event-stream"))
        self.file = self.sock.makefile("rb")
        if request is not None:
            text = request if isinstance(request, bytes) else json.dumps(request).encode()
            self.sock.sendall(text + b"\n")

    def next(self):
        """The next event; None: the stream has ended."""
        line = self.file.readline()
        if not line or b'"error"' in line[:10]:
            return json.loads(line) if line else None
        return described(line)

    def until(self, wanted):
        """Reads up to an event that wanted() says yes to; returns all of them."""
        found = []
        while True:
            event = self.next()
            if event is None:
                raise AssertionError(f"the stream ended after {found}")
            found.append(event)
            if wanted(event):
                return found

    def close(self):
        self.file.close()
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class WebServer:
    """Takes batches. `answer` is called for each with its number, and returns a status, or None: it hangs until
    go_on()."""

    def __init__(self, secret=None, answer=lambda n: 200, certificate=None):
        self.secret, self.answer = secret, answer
        self.batches, self.taken, self.problems = 0, [], []
        self.lock, self.released = threading.Lock(), threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with outer.lock:
                    outer.batches += 1
                    number = outer.batches
                    outer.check(self.headers, body)
                status = outer.answer(number)
                if status is None:
                    outer.released.wait(120)
                    self.close_connection = True
                    return
                if status == 200:
                    with outer.lock:
                        outer.taken += json.loads(body)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/events"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.pem, certificate.key)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            self.url = f"https://localhost:{self.server.server_port}/events"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def check(self, headers, body):
        events = json.loads(body)
        if headers["X-Penstock-Batch"] != f"{events[0]['id']}-{events[-1]['id']}":
            self.problems.append(headers["X-Penstock-Batch"])
        for event in events:
            try:
                described(json.dumps(event))
            except AssertionError as problem:
                self.problems.append(str(problem))
        said = headers["X-Penstock-Signature"]
        if self.secret is None:
            if said:
                self.problems.append("signed without a secret")
            return
        text = f"{headers['X-Penstock-Timestamp']}.{headers['X-Penstock-Batch']}.".encode() + body
        if said != "sha256=" + hmac.new(self.secret, text, hashlib.sha256).hexdigest():
            self.problems.append(f"signature {said}")

    def events(self):
        with self.lock:
            return list(self.taken)

    def close(self):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
