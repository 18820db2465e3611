"""Settings by name, each with its effect: clients of LMTP and of a proxy filter, names, hosts, queue, mailboxes."""
import json
import os
import re
import socket
import subprocess

import test_local
from content_filter import Filter
from harness import *
from table_server import TableServer
from test_content_filters import CHECKED, Filtered
from test_local import TO, account

ALL = ("PIPELINING", "8BITMIME", "SIZE 0")
PLAIN = ("8BITMIME",)


class Lmtp(Suite):
    def to(self, peer, settings=None, hop=None):
        return Instance({"relay_domains": "rcpt.example", "transport_maps": inline(
            {"rcpt.example": "lmtp:inet:" + (hop or f"127.0.0.1:{peer.port}")}), **(settings or {})})

    def test_lmtp_lhlo_name(self):
        with Peer(ALL, lmtp=True) as peer, self.to(peer, {"lmtp_lhlo_name": "its.name.example"}) as mx:
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
            peer.wait_messages(1)
            self.assertEqual(peer.sessions[0].commands[0], "LHLO its.name.example")

    def test_lmtp_tcp_port(self):
        with Peer(ALL, lmtp=True) as peer, self.to(peer, {"lmtp_tcp_port": str(peer.port)}, hop="127.0.0.1") as mx:
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
            peer.wait_messages(1)

    def test_lmtp_discard_lhlo_keywords(self):
        for discarded in ("", "size, 8BITMIME"):
            with self.subTest(discarded), Peer(ALL, lmtp=True) as peer, self.to(
                peer, {"lmtp_discard_lhlo_keywords": discarded}
            ) as mx:
                send(
                    mx.port, "ada@sender.example", ["a@rcpt.example"], mail(body="caf\u00e9\r\n"), mail="BODY=8BITMIME"
                )
                (got,) = peer.wait_messages(1)
                used = " ".join(got.parameters)
                self.assertEqual(("SIZE=" in used, "BODY=" in used, b"quoted-printable" in got.content),
                                 (True, True, False) if not discarded else (False, False, True))

    def test_lmtp_destination_recipient_limit(self):
        for limit, transactions in (("1", 3), ("2", 2), ("50", 1)):
            with self.subTest(limit), Peer(ALL, lmtp=True) as peer, \
                    self.to(peer, {"lmtp_destination_recipient_limit": limit}) as mx:
                send(mx.port, "ada@sender.example", [f"{n}@rcpt.example" for n in "abc"], mail())
                got = peer.wait_messages(transactions)
                mx.wait_empty_queue()
                self.assertEqual(len(peer.messages), transactions)
                self.assertEqual(sorted(r for m in got for r in m.recipients), [f"{n}@rcpt.example" for n in "abc"])

    def test_lmtp_assume_final(self):
        for assumed, action in (("no", b"relayed"), ("yes", b"delivered")):
            with self.subTest(assumed), Peer(ALL, lmtp=True) as peer, Peer() as back:
                hops = {
                    "rcpt.example": f"lmtp:inet:127.0.0.1:{peer.port}",
                    "sender.example": f"smtp:[127.0.0.1]:{back.port}",
                }
                with Instance(
                    {"relay_domains": ", ".join(hops), "transport_maps": inline(hops), "lmtp_assume_final": assumed}
                ) as mx:
                    send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail(), rcpt="NOTIFY=SUCCESS")
                    self.assertIn(b"\r\nAction: " + action + b"\r\n", back.wait_messages(1)[0].content.replace(
                        b" (to", b"\r\n"))


class Hosts(Suite):
    def test_lmtp_mx_session_limit(self):
        for limit, taken in (("1", 0), ("2", 1)):
            with self.subTest(limit), Peer(ALL, lmtp=True, host="127.0.0.11") as first, \
                    Peer(ALL, lmtp=True, host="127.0.0.12", port=first.port) as second, \
                    Dns({("box.example", "A"): ["127.0.0.11", "127.0.0.12"]}) as dns:
                asked = []
                for peer in (first, second):  # whichever is tried first
                    peer.replies["MAIL"] = lambda session, line: asked.append(line) or (
                        "451 4.3.0 not now" if len(asked) == 1 else None)
                hop = f"lmtp:inet:box.example:{first.port}"
                with Instance({**dns.settings(), "relay_domains": "rcpt.example", "lmtp_mx_session_limit": limit,
                               "transport_maps": inline({"rcpt.example": hop})}) as mx:
                    send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                    mx.wait_log(r"to=<a@rcpt\.example>.*status=" + ("sent" if taken else "deferred"))
                    self.assertEqual(len(first.messages) + len(second.messages), taken)

    def test_allow_min_user(self):
        for allowed in ("no", "yes"):
            with self.subTest(allowed), Peer() as peer, Instance({**relay_to(peer), "allow_min_user": allowed}) as mx:
                send(mx.port, "", ["-v@rcpt.example"], mail())
                mx.wait_log(r"to=<-v@rcpt\.example>.*" + ("status=sent" if allowed == "yes" else
                            r"dsn=5\.1\.3, status=bounced \(bad address syntax\)"))
                self.assertEqual(len(peer.messages), allowed == "yes")


