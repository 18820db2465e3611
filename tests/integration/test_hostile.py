"""Peers that break the rules: intruders on programs' sockets, clients that flood, and servers with wrong answers."""
import os
import random
import socket
import struct

from harness import *


class Hostile(Suite):
    def still_works(self, mx, peer, already):
        send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail(f"after {already}"))
        peer.wait_messages(already + 1)
        mx.wait_empty_queue()

    def test_garbage_on_the_sockets_between_programs_harms_nobody_else(self):
        seed = int(os.environ.get("PEN_SEED", "0")) or random.randrange(1 << 30)
        dice = random.Random(seed)
        hello = struct.pack("<I", 20) + bytes([0, 0]) + b"\xa1\xa0\x95\xf2\x04"
        attacks = [b"", b"\0" * 100, b"GET / HTTP/1.0\r\n\r\n", struct.pack("<I", 0xFFFFFFFF) + b"x" * 1000,
                   struct.pack("<I", 1000) + b"half a frame", hello, dice.randbytes(5000)]
        with self.subTest(seed=seed), Peer() as peer, Instance(relay_to(peer)) as mx:
            self.still_works(mx, peer, 0)
            before = mx.pids()
            spool = mx.path("spool")
            sockets = [os.path.join(where, name) for where in (os.path.join(spool, "public"),
                                                               os.path.join(spool, "private"))
                       for name in os.listdir(where)]
            self.assertGreater(len(sockets), 5)
            for path in sockets:
                for attack in attacks:
                    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
                        s.settimeout(10)
                        try:
                            s.connect(path)
                            s.sendall(attack)
                        except OSError:
                            continue  # refused, which is as good as any answer
            self.still_works(mx, peer, 1)
            after = mx.pids()
            for program in ("master", "qmgr", "smtpd", "trivial-rewrite", "smtp"):
                self.assertLessEqual(set(before[program]), set(after.get(program, [])), f"{program} died")

    def test_clients_that_flood_with_errors_are_cut_off(self):
        with Peer() as peer, Instance(relay_to(peer)) as mx:
            client = Client(mx.port)
            with self.assertRaises((ConnectionError, Refused, OSError)):
                for _ in range(200):
                    client.command("NONSENSE")
            client.close()
            self.still_works(mx, peer, 0)

    def test_an_endless_line_is_refused_with_bounded_memory(self):
        with Peer() as peer, Instance(relay_to(peer)) as mx:
            client = Client(mx.port)
            try:
                for _ in range(300):
                    client.raw(b"x" * 65536)
                client.raw(b"\r\n")
                self.assertRegex(client.reply(), r"^5\d\d |^421 ")
            except (ConnectionError, OSError):
                pass  # cut off: allowed
            client.close()
            pid = mx.pids()["smtpd"][0]
            with open(f"/proc/{pid}/status") as status:
                peak = int(next(line for line in status if line.startswith("VmHWM")).split()[1])
            self.assertLess(peak, 200 * 1024)
            self.still_works(mx, peer, 0)

    def test_smuggled_ends_of_data_end_nothing(self):
        ends = [b"\n.\n", b"\n.\r\n", b"\r\n.\n", b"\r.\r", b"\r\n.\r", b"\r.\r\n"]
        with Peer() as peer, Instance({**relay_to(peer), "smtpd_forbid_bare_newline": "normalize"}) as mx:
            for end in ends:
                with Client(mx.port) as client:
                    content = (mail("smuggle") + b"text" + end + b"MAIL FROM:<evil@x.example>\r\n"
                               b"RCPT TO:<victim@rcpt.example>\r\nDATA\r\nevil\r\n")
                    client.expect("MAIL FROM:<ada@sender.example>", "250")
                    client.expect("RCPT TO:<a@rcpt.example>", "250")
                    client.expect("DATA", "354")
                    client.raw(content + b".\r\n")
                    try:
                        client.reply()
                        client.command("QUIT")
                    except (ConnectionError, OSError):
                        pass  # a refusal may close the connection
            mx.wait_empty_queue()
            self.still_works(mx, peer, len(peer.messages))
            for message in peer.messages:
                self.assertEqual(message.sender, "ada@sender.example")
                self.assertEqual(message.recipients, ["a@rcpt.example"])
            self.assertEqual(peer.violations, [])


if __name__ == "__main__":
    unittest.main()
