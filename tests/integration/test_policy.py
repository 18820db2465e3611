"""Policy services: real servers, servers that die or hang, the same sessions beside Postfix; spawn; ETRN."""
import os
import pwd
import re
import socket

import peers
from certificates import Authority
from harness import *
from instance import a_group, mail_owner, queue_owner
from policy_server import Killable, PolicyServer, Postfwd, Postgrey
from test_tls_server import TlsClient, client_context

TO = "virtual.test.example"
LIST = "reject_unauth_destination, check_policy_service "
SPF = os.path.join(peers.ROOTS, "policy", "usr")
# policyd-spf as Debian has it, with the test's DNS server in place of the machine's.
POLICYD_SPF = """import sys
sys.path.insert(0, "%(modules)s")
import DNS
DNS.DiscoverNameServers = lambda: None
DNS.defaults.update(server=["127.0.0.1"], port=%(port)d)
sys.argv = ["policyd-spf", "%(settings)s"]
exec(compile(open("%(program)s").read(), "policyd-spf", "exec"))
"""
SPF_SETTINGS = """debugLevel = 1
TestOnly = 1
HELO_reject = Fail
Mail_From_reject = Fail
PermError_reject = False
TempError_Defer = False
skip_addresses = 127.0.0.0/8
"""


class Policed(Suite):
    def instance(self, service, settings=None, services=None):
        boxes = {f"{n}@{TO}": f"{n}/" for n in ("ada", "bob", "eve")}
        return Instance(
            {
                "virtual_mailbox_maps": inline(boxes),
                "smtpd_recipient_restrictions": LIST + service,
                "smtpd_authorized_xclient_hosts": "127.0.0.1",
                "smtpd_error_sleep_time": "0",
                "smtpd_hard_error_limit": "1000",  # a test asks until the server has changed its mind
                **(settings or {}),
            },
            services,
        )

    def stranger(self, mx, address="198.51.100.9", name="far.example"):
        client = Client(mx.port, ehlo=False)
        self.addCleanup(client.close)
        client.expect(f"XCLIENT NAME={name} ADDR={address} PORT=2525", "220")
        client.expect(f"EHLO {name}", "250")
        return client

    def rcpt(self, client, to=f"ada@{TO}", sender="s@far.example"):
        client.expect("RSET", "250")
        client.expect(f"MAIL FROM:<{sender}>", "250")
        return client.command(f"RCPT TO:<{to}>")


