"""Debian's policy services, given to Penstock and to Postfix by the same lines of main.cf and master.cf: policyd-spf by
spawn(8), postfwd and postgrey by TCP. The same replies, the same fields in the mail, the same words in the log.

Each system has servers of its own, because postgrey remembers. What passes goes on to a scripted server.
"""
import os
import re
import shutil
import unittest

import peers
from client import Client
from dns import Dns
from instance import Instance, missing
from peer import Peer
from policy_server import Postfwd, Postgrey
from test_policy import POLICYD_SPF, SPF, SPF_SETTINGS
from waiting import eventually, free_port

RECORDS = {("fail.example", "TXT"): ["v=spf1 ip4:192.0.2.1 -all"],
           ("pass.example", "TXT"): ["v=spf1 ip4:198.51.100.9 -all"],
           ("soft.example", "TXT"): ["v=spf1 ip4:192.0.2.1 ~all"],
           ("broken.example", "TXT"): ["v=spf1 ipv5:1"],
           ("far.example", "A"): ["198.51.100.9"]}
RULES = {"reject": "REJECT go away", "defer": "DEFER come again", "permit": "DEFER_IF_PERMIT later",
         "unless": "DEFER_IF_REJECT later", "code": "550 5.7.23 no", "ok": "OK", "warn": "WARN look",
         "hold": "HOLD why", "discard": "DISCARD gone", "prepend": "PREPEND X-Postfwd: seen",
         "redirect": "REDIRECT new@relay.example",
         "filter": "FILTER smtp:[127.0.0.1]:9", "class": "reject_unauth_destination", "none": "dunno"}
# name: sender, recipient, and whether the mail reaches the next hop
CASES = {**{f"postfwd {n}": ("s@pass.example", f"{n}@relay.example",
                             n in ("ok", "warn", "prepend", "redirect", "class", "none", "unless"))
            for n in RULES},
         "SPF fail": ("s@fail.example", "none@relay.example", False),
         "SPF softfail": ("s@soft.example", "none@relay.example", True),
         "SPF permanent error": ("s@broken.example", "none@relay.example", True),
         "SPF none": ("s@other.example", "none@relay.example", True),
         "SPF of the HELO": ("", "none@relay.example", True),
         "not ours": ("s@pass.example", "ok@elsewhere.example", False),
         # policyd-spf names its result once for a message, with the first recipient, whatever becomes of that.
         "behind a refused one": ("t@pass.example", "reject@relay.example ok@relay.example none@relay.example", True)}
WORDS = re.compile(r"(?m)^.*?smtpd\[\d+\]: ((?:NOQUEUE|[0-9A-Za-z]{6,}): "
                   r"(?:reject|reject_warning|warn|hold|discard|filter|redirect|prepend|permit): .*)$")


def spf_script(folder, seen_as, port):
    """policyd-spf with its modules and settings below the folder, which the program sees under the other name."""
    shutil.copytree(os.path.join(SPF, "lib/python3/dist-packages"), os.path.join(folder, "modules"))
    shutil.copy(os.path.join(SPF, "bin/policyd-spf"), os.path.join(folder, "program"))
    for name, text in (("settings", SPF_SETTINGS), ("script.py", POLICYD_SPF % {
            "modules": f"{seen_as}/modules", "port": port, "program": f"{seen_as}/program",
            "settings": f"{seen_as}/settings"})):
        with open(os.path.join(folder, name), "w") as out:
            out.write(text)
    return f"{seen_as}/script.py"


def plain(text):
    """Without what differs by nature."""
    text = re.sub(r"queued as \S+", "queued as ID", text)
    text = re.sub(r"(Greylisted|delayed) [0-9]+", r"\1 N", text)
    return re.sub(r"(?i)\b(by postgrey)\S* at \S+; .*", r"\1 at HOST; DATE", text)


def fields_of(content):
    """Each once: Postfix repeats a field for each recipient that a server was asked about."""
    header = content.partition(b"\r\n\r\n")[0].decode()
    return list(dict.fromkeys(re.sub(r"\s+", " ", plain(field)).rstrip()
                              for field in re.split(r"\r\n(?![ \t])", header)
                              if not field.lower().startswith(("received:", "date:", "message-id:"))))


