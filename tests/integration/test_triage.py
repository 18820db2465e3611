"""Clients at a port of postscreen: the same settings, clients and DNS lists as Debian's Postfix, whose postscreen gives
the same replies and log lines; and what Postfix cannot do: the session that passed goes on."""
import re
import socket
import threading
import time

import dns_lists
import peers
from dns_lists import DnsLists
from harness import *

LISTS = {
    "rbl.example": ("ip4set", ["198.51.100.2 :127.0.0.2:Listed", "198.51.100.3 :127.0.0.10:Dynamic",
                               *(f"198.51.100.{n} :127.0.0.3:Listed" for n in (5, 6, 7))]),
    "wl.example": ("ip4set", ["198.51.100.4 :127.0.5.1:Fine"]),
}
SETTINGS = {
    "myhostname": "mx.test.example",
    "mydestination": "here.example",
    "local_recipient_maps": "",
    "mynetworks": "127.0.0.0/8",
    "smtpd_banner": "$myhostname ESMTP",
    "smtpd_peername_lookup": "no",
    "smtpd_forbid_unauth_pipelining": "no",
    "smtpd_upstream_proxy_protocol": "",
    "postscreen_upstream_proxy_protocol": "haproxy",
    "postscreen_access_list": "permit_mynetworks, inline:{ 198.51.100.90=reject, 198.51.100.91=permit }",
    "postscreen_greet_wait": "2s",
    "postscreen_dnsbl_sites": "rbl.example=127.0.0.[2..9]*3, rbl.example=127.0.0.10*1, wl.example*-4",
    "postscreen_dnsbl_threshold": "3",
    "postscreen_dnsbl_allowlist_threshold": "-2",
    "postscreen_dnsbl_reply_map": "inline:{ rbl.example=our.list }",
    "postscreen_cache_map": "",
}
DEEP = " ".join(f"-o postscreen_{test}_enable=yes" for test in ("pipelining", "non_smtp_command", "bare_newline"))
TESTS = ("greet", "dnsbl", "denylist", "pipelining", "non_smtp_command", "bare_newline")
EARLY, MAIL = b"EHLO early\r\n", b"MAIL FROM:<s@remote.example>\r\n"
RCPT, QUIT = b"RCPT TO:<u@here.example>\r\n", b"QUIT\r\n"
WAIT, END = "wait", "end"
POLITE = [WAIT, b"EHLO client\r\n", WAIT, MAIL, WAIT, RCPT, WAIT, QUIT, END]
# What a client does: its address and what it says; WAIT: until the reply is there, END: until the server hangs up.
CLIENTS = {
    "early": ("198.51.100.20", [EARLY, WAIT, WAIT, MAIL, WAIT, RCPT, WAIT, QUIT, END]),
    "listed": ("198.51.100.2", POLITE),
    "below the threshold": ("198.51.100.3", [WAIT, QUIT, END]),
    "allowed by a list": ("198.51.100.4", [WAIT, QUIT, END]),
    "denied": ("198.51.100.90", POLITE),
    "permitted": ("198.51.100.91", [WAIT, QUIT, END]),
    "permitted network": ("127.0.0.7", [WAIT, QUIT, END]),
    "hung up": ("198.51.100.21", []),
    "pipelining": ("198.51.100.22", [WAIT, b"HELO client\r\n" + MAIL, WAIT, WAIT, RCPT, WAIT, QUIT, END]),
    "web": ("198.51.100.23", [WAIT, b"EHLO client\r\n", WAIT, b"GET / HTTP/1.1\r\n", WAIT, MAIL, WAIT, RCPT, WAIT,
                              QUIT, END]),
    "header": ("198.51.100.24", [WAIT, b"HELO client\r\n", WAIT, b"Subject: x\r\n", WAIT, QUIT, END]),
    "talkative": ("198.51.100.5", [WAIT] + [b"NOOP\r\n", WAIT] * 21 + [END]),
    "long line": ("198.51.100.6", [WAIT, b"x" * 3000 + b"\r\n", END]),
    "every command": ("198.51.100.7", [WAIT] + [step for line in (
        b"HELO", b"RSET", b"RCPT TO:<u@here.example>", b"DATA", b"AUTH PLAIN", b"ETRN here.example", b"MAIL",
        b"EXPN x", b"what", b"HELO client", b"MAIL FROM:<> BODY=8BITMIME", b"MAIL FROM:<a@b>", b"RCPT x", b"DATA",
        b"RCPT TO:<u@here.example> NOTIFY=NEVER", b"DATA now") for step in (line + b"\r\n", WAIT)] + [QUIT, END]),
    "bare newline": ("198.51.100.25", [WAIT, b"HELO client\n", WAIT, MAIL, WAIT, RCPT, WAIT, QUIT, END]),
}
# What our own smtpd says, where Postfix has no session: ignored by the tests, refused by smtpd_forbidden_commands.
BY_SMTPD = {("ignore", name) for name in ("web", "header", "talkative", "long line", "every command")}
BY_SMTPD.add(("enforce", "early"))


