"""Clients at a port of postscreen: the same settings, clients and DNS lists as Debian's Postfix, whose postscreen gives
the same replies and log lines; and what Postfix cannot do: the session that passed goes on."""
import os
import re
import shutil
import socket
import threading

import dns_lists
import peers
from dns_lists import DnsLists
from harness import *
from redis_server import PROGRAM, RedisServer

LISTS = {
    "rbl.example": ("ip4set", ["198.51.100.2 :127.0.0.2:Listed", "198.51.100.3 :127.0.0.10:Dynamic",
                               *(f"198.51.100.{n} :127.0.0.3:Listed" for n in (5, 6, 7, 8))]),
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
        b"HELO", b"EHLO", b"RSET", b"RCPT TO:<u@here.example>", b"AUTH PLAIN", b"ETRN here.example", b"MAIL",
        b"EXPN x", b"what", b"HELO client", b"MAIL FROM:<> BODY=8BITMIME", b"MAIL FROM:<a@b>", b"RCPT x",
        b"RCPT TO:<u@here.example> NOTIFY=NEVER", b"NOOP", b"DATA") for step in (line + b"\r\n", WAIT)] + [END]),
    "no mail": ("198.51.100.8", [WAIT, b"EHLO client\r\n", WAIT, b"DATA\r\n", WAIT, END]),
    "bare newline": ("198.51.100.25", [WAIT, b"HELO client\n", WAIT, MAIL, WAIT, RCPT, WAIT, QUIT, END]),
}
# What our own smtpd says, where Postfix has no session: ignored by the tests, refused by smtpd_forbidden_commands.
BY_SMTPD = {("ignore", name) for name in ("web", "header", "talkative", "long line", "every command", "no mail")}
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
        if action == "enforce":
            own += " -o respectful_logging=no"
        lines[f"127.0.0.1:{ports[action]}"] = f"inet n - n - 1 postscreen {own} {DEEP}"
    lines["smtpd"] = "pass - - n - - smtpd"
    lines["dnsblog"] = "unix - - n - 0 dnsblog"
    return lines


class BesidePostfix(Suite):
    maxDiff = None

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
                end = rf"(DISCONNECT |disconnect from \S*)\[{re.escape(address)}\]"
                eventually(lambda: re.search(end, log()[before:]), lambda: f"the end of {name} in {log()[before:]}")
                found[action, name] = (found[action, name], lines_about(log()[before:], address))
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