class RealServers(Policed):
    @unittest.skipIf(peers.unavailable(), peers.unavailable())
    def test_postgrey_defers_the_first_try_and_marks_the_message_of_a_later_one(self):
        with Postgrey(free_port()) as greylist, self.instance(f"inet:127.0.0.1:{greylist.port}") as mx:
            client = self.stranger(mx)
            self.assertEqual(self.rcpt(client), f"450 4.2.0 <ada@{TO}>: Recipient address rejected: "
                                                "Greylisted, come again")
            eventually(lambda: self.rcpt(client).startswith("250"), "the triplet passes")
            client.expect("DATA", "354")
            client.raw(mail() + b".\r\n")
            self.assertTrue(client.reply().startswith("250"))
            message = mx.virtual_box("ada").wait()[0]
            self.assertRegex(message, rb"X-Greylist: delayed [0-9]+ seconds by postgrey")

    @unittest.skipIf(peers.unavailable(), peers.unavailable())
    def test_each_action_of_postfwd_rules(self):
        actions = {
            "reject": ("REJECT go away", "554 5.7.1 <{}>: Recipient address rejected: go away"),
            "defer": ("DEFER come again", "450 4.7.1 <{}>: Recipient address rejected: come again"),
            "permit": ("DEFER_IF_PERMIT later", "450 4.7.1 <{}>: Recipient address rejected: later"),
            "code": ("550 5.7.23 no", "550 5.7.23 <{}>: Recipient address rejected: no"),
            "ok": ("OK", "250 2.1.5 Ok"),
            "warn": ("WARN look", "250 2.1.5 Ok"),
            "hold": ("HOLD", "250 2.1.5 Ok"),
            "class": ("reject_unauth_destination", "250 2.1.5 Ok"),
            "other": ("dunno", "250 2.1.5 Ok"),
        }
        rules = "".join(f"id=R{n}; recipient=={n}@{TO}; action={a}\n" for n, (a, _) in actions.items() if n != "other")
        boxes = inline({f"{n}@{TO}": f"{n}/" for n in actions})
        with Postfwd(free_port(), rules) as server, self.instance(
            f"inet:127.0.0.1:{server.port}", {"virtual_mailbox_maps": boxes}
        ) as mx:
            client = self.stranger(mx)
            for name, (_, reply) in actions.items():
                with self.subTest(name):
                    self.assertEqual(self.rcpt(client, f"{name}@{TO}"), reply.format(f"{name}@{TO}"))
            mx.wait_log(r"warn: RCPT from far\.example.*<warn@")
            mx.wait_log(r"hold: RCPT from far\.example.*<hold@")

    @unittest.skipUnless(os.path.exists(SPF) and os.path.exists("/usr/bin/python3"),
                         "needs /usr/bin/python3 and scripts/unpack-peer var/peers/policy …")
    def test_policyd_spf_is_run_by_spawn_and_asks_dns(self):
        records = {("fail.example", "TXT"): ["v=spf1 ip4:192.0.2.1 -all"],
                   ("pass.example", "TXT"): ["v=spf1 ip4:198.51.100.9 -all"],
                   ("far.example", "A"): ["198.51.100.9"]}
        folder = self.folder()

        def write(name, text):
            with open(os.path.join(folder, name), "w") as out:
                out.write(text)
            return out.name

        with Dns(records) as dns:
            modules = os.path.join(SPF, "lib/python3/dist-packages")
            script = write("policyd-spf.py", POLICYD_SPF % {
                "modules": modules, "port": dns.port, "program": os.path.join(SPF, "bin/policyd-spf"),
                "settings": write("policyd-spf.conf", SPF_SETTINGS)})
            service = f"unix - n n - 0 spawn user=nobody argv=/usr/bin/python3 {script}"
            with self.instance("unix:private/policyd-spf", {"policyd-spf_time_limit": "60s"},
                               {"policyd-spf": service}) as mx:
                client = self.stranger(mx)
                self.assertRegex(self.rcpt(client, sender="a@fail.example"), r"^550 5\.7\.23 <ada@.*SPF")
                self.assertEqual(self.rcpt(client, sender="a@pass.example"), "250 2.1.5 Ok")
                client.expect(f"RCPT TO:<bob@{TO}>", "250")
                client.expect("DATA", "354")
                client.raw(mail() + b".\r\n")
                self.assertTrue(client.reply().startswith("250"))
                message = mx.virtual_box("bob").wait()[0]
                self.assertEqual(message.count(b"Received-SPF: Pass"), 1, message)