class Sharing(Suite):
    def connections(self, lmtp, settings):
        """How many connections three messages take that are there at the same time."""
        with Peer(ALL, lmtp=lmtp) as peer:
            hop = f"lmtp:inet:127.0.0.1:{peer.port}" if lmtp else f"smtp:[127.0.0.1]:{peer.port}"
            prefix = "lmtp" if lmtp else "smtp"
            with Instance({"relay_domains": "rcpt.example", "transport_maps": inline({"rcpt.example": hop}),
                           f"{prefix}_destination_concurrency_limit": "1", **settings}) as mx:
                with Client(mx.port) as client:
                    for i in range(3):
                        client.send("ada@sender.example", ["a@rcpt.example"], mail(f"m{i}"))
                peer.wait_messages(3)
                mx.wait_empty_queue()
                return len([s for s in peer.sessions if any(c.startswith("MAIL") for c in s.commands)])

    def test_connection_cache_on_demand_and_destinations(self):
        # smtp_connection_cache_on_demand, smtp_connection_cache_destinations, lmtp_connection_cache_on_demand,
        # lmtp_connection_cache_destinations
        for prefix in ("smtp", "lmtp"):
            off = {f"{prefix}_connection_cache_on_demand": "no"}
            with self.subTest(prefix):
                self.assertEqual(self.connections(prefix == "lmtp", off), 3)
                self.assertLess(self.connections(prefix == "lmtp", {
                    **off, f"{prefix}_connection_cache_destinations": "other.example, 127.0.0.0/8"}), 3)
                self.assertEqual(self.connections(prefix == "lmtp", {
                    **off, f"{prefix}_connection_cache_destinations": "other.example"}), 3)


class Traced(Suite):
    def test_debugger_command(self):
        port = free_port()
        with Instance({"debugger_command": "echo $process_name $process_id `id -u` >>$config_directory/seen; exit 3"},
                      {f"127.0.0.1:{port}": "inet n - n - - smtpd -D"}) as mx:
            with Client(port) as client:  # it has begun when the command has ended
                self.assertIn("220", client.greeting)
            (pid,) = re.findall(r"smtpd\[(\d+)\]: running: echo", mx.log())
            mx.wait_log(rf"smtpd\[{pid}\]: warning: debugger_command ended with status 3")
            with open(mx.etc + "/seen") as seen:  # once, with the rights that master has
                self.assertEqual(seen.read(), f"smtpd {pid} {os.geteuid()}\n")

    def test_debug_peer_list(self):
        for named, there in (("127.0.0.0/8", True), ("192.0.2.1, far.example", False)):
            with self.subTest(named), Peer(("AUTH PLAIN", *ALL)) as peer:
                peer.replies["AUTH"] = lambda session, line: "235 2.7.0 ok"
                with Instance({**relay_to(peer), "debug_peer_list": named, "smtp_sasl_auth_enable": "yes",
                               "smtp_sasl_security_options": "", "smtp_sasl_password_maps":
                               inline({f"[127.0.0.1]:{peer.port}": "user:secret-word"})}) as mx:
                    send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                    peer.wait_messages(1)
                    mx.wait_empty_queue()
                    mx.wait_log(r"smtpd\[\d+\]: disconnect from .* quit=1")
                    found = [bool(re.search(line, mx.log())) for line in (
                        r"smtpd\[\d+\]: < localhost\[127\.0\.0\.1\]: MAIL FROM:<ada@sender\.example>",
                        r"smtpd\[\d+\]: > localhost\[127\.0\.0\.1\]: 250 2\.1\.5 Ok",
                        r"smtp\[\d+\]: > 127\.0\.0\.1\[127\.0\.0\.1\]:\d+: RCPT TO:<a@rcpt\.example>",
                        r"smtp\[\d+\]: < 127\.0\.0\.1\[127\.0\.0\.1\]:\d+: 250 2\.0\.0 taken")]
                    self.assertEqual(found, [there] * 4, mx.log())
                    self.assertIn("AUTH PLAIN ***" if there else "", mx.log())
                    self.assertNotIn("AHVzZXI", mx.log())  # the log-in