class System:
    """One of the two, with its servers around it."""

    def __init__(self, kind, dns, sink):
        self.kind, self.sink = kind, sink
        self.servers = [Postgrey(free_port()), Postfwd(free_port(), "".join(
            f"id=R{n}; recipient=={n}@relay.example; action={action}\n" for n, action in RULES.items() if n != "none"))]
        greylist, rules = (server.port for server in self.servers)
        self.settings = {
            "myhostname": "mx.test.example", "relay_domains": "relay.example", "relayhost": f"[127.0.0.1]:{sink.port}",
            "smtpd_peername_lookup": "no", "smtpd_authorized_xclient_hosts": "127.0.0.1", "local_recipient_maps": "",
            "smtpd_error_sleep_time": "0", "smtpd_hard_error_limit": "1000", "smtpd_relay_restrictions": "",
            "smtpd_recipient_restrictions": "reject_unauth_destination, check_policy_service unix:private/policyd-spf, "
            f"check_policy_service {{ inet:127.0.0.1:{rules}, timeout=20s, default_action=DUNNO }}, "
            f"check_policy_service inet:127.0.0.1:{greylist}",
            "policyd-spf_time_limit": "3600"}
        line = "policyd-spf unix - n n - 0 spawn user=nobody argv=/usr/bin/python3 {}"
        if kind == "postfix":
            port = free_port()
            self.server = peers.Postfix(port, settings="".join(f"{k} = {v}\n" for k, v in self.settings.items()))
            folder = os.path.join(self.server.dir, "lib/trust/spf")
            os.makedirs(folder)
            script = spf_script(folder, "/var/lib/spf", dns.port)
            self.server.services = f"127.0.0.1:{port} inet n - n - - smtpd\n" + line.format(script)
        else:
            self.server = Instance(self.settings, start=False)
            folder = os.path.join(self.server.root, "spf")
            os.makedirs(folder)
            script = spf_script(folder, folder, dns.port)
            self.server.set_services({"policyd-spf": line.format(script).split(" ", 1)[1]})
            self.server.start()

    def __enter__(self):
        self.entered = []
        for one in (*self.servers, self.server):
            self.entered.append(one.__enter__())
        return self

    def __exit__(self, *exc):
        for one in reversed(self.entered):
            one.__exit__(*exc)

    def begin(self, sender):
        client = Client(self.server.port, ehlo=False)
        client.expect("XCLIENT NAME=far.example ADDR=198.51.100.9 PORT=2525", "220")
        client.expect("EHLO far.example", "250")
        client.expect(f"MAIL FROM:<{sender}>", "250")
        return client

    def passes(self, sender, to):
        """Comes back with another session, as a client does."""
        with self.begin(sender) as client:
            return client.command(f"RCPT TO:<{to}>").startswith("250")

    def session(self, sender, recipients, arrives):
        """The replies, and what arrived at the next hop."""
        before, said = len(self.sink.messages), []
        for to in recipients.split():
            with self.begin(sender) as client:
                said.append(client.command(f"RCPT TO:<{to}>"))
            if "Greylisted" in said[-1]:
                eventually(lambda: self.passes(sender, to), f"{to} passes")
        # Now in one transaction.
        with self.begin(sender) as client:
            said += [client.command(f"RCPT TO:<{to}>") for to in recipients.split()]
            if any(reply.startswith("250") for reply in said[len(said) // 2:]):
                client.expect("DATA", "354")
                client.raw(b"From: s@pass.example\r\nTo: x@relay.example\r\nSubject: s\r\n\r\nbody\r\n.\r\n")
                said.append(client.reply())
            client.expect("QUIT", "221")
        arrived = None
        if arrives and said[-1].startswith("250"):
            eventually(lambda: len(self.sink.messages) > before, f"{recipients} by {self.kind}: {said}")
            came = self.sink.messages[before]
            arrived = (came.sender, sorted(came.recipients), fields_of(came.content))
        return [plain(one) for one in said], arrived

    def words(self):
        """Lines of the log about decisions; of tries that were greylisted, one stands for all."""
        lines = [re.sub(r"^\S+: ", "ID: " if not line.startswith("NOQUEUE") else "NOQUEUE: ", plain(line))
                 for line in WORDS.findall(self.server.log())]
        return [line for i, line in enumerate(lines) if line not in lines[:i]]


class PolicyServices(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        if reason := missing() or peers.unavailable():
            raise unittest.SkipTest(reason)

    def seen(self, kind):
        with Dns(RECORDS) as dns, Peer() as sink, System(kind, dns, sink) as system:
            found = {name: system.session(*case) for name, case in CASES.items()}
            return found, system.words()

    def test_the_same_lines_say_and_log_the_same(self):
        ours, our_words = self.seen("penstock")
        theirs, their_words = self.seen("postfix")
        for name in CASES:
            with self.subTest(case=name):
                self.assertEqual(ours[name], theirs[name])
        self.assertEqual(our_words, their_words)
        self.assertRegex(ours["SPF fail"][0][0], r"^550 5\.7\.23 .*SPF")
        self.assertRegex(ours["postfwd none"][0][0], r"^450 4\.2\.0 .*Greylisted")
        self.assertTrue(any(f.startswith("Received-SPF: Pass") for f in ours["behind a refused one"][1][2]), ours)
        self.assertTrue(any(f.startswith("Received-SPF: Pass") for f in ours["postfwd ok"][1][2]), ours)
        self.assertTrue(any("hold" in line for line in our_words) and any("warn" in line for line in our_words))


if __name__ == "__main__":
    unittest.main()