class Cache(Suite):
    """The clients come from networks that are not ours, by the proxy's word."""

    def start(self, **more):
        self.screened = free_port()
        settings = {"postscreen_upstream_proxy_protocol": "haproxy", "postscreen_greet_wait": "1s",
                    "postscreen_greet_action": "drop", "mydestination": "here.example",
                    "virtual_mailbox_maps": "inline:{ { u@virtual.test.example = u/ } }", **more}
        lines = {f"127.0.0.1:{self.screened}": "inet n - n - 1 postscreen", "smtpd": "pass - - n - - smtpd"}
        return Instance(settings, lines)

    def client(self, address):
        """Connects, and takes the greeting; returns the connection, its lines, and the greeting."""
        connection = socket.create_connection(("127.0.0.1", self.screened), timeout=60)
        connection.sendall(f"PROXY TCP4 {address} 192.0.2.1 4711 25\r\n".encode())
        lines, greeting = connection.makefile("rb"), b""
        while not greeting.splitlines()[-1:] or greeting.splitlines()[-1][3:4] != b" ":
            part = lines.readline()
            if not part:
                break
            greeting += part
        return connection, lines, greeting.decode()

    def wait_kept(self, mx, count, besides=()):
        """Waits until a process at the screened port, none of those `besides`, has that many clients in its cache."""
        def asked():
            mx.ask_status("smtpd")
            found = re.findall(rf"smtpd\[(\d+)\]: status: tests of clients: .*; {count} are kept", mx.log()[before:])
            return any(int(pid) not in besides for pid in found)
        before = len(mx.log())
        eventually(asked, lambda: f"{count} clients are known: {mx.log()[before:]}")

    def test_who_passed_is_served_in_the_same_session_and_known_after_restart_and_reload(self):
        with self.start() as mx:
            connection, lines, greeting = self.client("198.51.100.30")
            self.assertRegex(greeting, "^220-.*\r\n220 .*\r\n$")
            for line in (b"HELO client.example", b"MAIL FROM:<a@remote.example>", b"RCPT TO:<u@virtual.test.example>"):
                connection.sendall(line + b"\r\n")
                self.assertTrue(lines.readline().startswith(b"250"), line)
            connection.sendall(b"DATA\r\n")
            self.assertTrue(lines.readline().startswith(b"354"))
            connection.sendall(b"Subject: after the tests\r\n\r\nbody\r\n.\r\nQUIT\r\n")
            self.assertTrue(lines.readline().startswith(b"250"))
            connection.close()
            Maildir(os.path.join(mx.virtual_base, "u")).wait(1)
            mx.wait_log(r"penstock/postscreen\[\d+\]: PASS NEW \[198\.51\.100\.30\]:4711")
            for again in (lambda: (mx.stop(), mx.start()), mx.reload):
                self.wait_kept(mx, 1)
                former = mx.pids()["smtpd"]
                again()
                self.wait_kept(mx, 1, besides=former)
                before = len(mx.log())
                connection, lines, greeting = self.client("198.51.100.30")
                connection.close()
                self.assertRegex(greeting, "^220 .*\r\n$")
                self.assertRegex(mx.log()[before:], r"PASS OLD \[198\.51\.100\.30\]:4711")

    @unittest.skipUnless(PROGRAM, "redis-server is not installed (scripts/install-dependencies --runtime-peers)")
    def test_hosts_of_a_cluster_share_who_passed(self):
        with RedisServer() as redis, self.start(**redis.settings()) as one:
            one.wait_log("clients that passed the tests: shared through")
            self.client("198.51.100.34")[0].close()
            name = "penstock:triage:198.51.100.34"
            eventually(lambda: redis.words("EXISTS", name) == 1, "the pass is shared")
            self.assertGreater(redis.words("TTL", name), 3600)
            with self.start(**redis.settings()) as two:
                two.wait_log("clients that passed the tests: shared through")
                redis.words("SET", "penstock:triage:198.51.100.35", "garbage")
                for address, first in (("198.51.100.34", "220 "), ("198.51.100.35", "220-"), ("198.51.100.36", "220-")):
                    connection, _, greeting = self.client(address)
                    connection.close()
                    self.assertEqual(greeting[:4], first, address)
                redis.kill()
                two.wait_log("clients that passed the tests: not shared for now")
                connection, _, greeting = self.client("198.51.100.34")  # learnt here, too
                connection.close()
                self.assertEqual(greeting[:4], "220 ")

    def test_old_clients_are_taken_out_of_the_cache(self):
        with self.start(postscreen_greet_ttl="1s", postscreen_cache_retention_time="1s",
                        postscreen_cache_cleanup_interval="1s") as mx:
            self.client("198.51.100.31")[0].close()
            mx.wait_log(r"cache postscreen_cache_map full cleanup: retained=0 dropped=1 entries")
            mx.stop()
            mx.start()
            self.wait_kept(mx, 0)

    def test_a_cache_that_is_no_cache_costs_a_warning(self):
        with self.start(postscreen_cache_map="btree:$data_directory/file") as mx:
            mx.stop()
            place = mx.path("data", "file")
            shutil.rmtree(place)
            with open(place, "w") as file:
                file.write("not a database")
            mx.start()
            mx.wait_log("postscreen_cache_map: .*clients that pass are known to this process only")
            self.client("198.51.100.32")[0].close()
            self.wait_kept(mx, 1)

    def test_a_known_client_is_served_beside_many_that_are_tested(self):
        zombies = 400
        with self.start(postscreen_pre_queue_limit="1000", postscreen_greet_wait="60s",
                        postscreen_access_list="inline:{ 198.51.100.33=permit }") as mx:
            waiting = []
            for i in range(zombies):
                connection = socket.create_connection(("127.0.0.1", self.screened), timeout=60)
                self.addCleanup(connection.close)
                connection.sendall(f"PROXY TCP4 203.0.113.{i % 256} 192.0.2.1 4711 25\r\n".encode())
                waiting.append(connection)
            for connection in waiting:  # all of them are under test
                self.assertTrue(connection.recv(1000).startswith(b"220-"))
            connection, _, greeting = self.client("198.51.100.33")
            connection.close()
            self.assertRegex(greeting, "^220 .*\r\n$")
            for connection in waiting:
                connection.sendall(b"EHLO zombie\r\n")
            for connection in waiting:
                self.assertEqual(connection.recv(1000), b"521 5.5.1 Protocol error\r\n")
            self.assertNotIn("PASS NEW", mx.log())


if __name__ == "__main__":
    unittest.main()