class Proxy(Filtered):
    def before(self, scan, settings):
        return self.instance(scan, {"smtpd_proxy_filter": f"127.0.0.1:{scan.port}", **settings}, override=CHECKED)

    def test_smtpd_proxy_ehlo(self):
        with Filter() as scan, self.before(scan, {"smtpd_proxy_ehlo": "its.name.example"}) as mx:
            send(mx.port, "s@sender.example", ["ada@virtual.test.example"], mail())
            self.only(mx, "ada")
            self.assertEqual(scan.sessions[0].commands[0], "EHLO its.name.example")

    def test_smtpd_proxy_timeout(self):
        with Filter() as scan:
            scan.replies["MAIL"] = lambda session, line: NOTHING
            with self.before(scan, {"smtpd_proxy_timeout": "1s"}) as mx, Client(mx.port) as client:
                with self.assertRaises(Refused) as no:
                    client.send("s@sender.example", ["ada@virtual.test.example"], mail())
                self.assertEqual(no.exception.reply, "451 4.3.0 Error: queue file write error")
                mx.wait_log(r"warning: proxy filter \S+: .*(timed out|timeout|in time)")


class Bodies(Suite):
    def test_body_checks_size_limit(self):
        with Instance({"body_checks_size_limit": "100"}, start=False) as mx:
            mx.set(body_checks="regexp:" + mx.write("body", "/^virus/ REJECT\n"),
                   virtual_mailbox_maps=inline({"ada@virtual.test.example": "ada/"}))
            mx.start()
            to = ["ada@virtual.test.example"]
            with self.assertRaises(Refused):
                send(mx.port, "ada@sender.example", to, mail(body="x" * 98 + "\r\nvirus\r\n"))
            send(mx.port, "ada@sender.example", to, mail(body="x" * 99 + "\r\nvirus\r\n"))  # CRLF counts as one


class Commands(Suite):
    out, read, aliases = test_local.Local.out, test_local.Local.read, test_local.Local.aliases

    def test_command_execution_directory_and_its_filter(self):
        user, settings = account()
        with Instance(
            {
                **settings,
                "recipient_delimiter": "+",
                "execution_directory_expansion_filter": "/abcdefghijklmnopqrstuvwxyz",
            },
            start=False,
        ) as mx:
            out = self.out(mx)
            for name in ("plain", "with_dot"):
                os.mkdir(out + name)
                os.chmod(out + name, 0o755)
            os.chmod(mx.dir, 0o755)
            self.aliases(mx, f'where: "|pwd >> {out}where"\n')
            mx.set(command_execution_directory=out + "$extension")
            mx.start()
            for extension in ("plain", "with.dot"):
                send(mx.port, "ada@sender.example", [f"where+{extension}@{TO}"], mail())
                mx.wait_empty_queue()
            self.assertEqual(self.read(out + "where").split(), [out + "plain", out + "with_dot"])
            send(mx.port, "ada@sender.example", [f"where+gone@{TO}"], mail())
            mx.wait_log(rf"to=<where\+gone@{TO}>, .*status=deferred")