class Trouble(Policed):
    def test_a_server_that_is_killed_with_a_request_is_asked_again_when_it_is_back(self):
        port = free_port()
        dying = Killable(port, "hang")
        with self.instance(f"{{ inet:127.0.0.1:{port}, try_limit=100, retry_delay=200ms }}") as mx:
            client = self.stranger(mx)
            client.expect("MAIL FROM:<s@far.example>", "250")
            client.raw(f"RCPT TO:<ada@{TO}>\r\n".encode())
            dying.wait_asked()
            dying.kill()
            with PolicyServer(port=port) as server:
                self.assertEqual(client.reply(), "250 2.1.5 Ok")
                self.assertEqual(len(server.asked), 1)

    def test_a_server_that_is_not_there_costs_one_delay_and_not_one_for_each_session(self):
        with self.instance(f"inet:127.0.0.1:{free_port()}") as mx:
            clients = [self.stranger(mx) for _ in range(20)]
            for client in clients:
                client.raw(f"MAIL FROM:<s@far.example>\r\nRCPT TO:<ada@{TO}>\r\n".encode())
            for client in clients:
                self.assertTrue(client.reply().startswith("250"))
                self.assertEqual(client.reply(), f"451 4.3.5 <ada@{TO}>: Recipient address rejected: "
                                                 "Server configuration problem")
            lines = re.findall("problem talking to server", mx.log())
            self.assertLess(len(lines), 20)
            mx.wait_log("warning: problem talking to server .*Connection refused")

    def test_a_server_that_never_answers_delays_nobody_but_who_asks_it_first(self):
        with PolicyServer(otherwise="hang") as server, self.instance(
            f"{{ inet:127.0.0.1:{server.port}, timeout=1s, default_action=DUNNO }}"
        ) as mx:
            first, second = self.stranger(mx), self.stranger(mx)
            self.assertEqual(self.rcpt(first), "250 2.1.5 Ok")
            mx.wait_log("problem talking to server .*timed out")
            asked = len(server.asked)
            self.assertEqual(self.rcpt(second), "250 2.1.5 Ok")
            self.assertLessEqual(len(server.asked), asked + 2)

    def test_the_recipients_of_a_message_have_one_instance_and_one_connection(self):
        with PolicyServer() as server, self.instance(f"inet:127.0.0.1:{server.port}", {
            "smtpd_end_of_data_restrictions": f"check_policy_service inet:127.0.0.1:{server.port}"
        }) as mx:
            client = self.stranger(mx)
            client.raw(f"MAIL FROM:<s@far.example>\r\nRCPT TO:<ada@{TO}>\r\nRCPT TO:<bob@{TO}>\r\nDATA\r\n".encode())
            self.assertEqual([client.reply()[:3] for _ in range(4)], ["250", "250", "250", "354"])
            content = mail()
            client.raw(content + b".\r\n")
            self.assertTrue(client.reply().startswith("250"))
            self.assertEqual([a["recipient"] for a in server.asked], [f"ada@{TO}", f"bob@{TO}", ""])
            self.assertEqual(len({a["instance"] for a in server.asked}), 1)
            self.assertEqual(server.asked[2]["recipient_count"], "2")
            self.assertEqual(server.asked[2]["size"], str(len(content)))
            self.assertEqual(server.asked[0]["server_port"], str(mx.port))


class Encrypted(Policed):
    def test_the_server_is_told_of_encryption_and_certificates(self):
        ca, stranger_ca = Authority(self.folder()), Authority(self.folder(), "Another CA")
        own = ca.issue("mx.test.example")
        trusted, untrusted = ca.issue("client one", stem="one"), stranger_ca.issue("client.example")
        tls = {"smtpd_tls_security_level": "may", "smtpd_tls_cert_file": own.pem, "smtpd_tls_key_file": own.key,
               "smtpd_tls_ask_ccert": "yes", "smtpd_tls_CAfile": ca.pem, "smtpd_tls_fingerprint_digest": "sha256"}
        with PolicyServer() as server, self.instance(f"inet:127.0.0.1:{server.port}", tls) as mx:
            for certificate in (trusted, untrusted):
                with TlsClient(mx.port, client_context(certificate=certificate), name="mx.test.example") as client:
                    cipher = client.starttls().tls.cipher()
                    self.assertEqual(self.rcpt(client), "250 2.1.5 Ok")
                    told = server.asked[-1]
                    self.assertEqual(told["encryption_protocol"], client.tls.version())
                    self.assertEqual(told["encryption_cipher"], cipher[0])
                    self.assertEqual(told["encryption_keysize"], str(cipher[2]))
                    self.assertEqual(told["tls_sni"], "mx.test.example")
                    self.assertEqual(told["ccert_fingerprint"], certificate.fingerprint())
                    self.assertRegex(told["ccert_pubkey_fingerprint"], "^([0-9A-F]{2}:){31}[0-9A-F]{2}$")
                    names = ("client+20one", "Test+20CA") if certificate is trusted else ("", "")
                    self.assertEqual((told["ccert_subject"], told["ccert_issuer"]), names)


