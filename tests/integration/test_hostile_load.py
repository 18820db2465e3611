"""A thousand clients at once stall, babble and flood: each is answered and cut off by the limits that Postfix has for
it, memory stays bounded, and honest clients are served meanwhile."""
import collections
import random
import re
import selectors
import socket
import time

from harness import *

LAST_LINE = re.compile(rb"^\d\d\d .*\n", re.MULTILINE)  # of a reply


class Attacker:
    """One connection. It sends each of its turns after the server has answered the one before; after the last it is
    silent and only reads."""

    def __init__(self, port, kind, turns):
        self.kind, self.turns, self.heard, self.open = kind, turns, b"", True
        self.words, self.answers = b"", 0
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.connect_ex(("127.0.0.1", port))

    def wants(self):
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self.words else 0)

    def silent(self):
        return not self.open or not self.turns and not self.words

    def step(self, events):
        try:
            if events & selectors.EVENT_READ:
                data = self.socket.recv(65536)
                self.open = bool(data)
                self.heard += data
                if not self.words and self.turns and len(LAST_LINE.findall(self.heard)) >= self.turns[0][0]:
                    self.words = self.turns.pop(0)[1]
            if self.open and events & selectors.EVENT_WRITE:
                self.words = self.words[self.socket.send(self.words[:65536]):]
        except BlockingIOError:
            pass
        except OSError:
            self.open = False  # cut off while it was sending
        if not self.open:
            self.socket.close()


def crowd(port, dice):
    """Turns: how many replies to wait for, what to send then."""
    hello = (1, b"EHLO x.example\r\n")
    envelope = (2, b"MAIL FROM:<evil@x.example>\r\nRCPT TO:<a@rcpt.example>\r\nDATA\r\n")
    kinds = {
        "stalls in a command": (300, lambda: [hello, (2, b"MAIL FROM:<ev")]),
        "stalls in a small message": (150, lambda: [hello, envelope, (5, b"Subject: never ends\r\n\r\n" + b"x" * 70)]),
        "stalls in a large message": (150, lambda: [hello, envelope, (5, (b"y" * 998 + b"\r\n") * 100)]),
        "babbles": (200, lambda: [hello, (2, b"".join(dice.randbytes(60).replace(b"\n", b"") + b"\r\n"
                                                      for _ in range(40)))]),
        "sends an endless line": (100, lambda: [hello, (2, b"z" * 300_000)]),
        "repeats itself": (100, lambda: [hello, (2, b"RSET\r\n" * 300)]),
    }
    return [Attacker(port, kind, turns()) for kind, (count, turns) in kinds.items() for _ in range(count)]


def anonymous(pid):
    with open(f"/proc/{pid}/smaps_rollup") as text:
        return next(int(line.split()[1]) for line in text if line.startswith("Anonymous:")) * 1024


class HostileLoad(Suite):
    def test_a_thousand_at_once(self):
        self.need_descriptors(2000)
        settings = {"smtpd_timeout": "4s", "smtpd_error_sleep_time": "20ms", "smtpd_hard_error_limit": "20",
                    "smtpd_junk_command_limit": "100", "line_length_limit": "2048"}
        with Peer() as peer, Instance({**relay_to(peer), **settings}) as mx:
            smtpd = mx.pids()["smtpd"][0]
            send(mx.port, "ada@sender.example", ["warm@rcpt.example"], mail("warm"))
            idle = anonymous(smtpd)
            attackers = crowd(mx.port, random.Random(20260919))
            self.assertEqual(len(attackers), 1000)
            try:
                peak, honest = self.drive(attackers, mx, smtpd)
            finally:
                for attacker in attackers:
                    attacker.socket.close()
            self.assertLess(peak - idle, sanitizers.memory(64 << 20))
            peer.wait_messages(honest + 1)
            self.assertEqual({m.sender for m in peer.messages}, {"ada@sender.example"}, "no half message went out")
            self.assertEqual(mx.pids()["smtpd"], [smtpd], "the same process all along")
            mx.wait_empty_queue()
            ends = collections.defaultdict(collections.Counter)
            for a in attackers:
                ends[a.kind][a.heard.decode("latin-1").rstrip("\r\n").rsplit("\n", 1)[-1][:9]] += 1
                self.assertEqual(a.turns, [], a.kind)
            self.judge(ends)

    def drive(self, attackers, mx, smtpd):
        """Waits until all are cut off; meanwhile an honest client sends. Returns (peak memory, honest messages)."""
        peak = honest = 0
        deadline = time.monotonic() + (60 if sanitizers else 30)
        with selectors.DefaultSelector() as selector:
            for a in attackers:
                selector.register(a.socket, a.wants(), a)
            while selector.get_map():
                self.assertLess(time.monotonic(), deadline, f"{len(selector.get_map())} are still connected")
                for key, events in selector.select(0.2):
                    a, wanted = key.data, key.events
                    fd = key.fd
                    a.step(events)
                    if not a.open:
                        selector.unregister(fd)
                    elif a.wants() != wanted:
                        selector.modify(fd, a.wants(), a)
                peak = max(peak, anonymous(smtpd))
                if honest < 20 and all(a.silent() for a in attackers):
                    send(mx.port, "ada@sender.example", [f"h{honest}@rcpt.example"], mail(f"honest {honest}"))
                    honest += 1
        self.assertEqual(honest, 20)
        return peak, honest

    def judge(self, ends):
        timeout, errors, forbidden = "421 4.4.2", "421 4.7.0", "221 2.7.0"
        for kind, last in (("stalls in a command", timeout), ("stalls in a small message", timeout),
                           ("stalls in a large message", timeout), ("babbles", forbidden),
                           ("sends an endless line", timeout), ("repeats itself", errors)):
            # A line that begins with no letter ends the session at once (smtpd_forbidden_commands); some that babble
            # say none of them before they have made too many errors.
            also = {errors} if kind == "babbles" else set()
            with self.subTest(kind):
                self.assertEqual(set(ends[kind]) - also, {last}, ends[kind])


if __name__ == "__main__":
    unittest.main()