class Names(Suite):
    def test_mail_version_is_for_other_settings(self):
        with Instance({"mail_version": "9.8", "smtpd_banner": "$myhostname runs $mail_version"}) as mx, Client(
            mx.port
        ) as client:
            self.assertEqual(client.greeting, "220 mx.test.example runs 9.8")

    def test_multi_instance_name_is_in_the_log(self):
        with Instance({"multi_instance_name": "second"}) as mx:
            mx.wait_log(r" second/master\[\d+\]: daemon started")

    def test_syslog_facility_is_one_that_there_is(self):
        for facility, status in (("local3", 0), ("nosuch", 78)):
            with self.subTest(facility), Instance({"syslog_facility": facility}, start=False) as mx:
                done = mx.tool("penstock", "start")
                self.assertEqual(done.returncode, status, done)
                if status:
                    self.assertIn("syslog_facility = nosuch", done.stderr)

    def test_resolve_dequoted_address_says_whether_a_quoted_local_part_is_looked_into(self):
        recipient = '"a@far.example"@test.example'
        for seen, answer in (("yes", "250"), ("no", "550")):
            with self.subTest(seen), Peer() as peer, Instance(
                {"mydestination": "test.example", "local_recipient_maps": inline({"ada": "1"}),
                 "resolve_dequoted_address": seen,
                 "transport_maps": inline({"far.example": f"smtp:[127.0.0.1]:{peer.port}"})}
            ) as mx, Client(mx.port) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                client.expect(f"RCPT TO:<{recipient}>", answer)
                if answer == "250":
                    client.expect("DATA", "354")
                    client.expect("Subject: x\r\n\r\nhello\r\n.", "250")
                    peer.wait_messages(1)

    def test_quotes_hide_no_route_from_a_stranger(self):
        for seen in ("yes", "no"):
            with self.subTest(seen), Instance(
                {"relay_domains": "rcpt.example", "resolve_dequoted_address": seen,
                 "smtpd_relay_restrictions": "reject_unauth_destination"}
            ) as mx, Client(mx.port) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                client.expect('RCPT TO:<"a@far.example"@rcpt.example>', "554")

    def test_cleanup_replace_stray_cr_lf(self):
        for replace, kept in (("yes", b"one two"), ("no", b"one\rtwo")):
            with self.subTest(replace), Peer() as peer, Instance(
                {"cleanup_replace_stray_cr_lf": replace, "relay_domains": "rcpt.example",
                 "transport_maps": inline({"rcpt.example": f"smtp:[127.0.0.1]:{peer.port}"})}
            ) as mx:
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], b"Subject: x\r\n\r\none\rtwo\r\n")
                self.assertIn(kept, peer.wait_messages(1)[0].content)

    def test_default_database_type_is_that_of_a_bare_name(self):
        with Peer() as peer, Instance(
            {"relay_domains": "rcpt.example", "default_database_type": "texthash"}, start=False
        ) as mx:
            mx.set(transport_maps=mx.write("hops", f"rcpt.example smtp:[127.0.0.1]:{peer.port}\n"))
            mx.start()
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
            peer.wait_messages(1)

    def test_proxy_interfaces_are_this_hosts_addresses(self):
        with Dns(
            {("rcpt.example", "MX"): [(10, "proxy.rcpt.example")], ("proxy.rcpt.example", "A"): ["127.0.0.77"]}
        ) as dns:
            for own, outcome in (
                ("", "status=deferred.*refused"),
                ("127.0.0.77", "status=bounced.*loops back to myself"),
            ):
                with self.subTest(own), Instance(
                    {**dns.settings(), "proxy_interfaces": own, "relay_domains": "rcpt.example"}, start=False
                ) as mx:
                    mx.set(smtp_tcp_port=str(mx.port))
                    mx.start()
                    send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                    mx.wait_log(r"to=<a@rcpt\.example>, .*" + outcome)

    def test_canonical_classes_say_which_addresses_a_table_is_for(self):
        content = mail(sender="ada@sender.example", to="ben@rcpt.example")
        for name, table, classes, seen in (
            ("sender_canonical", "ada@sender.example", "envelope_sender", ("new@public.example", "ada@sender.example")),
            ("sender_canonical", "ada@sender.example", "header_sender", ("ada@sender.example", "new@public.example")),
            ("recipient_canonical", "ben@rcpt.example", "header_recipient", ("ben@rcpt.example", "new@public.example")),
            (
                "recipient_canonical",
                "ben@rcpt.example",
                "envelope_recipient",
                ("new@public.example", "ben@rcpt.example"),
            ),
        ):
            with self.subTest(name=name, classes=classes), Peer() as peer, Instance(
                {
                    **relay_to(peer, "rcpt.example", "public.example"),
                    f"{name}_maps": inline({table: "new@public.example"}),
                    **(
                        {"sender_canonical_classes": classes}
                        if name.startswith("sender")
                        else {"recipient_canonical_classes": classes}
                    ),
                    "local_header_rewrite_clients": "static:all",
                }
            ) as mx:
                send(mx.port, "ada@sender.example", ["ben@rcpt.example"], content)
                got, = peer.wait_messages(1)
                envelope = got.sender if name.startswith("sender") else got.recipients[0]
                field = b"From: " if name.startswith("sender") else b"To: "
                header = next(f for f in fields(split(got.content)[0]) if f.startswith(field))
                self.assertEqual(envelope, seen[0])
                self.assertIn(seen[1].encode(), header)


