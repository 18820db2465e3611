"""Prometheus beside penapi: promtool reads what /metrics says, and the server scrapes it and answers questions.

Debian's package is unpacked, not installed: PEN_PEERS (default var/peers) holds it. What the machine cannot have, for
it cannot reach an archive, skips the tests with the reason."""
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration"))

from harness import *  # noqa: E402
from test_penapi import UNIX, Api, nobody, port_of  # noqa: E402

PEERS = os.environ.get("PEN_PEERS", os.path.join(TOP, "var", "peers"))
ROOT = os.path.join(PEERS, "prometheus")


def setUpModule():
    if os.path.exists(os.path.join(ROOT, "usr/bin/promtool")):
        return
    done = subprocess.run([os.path.join(TOP, "scripts", "unpack-peer"), ROOT, "prometheus"], capture_output=True,
                          text=True)
    if done.returncode != 0:
        raise unittest.SkipTest("Debian's prometheus cannot be had: " + (done.stderr or done.stdout)[-300:])


SHARE = os.path.join(TOP, "share")


def dashboard():
    """The expressions of the dashboard for Grafana, with its variables as Grafana would fill them in."""
    with open(os.path.join(SHARE, "grafana", "penstock.json")) as text:
        panels = json.load(text)["panels"]
    return [target["expr"].replace("$instance", ".*").replace("$__rate_interval", "1m")
            for panel in panels for target in panel.get("targets", [])]


def rules():
    """The expressions of the alert rules."""
    with open(os.path.join(SHARE, "prometheus", "penstock.rules.yml")) as text:
        lines = re.sub(r"expr: >-\n((?: {10}.*\n)+)", lambda m: "expr: " + " ".join(m[1].split()) + "\n", text.read())
    return re.findall(r"^ +expr: (.*)$", lines, re.M)


class Prometheus(Suite):
    def test_the_alerts_come_when_they_should(self):
        for command, name in (("check", "penstock.rules.yml"), ("test", "penstock.test.yml")):
            done = subprocess.run([os.path.join(ROOT, "usr/bin/promtool"), command, "rules", name],
                                  cwd=os.path.join(SHARE, "prometheus"), capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_promtool_finds_no_fault(self):
        with Instance({"default_transport": nobody()}, dict([UNIX])) as mx:
            send(mx.port, "a@local.test.example", ["b@other.example"], mail())
            api = Api(mx)
            eventually(lambda: "penstock_queue_messages" in api.get("/metrics"), "figures of the queue")
            for path in ("/metrics", "/metrics?compat=postfix"):
                done = subprocess.run([os.path.join(ROOT, "usr/bin/promtool"), "check", "metrics"],
                                      input=api.get(path), capture_output=True, text=True, timeout=120)
                self.assertEqual((path, done.returncode, done.stderr), (path, 0, ""))

    def test_the_server_scrapes_and_answers(self):
        port, own = free_port(), free_port()
        with Instance({"default_transport": nobody()}, dict([port_of(port)])) as mx, \
                tempfile.TemporaryDirectory() as directory:
            for n in range(3):
                send(mx.port, "a@local.test.example", [f"b{n}@other.example"], mail())
            config = os.path.join(directory, "prometheus.yml")
            with open(config, "w") as out:
                out.write("global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: mail\n  static_configs:\n"
                          f"  - targets: ['127.0.0.1:{port}']\n")
            server = subprocess.Popen(
                [os.path.join(ROOT, "usr/bin/prometheus"), "--config.file", config, "--storage.tsdb.path",
                 os.path.join(directory, "data"), "--web.listen-address", f"127.0.0.1:{own}"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(server.wait)
            self.addCleanup(server.kill)

            def value(query):
                try:
                    url = f"http://127.0.0.1:{own}/api/v1/query?query={urllib.parse.quote(query)}"
                    with urllib.request.urlopen(url, timeout=30) as answer:
                        found = json.load(answer)["data"]["result"]
                except OSError:
                    return None
                return float(found[0]["value"][1]) if found else None
            eventually(lambda: value("penstock_smtpd_messages_total") == 3, "three messages in Prometheus", 60)
            eventually(lambda: value('penstock_queue_messages{state="deferred"}') == 3, "three that wait", 60)
            self.assertEqual(value("up"), 1)
            # Names and labels of the dashboard and of the rules are those that penapi has.
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                families = set(re.findall("^# TYPE (\\w+)", answer.read().decode(), re.M))
            self.assertEqual((len(rules()), len(dashboard())), (12, 26))
            for expression in rules() + dashboard():
                names = {re.sub("_bucket$", "", n) for n in re.findall(r"\bpenstock_\w+", expression)}
                self.assertLessEqual(names, families | {"penstock_class_sessions"}, expression)
                query = urllib.parse.quote(expression)
                with urllib.request.urlopen(f"http://127.0.0.1:{own}/api/v1/query?query={query}", timeout=30) as answer:
                    self.assertEqual(json.load(answer)["status"], "success", expression)
            self.assertGreater(value("histogram_quantile(0.9, penstock_queue_sync_seconds_bucket)"), 0)


if __name__ == "__main__":
    unittest.main()
