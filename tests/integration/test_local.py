"""Local delivery beyond the mailbox: commands, files, forward files, other transports; refusals at RCPT TO."""
import os
import pwd
import re
import shutil
import subprocess

from harness import *
from instance import runs
from peers import ROOTS, unavailable
from test_crash import system_user

TO = "local.test.example"


def account():
    """The account that runs commands of root's aliases here, and the settings for it."""
    user = system_user()
    return user, {"default_privs": user, "minimal_backoff_time": "1s", "maximal_backoff_time": "1s"}


class Local(Suite):
    def out(self, mx, name=""):
        """Returns the name of a file in a directory in which every account may write."""
        folder = os.path.join(mx.dir, "out")
        if not os.path.isdir(folder):
            os.mkdir(folder)
            os.chmod(folder, 0o1777)
        return os.path.join(folder, name)

    def read(self, path):
        if not os.path.exists(path):
            return ""
        with open(path, errors="replace") as text:
            return text.read()

    def aliases(self, mx, text):
        file = mx.write("aliases", text)
        mx.set(alias_maps=f"lmdb:{file}", alias_database=f"lmdb:{file}")
        mx.tool("penalias", f"lmdb:{file}", check=True)

    def test_aliases_give_mail_to_commands_and_files_never_as_root(self):
        user, settings = account()
        with Peer() as peer, Instance({**relay_to(peer), **settings}, start=False) as mx:
            out = self.out(mx)
            self.aliases(mx, f'robot: "|(id -u; echo $RECIPIENT $SENDER; cat) > {out}got"\n'
                             f'archive: {out}archive, far@rcpt.example\n'
                             f'broken: "|echo it is full; exit 75"\nnobody-there: "|exit 67"\n')
            mx.start()
            send(mx.port, "ada@sender.example", [f"robot@{TO}", f"archive@{TO}"], mail("one", "From me\r\nx\r\n"))
            eventually(lambda: self.read(out + "got").endswith("From me\nx\n"), lambda: self.read(out + "got"))
            lines = self.read(out + "got").split("\n")
            self.assertEqual(lines[0], str(pwd.getpwnam(user).pw_uid))
            self.assertEqual(lines[1], f"robot@{TO} ada@sender.example")
            self.assertRegex(lines[2], r"^From ada@sender\.example  ")
            self.assertEqual(lines[3], "Return-Path: <ada@sender.example>")
            mx.wait_log(rf"to=<robot@{TO}>, relay=local, .*status=sent \(delivered to command: ")
            peer.wait_messages(1)
            mx.wait_empty_queue()
            archive = self.read(out + "archive")
            self.assertIn("\n>From me\nx\n\n", archive)
            st = os.stat(out + "archive")
            self.assertEqual((st.st_mode & 0o777, st.st_uid), (0o600, pwd.getpwnam(user).pw_uid))
            send(mx.port, "", [f"broken@{TO}", f"nobody-there@{TO}"], mail())
            mx.wait_log(r"to=<broken@.*dsn=4\.3\.0, status=deferred \(temporary failure\. Command output: it is full\)")
            mx.wait_log(r"to=<nobody-there@.*dsn=5\.1\.1, status=bounced \(user unknown\)")

    def test_a_forward_file_gives_mail_to_a_command_a_file_and_another_host(self):
        user, settings = account()
        with Peer() as peer, Instance({**relay_to(peer), **settings}, start=False) as mx:
            out = self.out(mx)
            mx.set(forward_path=f"{out}forward-$user$recipient_delimiter$extension, {out}forward-$user",
                   recipient_delimiter="+")
            for name, text in (("", f'\\{user}, "|cat > {out}got; pwd > {out}pwd", {out}copy\nfar@rcpt.example\n'),
                               ("+lists", f"{out}lists\n")):
                with open(f"{out}forward-{user}{name}", "w") as file:
                    file.write(text)
                if os.geteuid() == 0:
                    os.chown(file.name, pwd.getpwnam(user).pw_uid, -1)
            mx.start()
            send(mx.port, "ada@sender.example", [f"{user}@{TO}"], mail("one"))
            peer.wait_messages(1)
            mx.spool_box(user).wait(1)
            mx.wait_empty_queue()
            self.assertIn("Subject: one", self.read(out + "got"))
            self.assertIn("Subject: one", self.read(out + "copy"))
            send(mx.port, "ada@sender.example", [f"{user}+lists@{TO}"], mail("two"))
            mx.wait_empty_queue()
            self.assertIn("Subject: two", self.read(out + "lists"))
            self.assertNotIn("two", self.read(out + "got"))

    def test_a_forward_file_that_leads_back_to_its_user_in_any_way_ends_in_his_mailbox(self):
        user, settings = account()
        with Peer() as peer, Instance({**relay_to(peer), **settings}, start=False) as mx:
            out = self.out(mx)
            mx.set(
                mydestination=f"{TO}, second.test.example", recipient_delimiter="+", forward_path=f"{out}forward-$user"
            )
            self.aliases(mx, f"team: {user}, far@rcpt.example\n")
            mx.start()
            ways = (user, f"{user}+x", f"{user}@second.test.example", "team", "TEAM@second.test.example")
            for number, way in enumerate(ways, 1):
                # A place that is named twice is one destination.
                with open(f"{out}forward-{user}", "w") as file:
                    file.write(f"{way}, far@rcpt.example\n")
                if os.geteuid() == 0:
                    os.chown(file.name, pwd.getpwnam(user).pw_uid, -1)
                send(mx.port, "ada@sender.example", [f"{user}@{TO}"], mail(way))
                mx.spool_box(user).wait(number)
                peer.wait_messages(number)
                mx.wait_empty_queue()
            self.assertEqual((len(mx.spool_box(user).messages()), len(peer.messages)), (len(ways), len(ways)))
            self.assertNotIn("status=bounced", mx.log())

    def test_a_user_within_his_own_alias_has_his_forward_file_honoured(self):
        user, settings = account()
        with Peer() as peer, Instance({**relay_to(peer), **settings}, start=False) as mx:
            out = self.out(mx)
            mx.set(forward_path=f"{out}forward-$user")
            self.aliases(mx, f"{user}: {user}, copy@rcpt.example\n")
            with open(f"{out}forward-{user}", "w") as file:
                file.write("moved@rcpt.example\n")
            if os.geteuid() == 0:
                os.chown(file.name, pwd.getpwnam(user).pw_uid, -1)
            mx.start()
            send(mx.port, "ada@sender.example", [f"{user}@{TO}"], mail("one"))
            peer.wait_messages(2)
            mx.wait_empty_queue()
            self.assertEqual(sorted(r for m in peer.messages for r in m.recipients),
                             ["copy@rcpt.example", "moved@rcpt.example"])
            self.assertEqual(mx.spool_box(user).messages(), [])

    def test_the_owner_of_a_list_and_not_the_poster_is_told_what_fails(self):
        _, settings = account()
        with Peer() as peer, Instance({**relay_to(peer), **settings}, start=False) as mx:
            self.aliases(mx, 'list: "|echo it is broken; exit 70", member@rcpt.example\n'
                             'owner-list: boss@rcpt.example\n'
                             'around: far@rcpt.example\nowner-around: boss@rcpt.example\n')
            mx.start()
            send(mx.port, "ada@rcpt.example", [f"list@{TO}"], mail("one"), rcpt="NOTIFY=NEVER ORCPT=rfc822;x@y.example",
                 mail="ENVID=post RET=HDRS")
            send(mx.port, "ada@rcpt.example", [f"around@{TO}"], mail("two", extra=f"Delivered-To: around@{TO}\r\n"))
            peer.wait_messages(3)
            mx.wait_empty_queue()
            by_reader = {m.recipients[0]: m for m in peer.messages if m.recipients[0] != "boss@rcpt.example"}
            self.assertEqual(list(by_reader), ["member@rcpt.example"])
            member = by_reader["member@rcpt.example"]
            self.assertEqual(member.sender, f"owner-list@{TO}")
            told = sorted(m.content.decode() for m in peer.messages if m.recipients == ["boss@rcpt.example"])
            self.assertEqual(len(told), 2)
            for notice, name, status in zip(sorted(told, key=lambda n: "Status: 5.4.6" in n), ("list", "around"),
                                            ("5.3.0", "5.4.6")):
                self.assertIn(f"Final-Recipient: rfc822; {name}@{TO}", notice)
                self.assertIn(f"Status: {status}", notice)
                self.assertNotIn("Original-Envelope-Id", notice)
                self.assertNotIn("y.example", notice)
            self.assertEqual([m.sender for m in peer.messages].count(""), 2)
            mx.wait_log(rf"to=<list@{TO}>, failed, owner-list@{TO} is told by \w+: ")
            mx.wait_log(rf"to=<list@{TO}>, relay=local, .*status=sent \(delivered to the list")

    def test_a_mailbox_limit_below_the_message_limit_is_an_error_and_mail_waits(self):
        user, settings = account()
        settings["virtual_mailbox_maps"] = inline({"v@virtual.test.example": "v/"})
        with Instance(settings, start=False) as mx:
            self.assertEqual(mx.tool("penstock", "check").returncode, 0)
            mx.set(message_size_limit="52428800", mailbox_size_limit="51200000", virtual_mailbox_limit="51200000")
            checked = mx.tool("penstock", "check")
            self.assertEqual(checked.returncode, 78)
            for service, setting in (("local", "mailbox_size_limit"), ("virtual", "virtual_mailbox_limit")):
                self.assertRegex(checked.stdout, rf"error: \S+:\d+: service {service} will not start: {setting} = "
                                                 r"51200000 is smaller than message_size_limit \(52428800\)")
            mx.start()
            send(mx.port, "ada@sender.example", [f"{user}@{TO}", "v@virtual.test.example"], mail("one"))
            mx.wait_log(r"[^_]mailbox_size_limit = 51200000 is smaller than message_size_limit")
            mx.wait_log(r"virtual_mailbox_limit = 51200000 is smaller than message_size_limit")
            self.assertEqual(len(mx.queue()), 1)
            mx.set(mailbox_size_limit="0", virtual_mailbox_limit="60000000")
            mx.tool("penstock", "reload", check=True)
            mx.spool_box(user).wait(1)
            mx.wait_empty_queue()
            self.assertEqual(mx.tool("penstock", "check").returncode, 0)

    def test_mail_whose_command_takes_too_long_comes_back_with_the_reason(self):
        _, settings = account()
        with Peer() as back, Instance({**relay_to(back, "sender.example"), **settings, "command_time_limit": "5s"},
                                      start=False) as mx:
            self.aliases(mx, 'slow: "|echo begun; exec sleep 1000"\n')
            mx.start()
            send(mx.port, "ada@sender.example", [f"slow@{TO}"], mail("one"))
            notice = back.wait_messages(1)[0].content
            self.assertIn(b"Status: 5.3.0", notice)
            self.assertIn(b"Diagnostic-Code: x-unix; begun", notice)
            mx.wait_log(r"dsn=5\.3\.0, status=bounced \(Command time limit exceeded: .*Command output: begun\)")
            mx.wait_empty_queue()

    def test_killed_while_a_command_runs_nothing_is_lost_or_cut(self):
        _, settings = account()
        with Instance(settings, start=False) as mx:
            out = self.out(mx)
            os.mkfifo(out + "gate")
            os.chmod(out + "gate", 0o666)
            self.aliases(mx, f'slow: "|cat > {out}part.$$; read go < {out}gate; mv {out}part.$$ {out}done.$$"\n')
            mx.start()
            content = mail("kept", "line\r\n" * 20000)  # small enough to be in hand before the command begins
            send(mx.port, "ada@sender.example", [f"slow@{TO}"], content)
            whole = content.replace(b"\r\n", b"\n")[-100000:].decode()

            def parts(kind):
                return [n for n in os.listdir(out) if n.startswith(kind) and self.read(out + n).endswith(whole)]
            eventually(lambda: parts("part"), "the command has read the message")
            # The process that forks workers, the worker that feeds the command, spare workers; and the program.
            self.assertGreaterEqual(mx.kill("become") + mx.kill("local"), 3)
            eventually(lambda: len(parts("part")) > 1, "the message is tried again", 60)
            self.assertEqual(len(mx.queue()), 1)
            with open(out + "gate", "w") as gate:
                gate.write("go\n")
            eventually(lambda: parts("done"), "it is done")
            mx.wait_empty_queue()

    def test_a_command_ends_with_the_queue_manager_that_asked_for_it(self):
        _, settings = account()
        for size in (20, 200000):  # in the job itself, and in a spool file
            with self.subTest(size), Instance(settings, start=False) as mx:
                out = self.out(mx)
                os.mkfifo(out + "gate")
                os.chmod(out + "gate", 0o666)
                self.aliases(mx, f'slow: "|head -c 100 > {out}part.$$; read go < {out}gate; cat >> {out}part.$$; '
                                 f'mv {out}part.$$ {out}done.$$"\n')
                mx.start()
                send(mx.port, "ada@sender.example", [f"slow@{TO}"], mail("kept", "line\r\n" * size))

                def parts(kind):
                    return [n for n in os.listdir(out) if n.startswith(kind)]
                first = eventually(lambda: parts("part"), "the command runs")[0]
                self.assertEqual(mx.kill("qmgr"), 1)
                eventually(lambda: not runs(int(first.split(".")[1])), "it is killed")
                eventually(lambda: len(parts("part")) > 1, "the message is tried again", 60)
                with open(out + "gate", "w") as gate:
                    gate.write("go\n")
                eventually(lambda: parts("done"), "it is done")
                mx.wait_empty_queue()
                self.assertEqual(len(parts("done")), 1)
                self.assertEqual(mx.log().count("status=sent"), 1)

    def test_another_transport_takes_the_mail_of_local_names(self):
        user, settings = account()
        with Peer() as peer, Instance({**settings, "transport_maps": ""}, start=False) as mx:
            hop = f"smtp:[127.0.0.1]:{peer.port}"
            # Mapped once, when it came in: not again for the transport, or the copy would go elsewhere too.
            mx.set(mailbox_transport_maps=inline({user: hop}), fallback_transport=hop, relay_domains="copy.example",
                   virtual_alias_maps=inline({f"{user}@{TO}": f"{user}@{TO}, x@copy.example"}),
                   transport_maps=inline({"copy.example": "discard:"}))
            mx.start()
            for name in (user, "no-such-user"):
                send(mx.port, "ada@sender.example", [f"{name}@{TO}"], mail(name))
                got = peer.wait_messages(1)[-1] if name == user else peer.wait_messages(2)[-1]
                self.assertEqual(got.recipients, [f"{name}@{TO}"])
                self.assertNotIn(b"Delivered-To", got.content)
            mx.wait_empty_queue()
            mx.wait_log(rf"to=<{user}@{TO}>, relay=local, .*status=sent \(passed to smtp:\S+ as \w+\)")

    def test_procmail_sorts_by_mailbox_command(self):
        if unavailable():
            self.skipTest(unavailable())
        root = os.path.join(ROOTS, "procmail")
        subprocess.run([os.path.join(TOP, "scripts", "unpack-peer"), root, "procmail"], check=True)
        user, settings = account()
        with Instance(settings, start=False) as mx:
            out = self.out(mx)
            rules = mx.write(
                "rules", f"MAILDIR={out}\nDEFAULT={out}inbox\nLOGFILE={out}log\n:0:\n* ^Subject:.*spam\nspam\n"
            )
            os.chmod(rules, 0o644)
            # The peers' directory may be closed to others: copy the program to where the user can run it.
            program = os.path.join(mx.dir, "procmail")
            subprocess.run(["install", "-m", "755", os.path.join(root, "usr/bin/procmail"), program], check=True)
            mx.set(mailbox_command=f"{program} -a \"$EXTENSION\" {rules}")
            mx.start()
            for subject in ("spam for you", "news"):
                send(mx.port, "ada@sender.example", [f"{user}@{TO}"], mail(subject))
            mx.wait_empty_queue()
            self.assertIn("Subject: spam for you", self.read(out + "spam"))
            self.assertRegex(self.read(out + "inbox"), r"(?s)^From ada@sender\.example .*Delivered-To: .*Subject: news")

    def test_unknown_recipients_are_refused_at_rcpt_in_every_class(self):
        user = system_user()
        settings = {
            "local_recipient_maps": "proxy:unix:passwd.byname $alias_maps",
            "alias_maps": inline({"list": user}),
            "relay_domains": "relay.test.example",
            "relay_recipient_maps": inline({"known@relay.test.example": "x"}),
            "virtual_mailbox_maps": inline({"known@virtual.test.example": "known/"}),
            "recipient_delimiter": "+",
            "virtual_alias_domains": "alias.test.example",
            "virtual_alias_maps": inline({"known@alias.test.example": user}),
            "unknown_local_recipient_reject_code": "450",
            "unknown_relay_recipient_reject_code": "551",
            "unknown_virtual_alias_reject_code": "552",
            "unknown_virtual_mailbox_reject_code": "553",
        }
        codes = {
            TO: "450 4",
            "relay.test.example": "551 5",
            "alias.test.example": "552 5",
            "virtual.test.example": "553 5",
        }
        with Instance(settings) as mx, Client(mx.port) as client:
            client.expect("MAIL FROM:<ada@sender.example>", "250")
            for local, known in ((TO, user), (TO, "list"), ("relay.test.example", "known"),
                                 ("virtual.test.example", "known"), ("alias.test.example", "known")):
                client.expect(f"RCPT TO:<{known}@{local}>", "250")
                client.expect(f"RCPT TO:<{known}+x@{local}>", "250")
                self.assertRegex(client.command(f"RCPT TO:<no-such-user@{local}>"),
                                 rf"^{codes[local]}\.1\.1 .*User unknown in ")