class Hosts(Suite):
    ZONE = {("rcpt.example", "MX"): [(10, "one.rcpt.example"), (20, "two.rcpt.example")],
            ("one.rcpt.example", "A"): ["127.0.0.81", "127.0.0.82"], ("two.rcpt.example", "A"): ["127.0.0.83"],
            ("no.example", "MX"): [(10, "nowhere.no.example")]}

    def hosts(self, mx, address):
        done = mx.tool("pendest", "--json", "explain", address)
        return json.loads(done.stdout.splitlines()[0])

    def explained(self, address, **settings):
        with Dns(self.ZONE) as dns, Instance(
            {**dns.settings(), "relay_domains": "rcpt.example no.example broken.example", **settings}
        ) as mx:
            return self.hosts(mx, address)

    def test_smtp_mx_address_limit_bounds_what_is_tried(self):
        for limit, count in (("0", 3), ("2", 2), ("1", 1)):
            with self.subTest(limit):
                self.assertEqual(len(self.explained("a@rcpt.example", smtp_mx_address_limit=limit)["hosts"]), count)

    def test_smtp_balance_inet_protocols_keeps_an_address_of_each_family(self):
        zone = {("rcpt.example", "MX"): [(10, "one.rcpt.example")],
                ("one.rcpt.example", "A"): ["127.0.0.81"],
                ("one.rcpt.example", "AAAA"): [f"2001:db8::{n}" for n in range(1, 5)]}
        for balance, families in (("yes", {4, 6}), ("no", {6})):
            with self.subTest(balance), Dns(zone) as dns, Instance(
                {
                    **dns.settings(),
                    "relay_domains": "rcpt.example",
                    "inet_protocols": "all",
                    "smtp_address_preference": "ipv6",
                    "smtp_mx_address_limit": "2",
                    "smtp_balance_inet_protocols": balance,
                }
            ) as mx:
                shown = json.dumps(self.hosts(mx, "a@rcpt.example")["hosts"])
                self.assertEqual(
                    {4 for _ in re.findall(r"127\.0\.0\.81", shown)} | {6 for _ in re.findall("2001:db8", shown)},
                    families,
                )

    def test_smtp_defer_if_no_mx_address_found(self):
        for defers, status in (("no", "bounced"), ("yes", "deferred")):
            with self.subTest(defers), Dns(self.ZONE) as dns, Instance(
                {**dns.settings(), "relay_domains": "no.example", "smtp_defer_if_no_mx_address_found": defers}
            ) as mx:
                send(mx.port, "ada@sender.example", ["a@no.example"], mail())
                mx.wait_log(rf"to=<a@no\.example>, .*status={status}")

    def test_ignore_mx_lookup_error_goes_on_with_the_address(self):
        def answer(query):
            name, kind, question = dns.question(query)
            return dns._message(
                query[:2], question, [(name, "A", "127.0.0.84")] if kind == "A" else [], 2 if kind == "MX" else 0
            )

        with Peer(host="127.0.0.84") as peer:
            for ignore in ("no", "yes"):
                with self.subTest(ignore), Dns({}) as dns, Instance(
                        {**dns.settings(), "relay_domains": "rcpt.example", "ignore_mx_lookup_error": ignore,
                         "smtp_tcp_port": str(peer.port)}) as mx:
                    dns.trouble["rcpt.example"] = answer
                    send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                    mx.wait_log(r"to=<a@rcpt\.example>, .*status=" + ("sent" if ignore == "yes" else "deferred"))

    def test_names_without_dns(self):
        # No DNS server answers here; the host itself knows localhost.
        for name, value, prefix, sent in (
            ("disable_dns_lookups", "yes", "smtp", True),
            ("disable_dns_lookups", "no", "smtp", False),
            ("lmtp_dns_support_level", "disabled", "lmtp", True),
            ("lmtp_dns_support_level", "enabled", "lmtp", False),
        ):
            with self.subTest(name=name, value=value), Peer(ALL, lmtp=prefix == "lmtp") as peer:
                hop = f"lmtp:inet:localhost:{peer.port}" if prefix == "lmtp" else f"smtp:[localhost]:{peer.port}"
                with Instance(
                    {"relay_domains": "rcpt.example", "transport_maps": inline({"rcpt.example": hop}), name: value}
                ) as mx:
                    send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                    mx.wait_log(r"to=<a@rcpt\.example>, .*status=" + ("sent" if sent else "deferred"))