def speak(port, address, script):
    """Poses as a client behind the proxy; returns the replies, without the lines of EHLO."""
    said = []
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(f"PROXY TCP4 {address} 192.0.2.1 4711 25\r\n".encode())
        with connection.makefile("rb") as lines:
            for step in script:
                try:
                    if step == WAIT:
                        line = b"-" * 4
                        while line[3:4] == b"-":
                            line = lines.readline()
                            said.append(line.decode().rstrip())
                    elif step == END:
                        said.append(lines.read().decode())
                    else:
                        connection.sendall(step)
                except TimeoutError:
                    said.append("nothing in time")
                    break
                except (ConnectionResetError, BrokenPipeError):
                    said.append("reset")
                if said and said[-1] in ("", "reset"):
                    break
    # Which keywords EHLO has is no business of the tests; a reset and an orderly end are the same to a dropped client.
    said = [line for line in said if not re.match(r"250[- ][A-Z0-9]+( |$)", line) or line.startswith("250 2")]
    return [re.sub("^reset$", "", line) for line in said]


def lines_about(log, address):
    """What postscreen and dnsblog say of a client, without ports and times."""
    found = []
    for line in log.splitlines():
        match = re.search(r"/(postscreen|dnsblog)\[\d+\]: (.*)", line)
        if match and re.search(rf"(\[|addr ){re.escape(address)}\b", match[2]):
            text = re.sub(r"\]:\d+", "]:PORT", match[2])
            found.append(f"{match[1]}: " + re.sub(r"after [\d.]+ from", "after TIME from", text))
    return found


def services(actions, ports):
    """Lines of master.cf: a port of postscreen for each action."""
    lines = {}
    for action in actions:
        own = " ".join(f"-o postscreen_{test}_action={action}" for test in TESTS)
        lines[f"127.0.0.1:{ports[action]}"] = f"inet n - n - 1 postscreen {own} {DEEP}"
    lines["smtpd"] = "pass - - n - - smtpd"
    lines["dnsblog"] = "unix - - n - 0 dnsblog"
    return lines


class BesidePostfix(Suite):
    def setUp(self):
        reason = dns_lists.unavailable() or peers.unavailable()
        if reason:
            self.skipTest(reason)

    def run_clients(self, ports, log):
        """action, client -> replies and log lines. The clients come side by side."""
        found, threads = {}, []

        def run(action, name):
            address, script = CLIENTS[name]
            found[action, name] = speak(ports[action], address, script)

        for action in ports:  # a client's lines are told apart by its address, so one port after the other
            before = len(log())
            threads = [threading.Thread(target=run, args=(action, name)) for name in CLIENTS]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for name, (address, _) in CLIENTS.items():
                def whole():
                    last = lines_about(log()[before:], address)
                    return last if re.search("DISCONNECT|PASS|LISTED|DNSBL|PREGREET", last[-1] if last else "") else None
                lines = eventually(whole, lambda: f"{name}: {log()[before:]}")
                found[action, name] = (found[action, name], lines)
        return found

    def test_same_clients_same_replies_and_log(self):
        actions = ("ignore", "enforce", "drop")
        theirs_at = {action: free_port() for action in actions}
        ours_at = {action: free_port() for action in actions}
        with DnsLists(LISTS) as dns:
            postfix = peers.Postfix(
                theirs_at["drop"], settings="".join(f"{name} = {value}\n" for name, value in SETTINGS.items()),
                services="\n".join(f"{name} {line}" for name, line in services(actions, theirs_at).items()))
            postfix.write("etc/resolv.conf", f"nameserver {dns.address}\n")
            postfix.write("etc/nsswitch.conf", "hosts: files dns\npasswd: files\ngroup: files\n")
            with postfix, Instance(dns.settings(**SETTINGS), services(actions, ours_at)) as mx:
                theirs = self.run_clients(theirs_at, postfix.log)
                ours = self.run_clients(ours_at, mx.log)
                for (action, name), (replies, lines) in theirs.items():
                    if (action, name) in BY_SMTPD:
                        continue
                    if action == "ignore" or name == "below the threshold":
                        # Here Postfix ends the session, and asks the client to come again: ours goes on.
                        replies = [re.sub("^450 4.3.2 Service.*", "250 2.1.5 Ok", line) for line in replies]
                        lines = [line for line in lines if "HANGUP" in lines[-2] or
                                 not re.search("RCPT from .*: 450 4.3.2|DISCONNECT", line)]
                    with self.subTest(action=action, client=name):
                        self.assertEqual(ours[action, name], (replies, lines))
                # Postfix leaves the 220 out. The client is told what SMTP demands.
                self.assertEqual(ours["enforce", "early"][0][:3],
                                 ["220-mx.test.example ESMTP", "220 mx.test.example ESMTP", "250-mx.test.example"])
                self.assertIn("550 5.5.1 Protocol error", ours["enforce", "early"][0])


if __name__ == "__main__":
    unittest.main()