class BesidePostfix(Policed):
    ACTIONS = ("OK", "DUNNO", "REJECT", "REJECT 5.7.9 text", "DEFER", "DEFER later", "DEFER_IF_PERMIT", "450 4.2.0 x",
               "DEFER_IF_PERMIT 4.7.9 Greylisted", "DEFER_IF_REJECT", "550 no", "521 5.3.2 bye", "WARN w", "INFO i",
               "prepend X-A: b", "hold", "DISCARD", "12", "reject_unknown_sender_domain", "permit", "defer",
               "FILTER smtp:[127.0.0.1]", "REDIRECT a@b.example", "BCC a@b.example", "close")
    ETRN = ("ETRN", "ETRN a b", "ETRN a..b", "ETRN elsewhere.example", "ETRN relay.example", "ETRN @relay.example",
            "ETRN [127.0.0.1", "ETRN #relay.example", "MAIL FROM:<>", "ETRN relay.example")

    def settings(self, port):
        service = f"check_policy_service {{ inet:127.0.0.1:{port}, retry_delay=1s, policy_context=here }}"
        return {"smtpd_recipient_restrictions": service, "smtpd_data_restrictions": service,
                "smtpd_delay_reject": "yes", "smtpd_authorized_xclient_hosts": "127.0.0.1",
                "smtpd_error_sleep_time": "0", "smtpd_hard_error_limit": "1000", "smtpd_soft_error_limit": "1000",
                "local_recipient_maps": "", "relay_domains": "relay.example", "smtpd_helo_required": "yes",
                "smtpd_relay_restrictions": "reject_unauth_destination", "smtpd_junk_command_limit": "1000"}

    def session(self, port, policy):
        """The replies to the same commands, and what the policy server was told meanwhile."""
        replies = []
        for i, action in enumerate(self.ACTIONS):
            with Client(port, ehlo=False) as client:
                client.expect("XCLIENT NAME=far.example ADDR=198.51.100.9 PORT=2525 HELO=far.example", "220")
                client.expect("EHLO far.example", "250")
                client.expect("MAIL FROM:<s@far.example> SIZE=10", "250")
                policy.otherwise = action
                replies.append((action, client.command(f"RCPT TO:<a{i}@relay.example>")))
                if replies[-1][1].startswith("250"):
                    policy.otherwise = "REJECT at data"
                    replies.append((action, client.command("DATA")))
        with Client(port) as client:
            replies += [(line, client.command(line)) for line in self.ETRN]
        with Client(port, ehlo=False) as client:
            replies.append(("no HELO", client.command("ETRN relay.example")))
        return replies, policy.lines

    @unittest.skipIf(peers.unavailable(), peers.unavailable())
    def test_replies_and_requests_are_those_of_postfix(self):
        port = free_port()
        with PolicyServer() as policy:
            lines = "".join(f"{n} = {v}\n" for n, v in self.settings(policy.port).items())
            with peers.Postfix(port=port, relay_port=free_port(), settings=lines) as postfix:
                theirs, their_lines = self.session(postfix.port, policy)
        with PolicyServer() as policy, Instance(self.settings(policy.port)) as mx:
            ours, our_lines = self.session(mx.port, policy)
        self.assertEqual(ours, theirs)
        self.assertEqual([self.names(r) for r in our_lines], [self.names(r) for r in their_lines])
        self.assertEqual([self.values(r) for r in our_lines], [self.values(r) for r in their_lines])

    def names(self, request):
        """All but those that came after Postfix 3.7."""
        return [n for n, _ in request if n not in ("tls_sni", "compatibility_level", "mail_version")]

    def values(self, request):
        """Those that name no process, message or port of ours."""
        return [(n, v) for n, v in request if n in self.names(request) and
                n not in ("instance", "queue_id", "server_port")]


class Spawn(Policed):
    def test_a_command_that_fails_or_hangs_is_told_and_ended(self):
        user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        with self.instance(
            "{ unix:private/failing, try_limit=1, default_action=DUNNO }, check_policy_service "
            "{ unix:private/hanging, try_limit=1, default_action=DUNNO }",
            {"hanging_time_limit": "1s"},
            {"failing": f"unix - n n - 0 spawn user={user} argv=/bin/sh -c {{ exit 3 }}",
             "hanging": f"unix - n n - 1 spawn user={user} argv=/bin/sleep 1000"},
        ) as mx:
            self.assertEqual(self.rcpt(self.stranger(mx)), "250 2.1.5 Ok")
            mx.wait_log("warning: command /bin/sh exit status 3")
            mx.wait_log("warning: process id [0-9]+: command time limit exceeded: /bin/sleep")

    def test_a_service_without_a_user_does_not_start_and_the_check_says_so(self):
        with self.instance("{ unix:private/bad, try_limit=1, default_action=DUNNO }", {"command_time_limit": "5s"},
                           {"bad": "unix - n n - 0 spawn argv=/bin/true"}) as mx:
            done = mx.tool("penstock", "check")
            self.assertIn("service bad/unix would not start if somebody connected: user= is missing",
                          done.stdout + done.stderr)

    @unittest.skipIf(os.geteuid() != 0, "only root has rights to refuse")
    def test_a_command_never_gets_the_rights_of_root_or_of_the_mail_system(self):
        whose = {"rooted": ("root", "a command never runs as root"),
                 "grouped": ("nobody:root", "a command never runs as root"),
                 "owned": (mail_owner(), "does not get the rights of mail_owner"),
                 "queued": (queue_owner(), "does not get the rights of queue_owner"),
                 "dropped": (f"nobody:{a_group()}", "does not get the rights of setgid_group")}
        services = {name: f"unix - n n - 0 spawn user={user} argv=/bin/true" for name, (user, _) in whose.items()}
        with Instance(services=services) as mx:
            said = mx.tool("penstock", "check").stdout
            for name, (_, why) in whose.items():
                self.assertRegex(said, f"service {name}/unix would not start if somebody connected: .*{why}")
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.connect(mx.path("spool", "private", name))
                mx.wait_log(rf"spawn\[\d+\]: error: master\.cf: {name}: .*{why}")