class Queue(Suite):
    def test_default_destination_recipient_limit(self):
        for limit, count in (("2", 2), ("50", 1)):
            with self.subTest(limit), Peer(ALL) as peer, Instance(
                {**relay_to(peer), "default_destination_recipient_limit": limit}
            ) as mx:
                send(mx.port, "ada@sender.example", [f"{n}@rcpt.example" for n in "abc"], mail())
                peer.wait_messages(count)
                mx.wait_empty_queue()
                self.assertEqual(len(peer.messages), count)

    def test_default_destination_rate_delay(self):
        with Peer(ALL) as peer, Instance({**relay_to(peer), "default_destination_rate_delay": "1h"}) as mx:
            for name in "ab":
                send(mx.port, "ada@sender.example", [f"{name}@rcpt.example"], mail())
            peer.wait_messages(1)
            mx.wait_log("status=sent")
            # The other message waits for its hour.
            self.assertEqual(
                len([line for line in mx.tool("penqueue", "-j", check=True).stdout.splitlines() if line]), 1
            )
            self.assertEqual(len(peer.messages), 1)

    def test_default_process_limit_bounds_sessions_where_maxproc_does_not(self):
        with Instance({"default_process_limit": "1"}, start=False) as mx:
            with open(mx.path("etc", "master.cf")) as text:
                lines = text.read()
            with open(mx.path("etc", "master.cf"), "w") as out:
                out.write(re.sub(r"(?m)^(\d+ +inet.*)20000( +smtpd)$", r"\1-\2", lines))
            mx.start()
            eventually(lambda: "disconnect" in mx.log(), "the probe of the start is over")
            with Client(mx.port) as first:
                with self.assertRaises(TimeoutError):
                    Client(mx.port, timeout=1)
                self.assertTrue(first.command("NOOP").startswith("250"))

    def test_bounce_queue_lifetime_is_that_of_mail_without_a_sender(self):
        with Peer(ALL) as peer:
            peer.replies["RCPT"] = lambda session, line: "450 4.2.1 later"
            with Instance({**relay_to(peer), "bounce_queue_lifetime": "0", "maximal_queue_lifetime": "5d"}) as mx:
                send(mx.port, "", ["notice@rcpt.example"], mail())
                send(mx.port, "ada@sender.example", ["mail@rcpt.example"], mail())
                mx.wait_log(r"to=<mail@rcpt\.example>, .*status=deferred")
                eventually(
                    lambda: [
                        json.loads(line)["sender"] for line in mx.tool("penqueue", "-j", check=True).stdout.splitlines()
                    ]
                    == ["ada@sender.example"],
                    "the notice is given up, the mail is not",
                )

    def test_active_share_limit_leaves_room_for_other_hosts(self):
        with Peer(PLAIN) as slow, Peer(ALL) as fast:
            slow.replies["MAIL"] = lambda session, line: NOTHING
            with Instance(
                {
                    **relay_to(slow, "slow.example"),
                    "active_share_limit": "25",
                    "qmgr_message_active_limit": "4",
                    "minimal_backoff_time": "1s",
                    "maximal_backoff_time": "1s",
                },
                start=False,
            ) as mx:
                mx.set(
                    relay_domains="slow.example, fast.example",
                    transport_maps=inline(
                        {
                            "slow.example": f"smtp:[127.0.0.1]:{slow.port}",
                            "fast.example": f"smtp:[127.0.0.1]:{fast.port}",
                        }
                    ),
                )
                mx.start()
                for number in range(6):
                    send(mx.port, "ada@sender.example", [f"a{number}@slow.example"], mail())
                send(mx.port, "ada@sender.example", ["b@fast.example"], mail())
                fast.wait_messages(1)
                mx.wait_log("active_share_limit")

    def test_anvil_rate_time_unit(self):
        for unit, again in (("1s", True), ("1h", False)):
            with self.subTest(unit), Instance(
                {
                    "smtpd_client_message_rate_limit": "1",
                    "smtpd_client_event_limit_exceptions": "",
                    "anvil_rate_time_unit": unit,
                }
            ) as mx:

                def taken():
                    with Client(mx.port) as client:
                        return client.command("MAIL FROM:<a@sender.example>").startswith("250")
                eventually(taken, "the first")
                if again:
                    eventually(taken, "one in the next unit")
                else:
                    self.assertFalse(taken())

    def test_delay_notice_recipient(self):
        with Peer(ALL) as back, Peer(ALL) as far:
            far.replies["RCPT"] = lambda session, line: "450 4.2.1 later"
            hops = {
                "watch.example": f"smtp:[127.0.0.1]:{back.port}",
                "rcpt.example": f"smtp:[127.0.0.1]:{far.port}",
                "sender.example": f"smtp:[127.0.0.1]:{back.port}",
            }
            with Instance(
                {
                    "relay_domains": ", ".join(hops),
                    "transport_maps": inline(hops),
                    "notify_classes": "delay",
                    "delay_notice_recipient": "late@watch.example",
                    "delay_warning_time": "1s",
                    "minimal_backoff_time": "1s",
                    "maximal_backoff_time": "1s",
                }
            ) as mx:
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                eventually(lambda: any(m.recipients == ["late@watch.example"] for m in back.messages), "the copy")


