"""The queue seen and changed by the tools, and a wrong configuration."""
import grp
import json
import os
import shutil
import subprocess

from harness import *


class Tools(Suite):
    def test_the_queue_is_listed_and_a_message_removed(self):
        for name in ("penqueue", "pensuper"):
            if not os.path.exists(os.path.join(BIN, name)):
                self.skipTest(f"{name} is not built")
        with Peer() as peer:
            settings = relay_to(peer)
            peer.close()
            with Instance(settings) as mx:
                reply = send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                identity = reply.split()[-1]
                mx.wait_log(r"to=<a@rcpt\.example>, .*status=deferred")
                entry = eventually(lambda: [e for e in mx.queue() if e["queue_name"] == "deferred"], "deferred")[0]
                self.assertEqual(entry["queue_id"], identity)
                self.assertEqual(entry["sender"], "ada@sender.example")
                self.assertEqual(entry["recipients"][0]["address"], "a@rcpt.example")
                self.assertTrue(entry["recipients"][0]["delay_reason"])
                listing = mx.tool("penqueue", "-p", check=True).stdout
                self.assertIn(identity, listing)
                self.assertIn("a@rcpt.example", listing)
                mx.tool("pensuper", "-d", identity, check=True)
                self.assertEqual(mx.queue(), [])
                self.assertIn("queue is empty", mx.tool("penqueue", "-p", check=True).stdout)

    def test_the_queue_has_a_shape(self):
        with Peer() as peer:
            settings = relay_to(peer)
            peer.close()
            with Instance(settings) as mx:
                send(mx.port, "ada@sender.example", ["a@one.example", "b@two.example", "c@two.example"], mail())
                send(mx.port, "", ["a@one.example"], mail())
                eventually(lambda: [e["queue_name"] for e in mx.queue()] == ["deferred"] * 2, "both are deferred")

                def rows(*options):
                    lines = mx.tool("penshape", *options, check=True).stdout.splitlines()
                    return {name: [int(n) for n in numbers] for name, *numbers in map(str.split, lines[1:])}
                self.assertEqual(rows("-b", "2", "deferred"),
                                 {"TOTAL": [3, 3, 0], "one.example": [2, 2, 0], "two.example": [1, 1, 0]})
                self.assertEqual(rows("-s", "-b", "2", "deferred"),
                                 {"TOTAL": [2, 2, 0], "sender.example": [1, 1, 0], "MAILER-DAEMON": [1, 1, 0]})
                self.assertEqual(rows("-b", "1", "--domain", "two.example", "deferred")["TOTAL"], [2, 2])
                self.assertEqual(rows("-b", "1", "hold"), {"TOTAL": [0, 0]})
                self.assertEqual(rows("-b", "1"), {"TOTAL": [0, 0]}, "incoming and active by default")
                self.assertEqual(rows("-b", "1", "-n", "1", "deferred"), {"TOTAL": [3, 3], "one.example": [2, 2]})
                self.assertEqual(
                    rows("-b", "1", "-w", "90", "-N", "1", "-p", "-m", "1", "deferred")["two.example"], [1, 1]
                )
                head = mx.tool("penshape", "deferred", check=True).stdout.splitlines()[0].split()
                self.assertEqual(head, ["T", *(str(5 << i) for i in range(9)), "1280+"])  # the columns of qshape
                first = json.loads(mx.tool("penshape", "-j", "deferred", check=True).stdout.splitlines()[0])
                self.assertEqual((first["domain"], first["messages"], first["ages"][0]),
                                 ("one.example", 2, {"minutes": 5, "messages": 2}))
                self.assertEqual(mx.tool("penshape", "-b", "many").returncode, os.EX_USAGE)
                self.assertEqual(mx.tool("penshape", "nowhere").returncode, os.EX_USAGE)

    def test_scripts_write_to_the_log(self):
        with Instance() as mx:
            mx.tool("penlog", "-p", "warn", "the disk is", "nearly full", check=True)
            mx.wait_log(r"(?m)penstock/penlog\[\d+\]: warning: the disk is nearly full$")
            mx.tool("penlog", "-t", "backup", "done\x1b[2J", check=True)
            mx.wait_log(r"(?m) backup\[\d+\]: done\?\[2J$")
            self.assertEqual(mx.tool("penlog", "-p", "loud", "x").returncode, os.EX_USAGE)

    def test_who_may_list_and_flush_the_queue_is_a_setting(self):
        if os.geteuid() != 0:
            self.skipTest("only root can ask as somebody else")
        drop = grp.getgrgid(os.getgrouplist("daemon", 1)[0])  # any group but root's
        nobody = {"user": 65534, "group": drop.gr_gid, "extra_groups": []}
        with Instance({"setgid_group": drop.gr_name, "authorized_mailq_users": "!nobody, static:anyone",
                       "authorized_flush_users": "root"}) as mx:
            where = os.path.join(mx.dir, "bin")  # where everybody may look
            os.makedirs(where)

            def ask(name, *options):
                shutil.copy(os.path.join(BIN, name), where)
                done = subprocess.run([os.path.join(where, name), "-c", mx.etc, *options],
                                      capture_output=True, text=True, cwd="/", **nobody)
                return done.returncode, done.stderr

            for command, setting in (
                (("penqueue", "-p"), "authorized_mailq_users"),
                (("penshape",), "authorized_mailq_users"),
                (("pensuper", "-n", "-d", "ALL"), "authorized_mailq_users"),
                (("penqueue", "-f"), "authorized_flush_users"),
            ):
                code, text = ask(*command)
                self.assertEqual(code, os.EX_NOPERM, (command, text))
                self.assertIn(setting, text)
            mx.tool("penqueue", "-p", check=True)
            mx.tool("penqueue", "-f", check=True)

    def test_users_look_at_the_queue_by_the_group_of_the_commands(self):
        if os.geteuid() != 0:
            self.skipTest("needs root: makes commands setgid and runs them as another user")
        if sanitizers:
            self.skipTest("LeakSanitizer ends a setgid process, which it may not look into")
        with Peer() as peer:
            settings = relay_to(peer)
            peer.close()
            with Instance({**settings, "minimal_backoff_time": "1h", "maximal_backoff_time": "1h"}) as mx:
                where = os.path.join(mx.dir, "bin")
                os.makedirs(where)
                if os.statvfs(where).f_flag & os.ST_NOSUID:
                    self.skipTest("the file system of the scratch directory is nosuid")
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                mx.wait_log("status=deferred")

                def ask(name, *words):
                    return subprocess.run([os.path.join(where, name), *words], capture_output=True, text=True, cwd="/",
                                          user=65534, group=65534, extra_groups=[])
                gid = os.stat(mx.path("spool", "public")).st_gid
                for name, words, said in (
                    ("penqueue", ["-c", mx.etc, "-p"], "a@rcpt.example"),
                    ("mailq", ["-C", mx.etc], "a@rcpt.example"),
                    ("penshape", ["-c", mx.etc, "active", "deferred"], "rcpt.example"),
                ):
                    shutil.copy(os.path.join(BIN, name), where)
                    self.assertEqual(ask(name, *words).returncode, os.EX_UNAVAILABLE, name)
                    shutil.chown(os.path.join(where, name), 0, gid)
                    os.chmod(os.path.join(where, name), 0o2755)
                    done = ask(name, *words)
                    self.assertEqual(done.returncode, 0, done)
                    self.assertIn(said, done.stdout)
                # The group opens the socket and nothing else: a log that only the group may read stays closed.
                log = mx.write("for-the-group", "x")
                os.chown(log, 0, gid)
                os.chmod(log, 0o040)
                self.assertNotEqual(ask("penqueue", "-c", mx.etc, "--log", log).returncode, 0)
                self.assertIn("Permission denied", ask("penqueue", "-c", mx.etc, "--log", log).stderr)

    def test_a_message_is_listed_at_every_moment_of_being_tried_again(self):
        with Peer() as peer:
            settings = relay_to(peer)
            peer.close()
            with Instance({**settings, "minimal_backoff_time": "1s", "maximal_backoff_time": "1s"}) as mx:
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                for i in range(300):
                    mx.flush()
                    self.assertEqual(
                        {e["recipients"][0]["address"] for e in mx.queue()}, {"a@rcpt.example"}, f"look {i}"
                    )

    def test_status_tells_what_runs(self):
        with Instance() as mx:
            status = mx.status()
            self.assertIsNotNone(status)
            self.assertIn("qmgr", json.dumps(status))

    def test_a_broken_main_cf_is_told_with_file_and_line(self):
        with Instance(start=False) as mx:
            with open(mx.path("etc", "main.cf"), "a") as out:
                out.write("message_size_limit = many\n")
            with open(mx.path("etc", "main.cf")) as text:
                line = text.read().count("\n")
            done = mx.tool("penstock", "check")
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stdout + done.stderr, rf"main\.cf(:|, line ){line}.*message_size_limit")

    def test_a_broken_map_defers_and_does_not_bounce(self):
        with Instance({"virtual_mailbox_maps": "fail:test", "smtpd_reject_unlisted_recipient": "no"}) as mx:
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                reply = client.command("RCPT TO:<v@virtual.test.example>")
                self.assertRegex(reply, r"^(250|451) ")

    def test_a_reload_refuses_no_connection_and_new_settings_apply(self):
        with Peer() as peer, Instance(
            {**relay_to(peer), "virtual_mailbox_maps": inline({"v@virtual.test.example": "v/"})}
        ) as mx:
            for i, address in enumerate(("a@rcpt.example", "v@virtual.test.example", "x@local.test.example")):
                send(mx.port, "", [address], mail(f"before {i}"))  # so that every program runs
            mx.wait_empty_queue()
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                mx.set(virtual_mailbox_maps=inline({"w@virtual.test.example": "w/"}))
                mx.reload()
                eventually(lambda: len(mx.pids().get("smtpd", [])) == 2, "the old smtpd serves beside the new one")
                # The open session continues with the settings it began with.
                client.expect("RCPT TO:<a@rcpt.example>", "250")
                client.expect("DATA", "354")
                client.raw(mail("across the reload") + b".\r\n")
                self.assertRegex(client.reply(), "^250 ")
                client.expect("NOOP", "250")
                client.expect("QUIT", "221")
            eventually(lambda: len(mx.pids().get("smtpd", [])) == 1, "the old smtpd ended with its last session")
            for i in range(20):
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail(f"during {i}"))
            peer.wait_messages(22)

            def taken():
                try:
                    return send(mx.port, "ada@sender.example", ["w@virtual.test.example"], mail("after"))
                except (Refused, OSError):
                    return None
            eventually(taken, "the new mailbox is known")
            mx.virtual_box("w").wait(1)
            mx.wait_empty_queue()

    def test_a_stop_tells_sessions_of_old_programs_too(self):
        with Instance({"stop_drain_time": "5s"}) as mx:
            with Client(mx.port) as old:
                mx.reload()
                eventually(lambda: len(mx.pids().get("smtpd", [])) == 2, "two of smtpd")
                with Client(mx.port) as new:
                    mx.stop()
                    for session in (old, new):
                        self.assertRegex(session.reply(), "^421 4.3.2 ")
            self.assertFalse(mx.pids())

    def test_whoever_did_not_start_the_mail_system_can_neither_see_nor_stop_it(self):
        if os.geteuid() != 0:
            self.skipTest("needs root: runs the commands as another user")
        with Instance() as mx:
            for command in ("status", "stop", "reload", "abort"):
                done = subprocess.run(
                    [os.path.join(BIN, "penstock"), "-c", mx.etc, command],
                    capture_output=True,
                    text=True,
                    user=65534,
                    group=65534,
                    extra_groups=[],
                    cwd="/",
                )
                self.assertEqual(done.returncode, 77, done)
                self.assertIn("known to whoever starts it", done.stderr)
            self.assertEqual(mx.status()["running"], True)

    def test_names_of_master_cf_reach_a_terminal_as_plain_text(self):
        with Instance(start=False) as mx:
            with open(os.path.join(mx.etc, "master.cf"), "ab") as out:
                out.write(b"odd\x1b[2J\xff unix - - n - - smtp\n")
            mx.start()
            for words in ((), ("--json",)):
                shown = mx.tool("penstock", "status", *words, check=True, text=False).stdout
                self.assertIn(b"odd", shown)
                self.assertFalse(set(shown) - set(range(32, 127)) - {10}, shown)

    def test_stop_and_start_keep_the_queue(self):
        peer = Peer()
        port = peer.port
        settings = relay_to(peer)
        peer.close()
        settings.update({"minimal_backoff_time": "1s", "maximal_backoff_time": "2s", "queue_run_delay": "1s"})
        with Instance(settings) as mx:
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
            mx.wait_log("status=deferred")
            mx.stop()
            eventually(lambda: not mx.pids(), "stopped")
            with Peer(port=port) as up:
                mx.start()
                up.wait_messages(1, seconds=60)
                mx.wait_empty_queue()


if __name__ == "__main__":
    unittest.main()