@unittest.skipIf(peers.unavailable(), peers.unavailable())
class LogLines(Suite):
    """What an action does to a message is logged as Postfix logs it, with its recipient if that is the only one."""
    ACTIONS = ["HOLD h", "DISCARD d", "FILTER smtp:[127.0.0.1]:9", "REDIRECT q@there.example", "BCC k@there.example",
               "WARN w", "INFO i", "REJECT no", "DEFER later", "DEFER_IF_PERMIT x", "OK", "RELAY"]

    def lines(self, policy, port, log):
        out = {}
        for action, count in [(action, 1) for action in self.ACTIONS] + [("HOLD both", 2)]:
            policy.otherwise, before = action, len(log())
            try:
                send(port, "s@far.example", ["r@there.example", "t@there.example"][:count], mail())
            except Refused:
                pass

            def found():
                texts = (line.partition("smtpd[")[2].partition("]: ")[2] for line in log()[before:].splitlines())
                return [re.sub(r"127.0.0.1:\d+", "SERVICE", re.sub(r"^\w+: ", "ID: ", t)) for t in texts
                        if re.match(r"\w+: \w+: (DATA|END-OF-MESSAGE) from", t)]
            eventually(found, f"a line about {action}")
            out[action] = found()
        return out

    def test_lines_at_data_and_at_the_end_are_those_of_postfix(self):
        for stage in ("data", "end_of_data"):
            with PolicyServer() as policy, Peer() as sink:
                settings = {"relay_domains": "there.example", "relayhost": f"[127.0.0.1]:{sink.port}",
                            "smtpd_relay_restrictions": "permit_mynetworks, reject_unauth_destination",
                            f"smtpd_{stage}_restrictions": f"check_policy_service inet:127.0.0.1:{policy.port}",
                            "smtpd_error_sleep_time": "0", "smtpd_peername_lookup": "no",
                            "smtpd_log_access_permit_actions": "OK, RELAY, DISCARD"}
                with Instance(settings) as mx:
                    got = self.lines(policy, mx.port, mx.log)
                port = free_port()
                with peers.Postfix(port, settings="".join(f"{k} = {v}\n" for k, v in settings.items())) as postfix:
                    wanted = self.lines(policy, port, postfix.log)
            for action in got:
                with self.subTest(stage=stage, action=action):
                    self.assertEqual(got[action], wanted[action])


class Etrn(Policed):
    def test_deferred_mail_of_the_domain_goes_out_when_its_host_asks(self):
        peer = Peer()
        port = peer.port
        peer.close()
        settings = {**relay_to(peer), "minimal_backoff_time": "1h", "maximal_backoff_time": "1h",
                    "fast_flush_domains": "rcpt.example", "smtpd_etrn_restrictions": "permit_mynetworks, reject"}
        with Instance(settings) as mx:
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
            mx.wait_log("status=deferred")
            with Client(mx.port) as client:
                self.assertTrue(client.has("ETRN"))
                self.assertEqual(client.command("ETRN other.example"), "459 <other.example>: service unavailable")
                with Peer(port=port) as up:
                    self.assertEqual(client.command("ETRN rcpt.example"), "250 Queuing started")
                    up.wait_messages(1)
                    mx.wait_empty_queue()