def scale_of_peer(connected):
    """The scale of windows that the other end of a connection has announced."""
    return connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[6] & 15


class OfEveryProgram(Suite):
    def test_names_of_ports_windows_and_the_form_of_the_log(self):
        with Peer(ALL) as peer:
            hops = {"rcpt.example": "smtp:[127.0.0.1]:my-relay"}
            forms = {"info_log_address_format": "internal", "delay_logging_resolution_limit": "0",
                     "known_tcp_ports": f"smtp=25, my-relay = also = {peer.port}", "tcp_windowsize": "65535",
                     "mynetworks": "192.0.2.0/24"}
            with Instance({"relay_domains": ", ".join(hops), "transport_maps": inline(hops), **forms}) as mx:
                with Client(mx.port) as client:
                    self.assertEqual(scale_of_peer(client.socket), 0)
                    client.send('"a b"@sender.example', ['"c d"@rcpt.example'], mail())
                    client.command('MAIL FROM:<"e f"@sender.example>')
                    client.expect('RCPT TO:<"g h"@nowhere.example>', "454")
                peer.wait_messages(1)
                mx.wait_log(r"from=<a b@sender\.example>, size=")
                mx.wait_log(r"to=<c d@rcpt\.example>, .*, delay=\d+, delays=\d+/\d+/\d+/\d+, dsn=2.*status=sent")
                mx.wait_log(r"reject: RCPT .* from=<e f@sender\.example> to=<g h@nowhere\.example>")

    def test_a_port_in_known_tcp_ports_may_be_listened_at(self):
        port = free_port()
        with Instance({"known_tcp_ports": f"my-mail={port}"}, start=False) as mx:
            mx.set_services({"127.0.0.1:my-mail": "inet n - n - - smtpd"})
            mx.start()
            with Client(port) as client:
                client.expect("NOOP", "250")

    def test_known_tcp_ports_that_cannot_be_read_are_told(self):
        with Instance({"known_tcp_ports": "smtp"}, start=False) as mx:
            said = mx.tool("penstock", "check")
            self.assertIn('known_tcp_ports: "smtp" is not name=port', said.stdout + said.stderr)

    def test_tcp_windowsize_of_outgoing_connections(self):
        for size, scaled in (("65535", False), ("0", True)):
            with self.subTest(size), socket.create_server(("127.0.0.1", 0)) as listener:
                hop = {"rcpt.example": f"smtp:[127.0.0.1]:{listener.getsockname()[1]}"}
                with Instance({"relay_domains": ", ".join(hop), "transport_maps": inline(hop),
                               "tcp_windowsize": size}) as mx:
                    with Client(mx.port) as client:
                        self.assertEqual(scale_of_peer(client.socket) > 0, scaled)
                        client.send("ada@sender.example", ["a@rcpt.example"], mail())
                    listener.settimeout(60)
                    connected, _ = listener.accept()
                    with connected:
                        self.assertEqual(scale_of_peer(connected) > 0, scaled)

    def test_socketmap_max_query_size_and_socketmap_max_reply_size(self):
        with Instance({"socketmap_max_query_size": "40", "socketmap_max_reply_size": "40"}, start=False) as mx:
            path = os.path.join(mx.dir, "tables")
            answers = {"short@virtual.test.example": "OK " + "x" * 37, "long@virtual.test.example": "OK " + "x" * 38}
            with TableServer(path, answers):
                mx.set(virtual_mailbox_maps=f"socketmap:unix:{path}:t")
                mx.start()
                with Client(mx.port) as client:
                    client.expect("MAIL FROM:<ada@sender.example>", "250")
                    client.expect("RCPT TO:<short@virtual.test.example>", "250")
                    client.expect("RCPT TO:<long@virtual.test.example>", "451")
                    client.expect("RCPT TO:<none@virtual.test.example>", "550")
                    client.expect(f"RCPT TO:<{'n' * 40}@virtual.test.example>", "451")

    def test_sendmail_fix_line_endings(self):
        mixed, crlf = b"Subject: x\n\na\r\nb\n", b"Subject: x\r\n\r\na\r\nb\n"
        # CRs in front of a line end vanish where nothing else is asked for.
        for how, blank, text, got in (("always", "no", mixed, b"a\nb\n"), ("strict", "no", mixed, b"a\r\nb\n"),
                                      ("strict", "yes", mixed, b"a\nb\n"), ("strict", "no", crlf, b"a\nb\n"),
                                      ("never", "no", mixed[:-2] + b".\r\nb\n.\nc\n", b"a\r\n.\r\nb\n")):
            with self.subTest(how, text=text), Instance({
                    "virtual_mailbox_maps": inline({"ada@virtual.test.example": "ada/"}),
                    "cleanup_replace_stray_cr_lf": blank, "sendmail_fix_line_endings": how}) as mx:
                subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, "ada@virtual.test.example"], input=text,
                               check=True, timeout=60)
                mx.virtual_box("ada").wait(1)
                (message,) = mx.virtual_box("ada").messages()
                self.assertEqual(message.split(b"\n\n", 1)[1], got)


