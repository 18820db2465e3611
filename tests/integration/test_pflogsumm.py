"""pflogsumm, which reads Postfix's log, reports the numbers that the test knows."""
import re
import shutil
import subprocess

from harness import *


class Pflogsumm(Suite):
    def test_its_totals_are_those_of_the_run(self):
        if not shutil.which("pflogsumm"):
            self.skipTest("pflogsumm is not installed")
        with Peer() as peer:
            peer.replies["RCPT"] = lambda s, line: (
                "550 5.1.1 gone" if "gone" in line else "451 4.2.1 later" if "later" in line else None
            )
            settings = {
                **relay_to(peer, "rcpt.example", "sender.example"),
                "local_recipient_maps": inline({"known": "x"}),
                "virtual_mailbox_maps": inline({"vera@virtual.test.example": "vera/"}),
            }
            with Instance(settings) as mx:
                for i in range(5):
                    send(
                        mx.port, "ada@sender.example", [f"u{i}@rcpt.example", "vera@virtual.test.example"], mail(str(i))
                    )
                for i in range(3):
                    send(mx.port, "", [f"gone{i}@rcpt.example"], mail("gone"))
                for i in range(2):
                    send(mx.port, "", [f"later{i}@rcpt.example"], mail("later"))
                for i in range(4):
                    with self.assertRaises(Refused):
                        send(mx.port, "ada@sender.example", ["nobody@local.test.example"], mail("unknown"))
                eventually(lambda: mx.log().count("status=deferred") >= 2 and mx.log().count("status=bounced") >= 3 and
                           mx.log().count("status=sent") >= 10 and mx.log().count("NOQUEUE: reject") >= 4, "all tried")
                deferrals = mx.log().count("status=deferred")
                text = subprocess.run(
                    ["pflogsumm", "--syslog_name=penstock"], input=mx.log(), capture_output=True, text=True, check=True
                ).stdout
                totals = {m.group(2): int(m.group(1)) for m in re.finditer(r"^ +(\d+) +([a-z]+)\b", text, re.M)}
                for name, wanted in (
                    ("received", 10),
                    ("delivered", 10),
                    ("deferred", 2),
                    ("bounced", 3),
                    ("rejected", 4),
                    ("senders", 2),
                    ("recipients", 6),
                ):
                    self.assertEqual(totals.get(name), wanted, name + "\n" + text)
                self.assertIn(f"({deferrals}  deferrals)".replace("  ", " "), re.sub(" +", " ", text))
                self.assertIn("User unknown", text)


if __name__ == "__main__":
    unittest.main()