class Virtual(Suite):
    def test_no_part_of_an_address_becomes_an_identity_or_a_path(self):
        for setting, rule in (
            ("virtual_uid_maps", "/^([0-9]+)@/ $1"),
            ("virtual_gid_maps", "/^([0-9]+)@/ $1"),
            ("virtual_mailbox_maps", "/^([0-9]+)@/ $1/"),
        ):
            with self.subTest(setting), Instance(
                {
                    "virtual_mailbox_maps": "static:box/",
                    "virtual_uid_maps": "static:20000",
                    "virtual_gid_maps": "static:20000",
                },
                start=False,
            ) as mx:
                mx.set(**{setting: "regexp:" + mx.write("rules", rule + "\n")})
                self.assertRegex(mx.tool("penstock", "check").stdout, f"error: .*{setting}.*not allowed in this table")
                mx.start()
                send(mx.port, "ada@sender.example", ["31337@virtual.test.example"], mail())
                mx.wait_log(r"31337@virtual\.test\.example.*status=deferred .*not allowed in this table")
                self.assertEqual(os.listdir(mx.virtual_base), [])


class Pipe(Suite):
    read, out = Local.read, Local.out

    def service(self, mx, words):
        user = "nobody:nogroup" if os.geteuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        one = {"robot_destination_recipient_limit": "1"} if "D" in words else {}
        mx.set(relay_domains="pipe.example", transport_maps=inline({"pipe.example": "robot:Some.Where"}), **one)
        mx.set_services({"robot": f"unix - n n - 5 pipe {words} user={user} argv=/bin/sh {mx.dir}/robot"
                                  " -s ${sender} -n ${nexthop} ${recipient}"})

    def test_a_pipe_service_takes_several_recipients_in_one_command(self):
        with Instance(start=False) as mx:
            out = self.out(mx)
            mx.write("robot", f'printf "%s\\n" "$@" > {out}words\ncat > {out}body\necho run >> {out}runs\n')
            self.service(mx, "flags=Fhu.")
            mx.start()
            send(mx.port, "ada@sender.example", ["Jo@pipe.example", '"a b"@pipe.example'], mail("one", ".dot\r\n"))
            mx.wait_empty_queue()
            self.assertEqual(self.read(out + "runs"), "run\n")
            words = self.read(out + "words").split("\n")
            self.assertEqual(words[:4], ["-s", "ada@sender.example", "-n", "some.where"])
            self.assertEqual(sorted(words[4:6]), ["a b@pipe.example", "jo@pipe.example"])
            self.assertRegex(self.read(out + "body"), r"(?s)^From ada@sender\.example .*\n\n\.\.dot\n$")
            mx.wait_log(
                r"pipe\[\d+\]: \w+: to=<Jo@pipe\.example>, relay=robot, .*status=sent \(delivered via robot service\)"
            )

    def test_what_a_command_says_of_its_success_is_logged_and_told(self):
        with Peer() as back, Instance({"relayhost": f"[127.0.0.1]:{back.port}"}, start=False) as mx:
            mx.write("robot", 'cat > /dev/null\necho filed as\necho ticket 17\n')
            self.service(mx, "flags=u")
            mx.start()
            send(mx.port, "ada@sender.example", ["jo@pipe.example"], mail("one"), rcpt="NOTIFY=SUCCESS")
            notice = back.wait_messages(1)[0].content
            mx.wait_log(
                r"to=<jo@pipe\.example>, relay=robot, .*status=sent "
                r"\(delivered via robot service \(filed as ticket 17\)\)"
            )
            self.assertIn(b"filed as ticket 17", notice)
            mx.wait_empty_queue()

    def test_flags_quote_and_end_the_content_and_make_the_delivery_final(self):
        for flags, wanted, action in (("B>X", "a\n>From b\n\n", "delivered"), ("u", "a\nFrom b\n", "relayed")):
            with self.subTest(flags), Peer() as back, \
                    Instance({"relayhost": f"[127.0.0.1]:{back.port}"}, start=False) as mx:
                out = self.out(mx)
                mx.write("robot", f"cat > {out}body\n")
                self.service(mx, "flags=" + flags)
                mx.start()
                send(mx.port, "ada@sender.example", ["jo@pipe.example"], mail("one", "a\r\nFrom b\r\n"),
                     rcpt="NOTIFY=SUCCESS")
                notice = back.wait_messages(1)[0].content.decode()
                self.assertIn(f"\r\nFinal-Recipient: rfc822; jo@pipe.example\r\nAction: {action}\r\n",
                              re.sub(r"\r\nOriginal-Recipient: [^\r]*", "", notice))
                self.assertEqual(self.read(out + "body").split("\n\n", 1)[1], wanted)
                mx.wait_empty_queue()

    def test_what_a_command_says_decides_over_the_message(self):
        with Instance({"minimal_backoff_time": "1h", "maximal_backoff_time": "1h"}, start=False) as mx:
            out = self.out(mx)
            mx.write("robot", f'cat > {out}body\necho "4.2.2 box is full"\nexit 1\n')
            self.service(mx, "flags=DR")
            mx.start()
            send(mx.port, "", ["jo@pipe.example"], mail())
            mx.wait_log(r"to=<jo@pipe\.example>, relay=robot, .*dsn=4\.2\.2, status=deferred \(box is full\)")
            self.assertIn("Delivered-To: jo@pipe.example\n", self.read(out + "body"))
            mx.write("robot", "exit 67\n")
            mx.flush()
            mx.wait_log(r"to=<jo@pipe\.example>, relay=robot, .*dsn=5\.1\.1, status=bounced \(user unknown\)")
            mx.wait_empty_queue()

    def test_a_command_sees_the_directory_of_chroot_as_the_whole_file_system(self):
        if os.geteuid() != 0:
            self.skipTest("only root can change a process's root")
        with Instance(start=False) as mx:
            jail = os.path.join(mx.dir, "jail")
            needed = {"/bin/sh"} | set(
                re.findall(
                    r"(/\S+)", subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True, check=True).stdout
                )
            )
            for path in needed:
                os.makedirs(jail + os.path.dirname(path), exist_ok=True)
                shutil.copy(path, jail + path)
            os.mkdir(os.path.join(jail, "out"))
            os.chmod(os.path.join(jail, "out"), 0o777)
            mx.set(relay_domains="pipe.example", transport_maps=inline({"pipe.example": "robot:"}))
            mx.set_services(
                {"robot": f"unix - n n - 5 pipe user=nobody:nogroup chroot={jail} directory=/out argv=/bin/sh /script"}
            )
            with open(os.path.join(jail, "script"), "w") as script:
                script.write("while read line; do echo \"$line\"; done > got\necho /* > seen\n")
            mx.start()
            send(mx.port, "ada@sender.example", ["jo@pipe.example"], mail("one"))
            mx.wait_empty_queue()
            self.assertIn("Subject: one", self.read(os.path.join(jail, "out/got")))
            self.assertEqual(set(self.read(os.path.join(jail, "out/seen")).split()),
                             {"/out", "/script"} | {"/" + p.split("/")[1] for p in needed})
            self.assertEqual(os.stat(os.path.join(jail, "out/got")).st_uid, 65534)

    def test_a_service_that_would_do_harm_does_not_start(self):
        user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        with Instance(start=False) as mx:
            mx.set_services({"rooted": "unix - n n - 5 pipe user=root argv=/bin/true",
                             "doubled": f"unix - n n - 5 pipe flags=D user={user} argv=/bin/true"})
            mx.set(relay_domains="root.example, pipe.example",
                   transport_maps=inline({"root.example": "rooted:", "pipe.example": "doubled:"}))
            mx.start()
            send(mx.port, "", ["jo@root.example", "jo@pipe.example"], mail())
            mx.wait_log(r"rooted: user=root: a command never runs as root")
            mx.wait_log(r"to=<jo@pipe\.example>, .*status=sent")  # flag D forces this: one recipient at a time
            self.assertEqual(len(mx.queue()), 1)


if __name__ == "__main__":
    unittest.main()
