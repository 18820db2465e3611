"""A run with faults, counted by those who read the log (Debian's prometheus-postfix-exporter, pflogsumm) and by penapi:
the figures are the same.

The exporter's package is unpacked, not installed: PEN_PEERS (default var/peers) holds it. What the machine cannot have,
for it cannot reach an archive, skips the test with the reason."""
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration"))

from harness import *  # noqa: E402
from test_penapi import UNIX, Api, quietly  # noqa: E402

ROOT = os.path.join(os.environ.get("PEN_PEERS", os.path.join(TOP, "var", "peers")), "postfix-exporter")
PROGRAM = os.path.join(ROOT, "usr/bin/prometheus-postfix-exporter")


def setUpModule():
    if os.path.exists(PROGRAM):
        return
    done = subprocess.run([os.path.join(TOP, "scripts", "unpack-peer"), ROOT, "prometheus-postfix-exporter"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise unittest.SkipTest("Debian's prometheus-postfix-exporter cannot be had: " +
                                (done.stderr or done.stdout)[-300:])


def samples(text):
    """Sample -> value, without those of buckets, whose bounds differ, and with labels in one order."""
    found = {}
    for line in text.splitlines():
        sample, _, value = line.rpartition(" ")
        if not line.startswith("#") and "_bucket" not in sample:
            name, _, labels = sample.partition("{")
            found[name, tuple(sorted(re.findall(r'(\w+)="([^"]*)"', labels)))] = float(value)
    # Debian's version sums the four stages of a delay in one without a name.
    delays = "postfix_smtp_delivery_delay_seconds_count"
    if (delays, (("stage", ""),)) in found:
        found[delays, (("stage", "transmission"),)] = found[delays, (("stage", ""),)] / 4
    return found


class Exporter:
    def __init__(self, log):
        self.port = free_port()
        self.process = subprocess.Popen([PROGRAM, f"--web.listen-address=127.0.0.1:{self.port}",
                                         f"--postfix.logfile_path={log}", "--postfix.showq_path=/nonexistent"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def samples(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
                return samples(answer.read().decode())
        except OSError:
            return None

    def stop(self):
        self.process.kill()
        self.process.wait()


# What both count, and what it is here: name, labels -> the number that the run makes.
RUN = {
    ("postfix_smtpd_messages_rejected_total", (("code", "550"),)): 3,
    ("postfix_smtpd_messages_rejected_total", (("code", "554"),)): 1,
    ("postfix_smtp_status_deferred", ()): 2,
    ("postfix_smtpd_sasl_authentication_failures_total", ()): 0,
    ("postfix_smtpd_connections_lost_total", (("after_stage", "RCPT"),)): 1,
}
# What both count, where the number is that of the log.
LOG = {
    ("postfix_smtpd_connects_total", ()): r"smtpd\[\d+\]: connect from",
    ("postfix_smtpd_disconnects_total", ()): r"smtpd\[\d+\]: disconnect from",
    ("postfix_qmgr_messages_removed_total", ()): r"qmgr\[\d+\]: \w+: removed",
    ("postfix_qmgr_messages_inserted_receipients_count", ()): r"qmgr\[\d+\]: \w+: from=.*\(queue active\)",
    ("postfix_qmgr_messages_inserted_size_bytes_count", ()): r"qmgr\[\d+\]: \w+: from=.*\(queue active\)",
    ("postfix_smtp_delivery_delay_seconds_count", (("stage", "transmission"),)): r"smtp\[\d+\]: \w+: to=.*delays=",
}
# The same of a sum over lines of the log.
SUMS = {
    ("postfix_qmgr_messages_inserted_receipients_sum", ()): r"nrcpt=(\d+) \(queue active\)",
    ("postfix_qmgr_messages_inserted_size_bytes_sum", ()): r"size=(\d+), nrcpt=\d+ \(queue active\)",
}


def wanted_by(log):
    """What both are to have after a run that left this log."""
    return {**RUN, **{key: len(re.findall(pattern, log)) for key, pattern in LOG.items()},
            **{key: sum(map(int, re.findall(pattern, log))) for key, pattern in SUMS.items()}}


class Figures(Suite):
    def test_of_a_run_with_faults_all_count_the_same(self):
        """Messages that are delivered, put off, refused and returned; clients that are refused or go; a peer that hangs
        up in the middle; smtpd, smtp and qmgr killed between them."""
        def answer(session, line):
            if "later@" in str(line):
                return "450 4.2.0 later"
            return "550 5.1.1 no such user" if "never@" in str(line) else None
        with Peer() as good:
            good.replies["RCPT"] = answer
            mx = Instance({**relay_to(good), "syslog_name": "postfix", "minimal_backoff_time": "4000s",
                           "virtual_mailbox_maps": inline({"u@virtual.test.example": "u/"}),
                           "smtpd_recipient_restrictions": "check_recipient_access " +
                           inline({"bad@virtual.test.example": "554 5.7.1 not you"}) + ", permit"}, dict([UNIX]),
                          start=False)
            self.enterContext(mx)
            api = Api(mx)
            open(mx.path("log", "mail.log"), "a").close()  # it begins at the end of a file that is there
            exporter = Exporter(mx.path("log", "mail.log"))
            self.addCleanup(exporter.stop)
            eventually(lambda: exporter.samples() is not None, "the exporter")
            mx.start()

            def mailed(*recipients):
                for to in recipients:
                    send(mx.port, "u@virtual.test.example", [to], mail(to))

            def restarted(program):
                self.assertGreaterEqual(mx.kill(program), 1)
                eventually(lambda: mx.pids().get(program), f"a new {program}")
            def waits(count):
                """What is killed meanwhile would be tried again."""
                eventually(lambda: [json.loads(line)["queue_name"] for line in mx.tool("penqueue", "-j").stdout
                                    .splitlines()] == ["deferred"] * count, lambda: f"{count} that wait\n{mx.log()}")
            mailed("u@virtual.test.example", "a@rcpt.example", "later@rcpt.example")
            with Client(mx.port) as c:
                c.command("MAIL FROM:<x@example.org>")
                for to in ("nobody@virtual.test.example", "bad@virtual.test.example", "nobody@virtual.test.example"):
                    self.assertEqual(c.command(f"RCPT TO:<{to}>")[0], "5")
                c.command("RCPT TO:<u@virtual.test.example>")  # and goes
            eventually(lambda: len(re.findall("status=(sent|deferred)", mx.log())) == 3, mx.log)
            waits(1)
            restarted("qmgr")
            eventually(lambda: quietly(lambda: api.ask("/readyz")[0] == 200), "qmgr again")
            mailed("b@rcpt.example")
            eventually(lambda: len(re.findall("status=(sent|deferred)", mx.log())) == 4, mx.log)
            restarted("smtp")
            restarted("smtpd")
            eventually(lambda: answers(mx.port), "smtpd again")
            mailed("c@rcpt.example", "later@rcpt.example", "never@rcpt.example", "d@rcpt.example")
            with Client(mx.port) as c:
                c.command("MAIL FROM:<x@example.org>")
                self.assertEqual(c.command("RCPT TO:<nobody@virtual.test.example>")[:3], "550")
                c.quit()
            # Two are delivered here: of the first message, and the notice about "never".
            mailed("u@virtual.test.example")
            eventually(lambda: len(re.findall(r"virtual\[\d+\]: \w+: .*status=sent", mx.log())) == 3, mx.log)

            def settled():
                log, ours, theirs = mx.log(), samples(api.get("/metrics?compat=postfix")), exporter.samples()
                wanted = wanted_by(log)
                at = lambda found: {key: found.get(key, 0) for key in wanted}
                return wanted == at(ours) == at(theirs) and (ours, theirs)
            try:
                ours, theirs = eventually(settled, "the same figures", 60)
            except AssertionError:
                log, ours, theirs = mx.log(), samples(api.get("/metrics?compat=postfix")), exporter.samples()
                wanted = wanted_by(log)
                self.fail("\n".join(f"{key}: {n}, ours {ours.get(key)}, the exporter's {theirs.get(key)}"
                                    for key, n in wanted.items()) + "\n" + log)
            for key in (*LOG, *SUMS):
                self.assertGreater(theirs[key], 0, key)
            self.as_pflogsumm(mx.log(), api.figures())

    def as_pflogsumm(self, log, ours):
        if not shutil.which("pflogsumm"):
            self.skipTest("pflogsumm is not installed")
        text = subprocess.run(["pflogsumm", "--syslog_name=postfix"], input=log, capture_output=True, text=True,
                              check=True).stdout
        totals = {m.group(2): int(m.group(1)) for m in re.finditer(r"^ +(\d+) +([a-z]+)\b", text, re.M)}
        result = lambda word: int(ours[f'penstock_deliveries_total{{result="{word}"}}'])
        attempts = lambda word: sum(int(v) for k, v in ours.items()
                                    if k.startswith("penstock_delivery_attempts_total") and f'result="{word}"' in k)
        rejects = sum(int(v) for k, v in ours.items() if k.startswith("penstock_smtpd_rejects_total"))
        self.assertEqual((totals["delivered"], totals["bounced"], totals["rejected"]),
                         (result("delivered"), result("bounced"), rejects), text)
        # Messages that wait, and how often they were put off.
        self.assertEqual((totals["deferred"], attempts("deferred")), (2, 2), text)
        self.assertEqual(totals["received"], int(ours["penstock_queue_messages_accepted_total"]), text)


if __name__ == "__main__":
    unittest.main()
