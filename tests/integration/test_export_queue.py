"""penstock export --queue: the queue as batch SMTP, which Postfix and Exim take; nothing is lost on the way back."""
import glob
import json
import os
import re
import shutil
import subprocess

import peers
from harness import *

SLOW = {"minimal_backoff_time": "1000s", "maximal_backoff_time": "1000s"}
DSN = "RET=HDRS ENVID=e+2B1 BODY=8BITMIME"


@unittest.skipIf(peers.unavailable(), peers.unavailable() or "")
class ExportQueue(Suite):
    def stopped(self, count=12):
        """A stopped instance: messages of which one recipient is done, one on hold, one in maildrop; what is left."""
        hop = Peer()
        self.addCleanup(hop.close)
        hop.replies["RCPT"] = lambda session, line: "450 4.2.0 later" if "<later" in line else None
        mx = Instance({**relay_to(hop), **SLOW, "local_header_rewrite_clients": "", "queue_inline_limit": "4096"})
        self.addCleanup(mx.close)
        left = {}
        for i in range(count):
            content = (f"Subject: number{i}\r\n\r\n".encode() +
                       (b"\xe4\r\n.\r\n..dots\r\n" + b"y" * 900 + b"\r\n") * (3 * i + 1))
            with Client(mx.port) as client:
                client.send("" if i == 3 else "ada@one.example", [f"later{i}@rcpt.example", f"now{i}@rcpt.example"],
                            content, mail=DSN, rcpt="NOTIFY=FAILURE ORCPT=rfc822;o+2B@x.example")
            left[f"number{i}"] = content
        eventually(lambda: len([e for e in mx.queue() if e["queue_name"] == "deferred"]) == count
                   and all(len(e["recipients"]) == 1 for e in mx.queue()), "all are deferred", 60)
        mx.tool("pensuper", "-h", mx.queue()[0]["queue_id"], check=True)
        mx.stop()
        done = subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, "-i", "-f", "ada@one.example",
                               "later-drop@rcpt.example"], input=b"Subject: drop\n\n.\nfrom maildrop\n",
                              capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        left["drop"] = b"Subject: drop\r\n\r\n.\r\nfrom maildrop\r\n"
        return mx, left

    def export(self, mx, folder, *options, status=0):
        done = mx.tool("penstock", "export", "--queue", folder, *options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def assert_arrived(self, hop, left):
        got = {re.search(rb"^Subject: (\S+)", m.content, re.M).group(1).decode(): m for m in hop.messages}
        self.assertEqual(len(got), len(hop.messages), "one came twice")
        self.assertEqual(set(got), set(left))
        for subject, m in got.items():
            self.assertEqual(m.recipients, [f"later{subject[6:]}@rcpt.example" if subject != "drop"
                                            else "later-drop@rcpt.example"])
            self.assertEqual(split(m.content)[1], split(left[subject])[1])
        return got

    def test_postfix_takes_the_queue_back(self):
        mx, left = self.stopped()
        out = os.path.join(self.folder(), "out")
        said = [json.loads(l) for l in self.export(mx, out, "--json", "--remove").stdout.splitlines()]
        self.assertLessEqual({"hold", "maildrop"}, {e["queue_name"] for e in said})
        self.assertEqual(len(glob.glob(out + "/*.bsmtp")), len(left))
        self.assertEqual(mx.tool("penqueue", "-j", check=True).stdout, "")
        with Peer() as hop, peers.Postfix(free_port(), hop.port) as postfix:
            shutil.copytree(out, os.path.join(postfix.dir, "lib/out"))
            done = postfix.run("/bin/sh", "-c", "for f in /var/lib/out/*.bsmtp; do /usr/sbin/sendmail -bs < $f; done")
            self.assertNotRegex(done.stdout, r"(?m)^[45]\d\d ", done.stdout)
            hop.wait_messages(len(left), seconds=60)
            got = self.assert_arrived(hop, left)
            self.assertEqual(got["number3"].sender, "")

    def test_what_was_asked_for_of_reports_is_kept_when_the_files_are_fed_by_smtp(self):
        mx, left = self.stopped(2)
        out = os.path.join(self.folder(), "out")
        self.export(mx, out)
        with Peer() as hop, peers.Postfix(free_port(), hop.port) as postfix:
            for name in glob.glob(out + "/*.bsmtp"):
                with Client(postfix.port) as client, open(name, "rb") as raw:
                    head, data, content = raw.read().partition(b"DATA\r\n")
                    for line in head.decode().splitlines():
                        client.expect(line, "250")
                    client.expect("DATA", "354")
                    client.raw(content)
                    self.assertTrue(client.reply().startswith("250"))
            hop.wait_messages(len(left), seconds=60)
            m = self.assert_arrived(hop, left)["number1"]
            self.assertLessEqual({"ENVID=e+2B1", "RET=HDRS", "BODY=8BITMIME"}, set(m.parameters))
            self.assertLessEqual({"NOTIFY=FAILURE", "ORCPT=rfc822;o+2B@x.example"}, set(m.recipient_parameters[0]))

    def test_exim_takes_it_too(self):
        mx, left = self.stopped(4)
        out = os.path.join(self.folder(), "out")
        self.export(mx, out, "--plain")
        with Peer() as hop, peers.Exim(free_port(), hop.port) as exim:
            shutil.copytree(out, os.path.join(exim.dir, "lib/out"))
            each = "for f in /var/lib/out/*.bsmtp; do /usr/sbin/exim4 -bS < $f || exit 1; done"
            done = exim.run("/bin/sh", "-c", each)
            self.assertEqual(done.returncode, 0, done.stdout)
            hop.wait_messages(len(left), seconds=60)
            self.assert_arrived(hop, left)

    def test_without_remove_the_queue_stays_and_a_repeat_writes_the_same(self):
        mx, left = self.stopped(3)
        out = os.path.join(self.folder(), "out")

        def files():
            found = {}
            for name in os.listdir(out):
                with open(os.path.join(out, name), "rb") as raw:
                    found[name] = raw.read()
            return found
        self.export(mx, out)
        first = files()
        self.assertEqual(len(first), len(left))
        self.export(mx, out)
        self.assertEqual(files(), first)
        self.assertEqual(len(mx.tool("penqueue", "-j", check=True).stdout.splitlines()), len(left))

    def test_what_runs_is_not_exported(self):
        mx, _ = self.stopped(1)
        mx.start()
        out = os.path.join(self.folder(), "out")
        self.assertIn("penstock stop first", self.export(mx, out, status=os.EX_TEMPFAIL).stderr)
        self.assertFalse(os.path.exists(out))


if __name__ == "__main__":
    unittest.main()