class Delivered(Suite):
    def rule(self, mx):
        return "regexp:" + mx.write("filter", "/^2\\.0\\.0/ 2.7.7 seen by the filter\n")

    def test_local_and_pipe_delivery_status_filter(self):
        if os.geteuid() != 0:
            self.skipTest("pipe and local become other users")
        with Instance(
            {"relay_domains": "rcpt.example", "transport_maps": inline({"rcpt.example": "robot:"})}, start=False
        ) as mx:
            mx.set_services({"robot": "unix - n n - - pipe user=nobody:nogroup argv=/bin/true"})
            mx.set(alias_maps=inline({"away": "/dev/null"}), local_delivery_status_filter=self.rule(mx),
                   pipe_delivery_status_filter=self.rule(mx))
            mx.start()
            for to in ("away@local.test.example", "a@rcpt.example"):
                send(mx.port, "ada@sender.example", [to], mail())
                mx.wait_log(rf"to=<{re.escape(to)}>, .*dsn=2\.7\.7, status=sent")

    def test_allow_min_user_lets_a_command_have_addresses_that_look_like_options(self):
        if os.geteuid() != 0:
            self.skipTest("pipe becomes another user")
        for allow, status in (("no", "bounced"), ("yes", "sent")):
            with self.subTest(allow), Instance(
                {
                    "relay_domains": "rcpt.example",
                    "transport_maps": inline({"rcpt.example": "robot:"}),
                    "allow_min_user": allow,
                },
                start=False,
            ) as mx:
                mx.set_services({"robot": "unix - n n - - pipe user=nobody:nogroup argv=/bin/true"})
                mx.start()
                send(mx.port, "ada@sender.example", ["-x@rcpt.example"], mail())
                mx.wait_log(rf"to=<-x@rcpt\.example>, .*status={status}")

    def test_virtual_mailbox_lock(self):
        for lock, waits in (("dotlock", True), ("fcntl", False)):
            with self.subTest(lock), Instance({"virtual_mailbox_maps": inline({"ada@virtual.test.example": "ada"}),
                                               "virtual_mailbox_lock": lock, "deliver_lock_attempts": "1",
                                               "deliver_lock_delay": "0"}) as mx:
                held = os.path.join(mx.virtual_base, "ada.lock")
                open(held, "w").close()
                os.chown(held, mx.owner_uid, mx.owner_gid)
                send(mx.port, "ada@sender.example", ["ada@virtual.test.example"], mail())
                mx.wait_log(r"to=<ada@virtual\.test\.example>, .*status=" + ("deferred" if waits else "sent"))


if __name__ == "__main__":
    unittest.main()
