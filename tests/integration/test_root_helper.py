"""Who is root in a running suite, and what the helper that is can be asked for: docs/root-helper.md."""
import ctypes
import grp
import os
import pwd
import re
import signal
import socket
import struct
import threading

from harness import *
from instance import mail_owner, queue_owner
from test_confinement import helpers_of
from test_crash import system_user

DOMAIN = "virtual.test.example"
PIDFD_OPEN, PIDFD_GETFD = 434, 438
WORKER, POSTMAN, CONNECTION = 1, 2, 3
RIGHTS = {"setgid": 6, "setuid": 7, "setpcap": 8, "sys_chroot": 18, "dac_read_search": 2}
SERVICES = {"piped": "unix - n n - 5 pipe\n  user=games argv=/bin/sh -c $nexthop - ${recipient}",
            "spawned": "unix - n n - 5 spawn\n  user=games argv=/bin/cat"}
SETTINGS = {"relay_domains": "piped.example", "transport_maps": "inline:{ { piped.example = piped:true } }",
            "virtual_mailbox_maps": "inline:{ { box@virtual.test.example = box } "
                                    "{ other@virtual.test.example = other } }",
            "minimal_backoff_time": "1s", "maximal_backoff_time": "1s"}


def status_of(pid):
    with open(f"/proc/{pid}/status") as text:
        return dict(line.rstrip("\n").split(":\t", 1) for line in text if ":\t" in line)


def uids_of(pid):
    return {int(uid) for uid in status_of(pid)["Uid"].split()}


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as text:
        return [int(child) for child in text.read().split()]


def below(pid):
    """All processes that come from this one."""
    found = []
    for child in children_of(pid):
        found += [child, *below(child)]
    return found


def request(kind, uid=0, gid=0, name=b""):
    return b"PEN\x01" + struct.pack("<III", kind, uid, gid) + name.ljust(256, b"\0")


def table_request(path):
    return b"PEN\x01tabl" + path.encode().ljust(4096, b"\0")


def roots_processes(mx):
    """Those of the instance, which all have its directory on their command line."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline") as text:
                words = text.read().split("\0")
            if mx.etc in words and 0 in uids_of(name) and status_of(name)["State"][0] != "Z":
                found.append(int(name))
        except OSError:
            pass  # it has ended
    return found


def socket_of(mx, pid):
    """The program's end of the socket to the helper, as whoever took the program over has it: of its sockets of this
    type, beside the status socket, the one that master made."""
    master = mx.status()["master"]
    libc = ctypes.CDLL(None, use_errno=True)
    process = libc.syscall(PIDFD_OPEN, pid, 0)
    for name in sorted(os.listdir(f"/proc/{pid}/fd"), key=int):
        if name == "5" or not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
            continue
        fd = libc.syscall(PIDFD_GETFD, process, int(name), 0)
        if fd < 0:
            raise unittest.SkipTest("here nobody may have another process's descriptors")
        taken = socket.socket(fileno=fd)
        if taken.family == socket.AF_UNIX and taken.type & 0xf == socket.SOCK_SEQPACKET and \
                struct.unpack("3i", taken.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[:2] == (master, 0):
            os.close(process)
            return taken
        taken.close()
    raise AssertionError("no socket to a helper")


def encoded_policy():
    """As local sends it at its start: what begins like one is no request."""
    return b"\x03" + b"\0" * 40


def running(mx):
    return {s["program"]: s["pid"] for s in mx.status()["services"] if s["state"] == "serving"}


def wake(mx, *services):
    for service in services:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(mx.path("spool", "private", service))


def connected(mx, service="spawned"):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(mx.path("spool", "private", service))
    return connection


def started(mx, *programs):
    return eventually(lambda: set(programs) <= set(running(mx)) and running(mx), lambda: mx.status())


@unittest.skipIf(os.geteuid() != 0, "only root can become others")
class RootHelper(Suite):
    def test_only_the_keeper_master_and_one_helper_are_root(self):
        with Instance(SETTINGS, services=SERVICES, start=False) as mx:
            # Tables of every kind of program that only root may read.
            for name in ("passwords", "senders", "users"):
                os.chmod(mx.write(name, "who@there.example some:thing\n"), 0o600)
            mx.set(smtp_sasl_auth_enable="yes", smtp_sasl_password_maps=f"texthash:{mx.dir}/passwords",
                   smtpd_sender_restrictions=f"check_sender_access texthash:{mx.dir}/senders",
                   relocated_maps=f"texthash:{mx.dir}/users")
            mx.start()
            wake(mx, "local", "virtual", "piped", "bounce", "error", "verify", "spawned")
            send(mx.port, "ada@sender.example", [f"box@{DOMAIN}"], mail("one"))
            pids = started(mx, "smtpd", "qmgr", "trivial-rewrite", "local", "virtual", "pipe", "bounce", "error",
                           "verify", "spawn")
            mail_uid, queue_uid = (pwd.getpwnam(name).pw_uid for name in (mail_owner(), queue_owner()))
            for program, pid in pids.items():
                self.assertEqual(uids_of(pid), {queue_uid if program == "qmgr" else mail_uid}, program)
                self.assertEqual(children_of(pid), [] if program != "qmgr" or mail_uid == queue_uid
                                 else children_of(pid)[:1], program)
            (helper,) = helpers_of(mx)
            kernel = status_of(helper)
            self.assertEqual((kernel["Name"], uids_of(helper), kernel["Threads"]), ("become", {0}, "1"))
            kept = sum(1 << number for number in RIGHTS.values())
            self.assertEqual(int(kernel["CapPrm"], 16) & ~kept, 0)
            self.assertEqual(kernel["NoNewPrivs"], "0")
            # Those that it has made ahead end when they have waited long enough.
            eventually(lambda: sorted(roots_processes(mx)) == sorted([*mx.pids()["keeper"], mx.status()["master"],
                                                                      helper]),
                       lambda: roots_processes(mx))

    def test_a_helper_refuses_root_mail_accounts_and_what_is_not_the_services(self):
        mail_entry, queue_entry = pwd.getpwnam(mail_owner()), pwd.getpwnam(queue_owner())
        games = pwd.getpwnam("games")
        asked = {
            "virtual": [request(WORKER, 0, 20000), request(WORKER, 20000, 0),
                        request(WORKER, mail_entry.pw_uid, 20000), request(WORKER, queue_entry.pw_uid, 20000),
                        request(WORKER, 20000, mail_entry.pw_gid),
                        request(WORKER, games.pw_uid, games.pw_gid, b"games"), request(9, 20000, 20000),
                        b"run /bin/sh"],
            "pipe": [request(WORKER, games.pw_uid, games.pw_gid), request(WORKER, 0, 0, b"root"), request(POSTMAN)],
            "local": [request(WORKER, 0, 0, b"root"), request(WORKER, games.pw_uid, games.pw_gid), request(POSTMAN),
                      request(WORKER, mail_entry.pw_uid, mail_entry.pw_gid, mail_owner().encode()),
                      request(CONNECTION)],
            # The last one is good, but comes without a connection.
            "spawn": [request(WORKER), request(POSTMAN), request(WORKER, games.pw_uid, games.pw_gid),
                      request(CONNECTION, 0, 0, b"root"), request(CONNECTION, games.pw_uid, games.pw_gid),
                      request(CONNECTION, queue_entry.pw_uid, queue_entry.pw_gid), request(CONNECTION)],
        }
        with Instance(SETTINGS, services=SERVICES) as mx:
            wake(mx, "local", "virtual", "piped", "spawned")
            pids = started(mx, *asked)
            for program, requests in asked.items():
                helper = socket_of(mx, pids[program])
                for wanted in requests:
                    with self.subTest(program, wanted=wanted):
                        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                        socket.send_fds(helper, [b"worker"], [theirs.fileno()])
                        theirs.close()
                        ours.settimeout(60)
                        ours.send(wanted)
                        self.assertEqual(ours.recv(100), b"")  # the process has ended
                        ours.close()
                helper.close()
                name = {"pipe": "piped", "spawn": "spawned"}.get(program, program)
                eventually(lambda: len(re.findall(rf"become\[\d+\]: warning: service {name}: refused: ", mx.log()))
                           == len(requests), lambda: mx.log())
            # They go on, and do what they are for.
            self.assertEqual({program: running(mx).get(program) for program in asked},
                             {program: pids[program] for program in asked})
            send(mx.port, "ada@sender.example", [f"box@{DOMAIN}", "jo@piped.example"], mail("one"))
            mx.wait_empty_queue()
            with connected(mx) as connection:
                connection.sendall(b"said")
                self.assertEqual(connection.recv(10), b"said")

    def test_nobody_gets_roots_group_or_one_that_opens_the_host(self):
        games = pwd.getpwnam("games")
        asked = {"local": [request(WORKER, games.pw_uid, 0, b"games")],
                 "virtual": [request(WORKER, 20000, grp.getgrnam(name).gr_gid) for name in ("disk", "shadow", "adm")]}
        with Instance(SETTINGS, services=SERVICES, start=False) as mx:
            # As some have it; what is delivered there needs no more than the user.
            os.chown(mx.mail_spool, 0, 0)
            os.chmod(mx.mail_spool, 0o775)
            mx.start()
            wake(mx, "local", "virtual")
            pids = started(mx, *asked)
            for program, requests in asked.items():
                with socket_of(mx, pids[program]) as helper:
                    for wanted in requests:
                        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                        socket.send_fds(helper, [b"worker"], [theirs.fileno()])
                        theirs.close()
                        ours.settimeout(60)
                        ours.send(wanted)
                        self.assertEqual(ours.recv(100), b"", (program, wanted))  # the process has ended
                        ours.close()
                eventually(lambda: len(re.findall(rf"become\[\d+\]: warning: service {program}: refused: ", mx.log()))
                           == len(requests), lambda: mx.log())

    def test_a_command_of_spawn_is_its_users_free_and_ends_with_the_program(self):
        script = "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp:)' /proc/$$/status; echo \"Pid:\t$$\"; " \
                 "echo \"Parent:\t$PPID\"; ls -l /proc/$$/fd 2> /dev/null | grep -c socket: ; read line; echo over"
        line = f"unix - n n - 2 spawn\n  user=games argv=/bin/sh -c {{ {script} }}"
        with Instance(SETTINGS, services={"spawned": line}) as mx, connected(mx) as connection, \
                connected(mx) as second:
            games, ours = pwd.getpwnam("games"), status_of(os.getpid())
            text = connection.makefile()
            kernel = dict(text.readline().rstrip("\n").split(":\t", 1) for _ in range(12))
            self.assertEqual(text.readline(), "3\n")  # input, output, error
            self.assertEqual(set(kernel["Uid"].split()), {str(games.pw_uid)})
            self.assertEqual(set(kernel["Gid"].split()), {str(games.pw_gid)})
            self.assertEqual(kernel["Groups"].split(), [str(games.pw_gid)])
            self.assertEqual((kernel["NoNewPrivs"], kernel["Seccomp"]), (ours["NoNewPrivs"], ours["Seccomp"]))
            self.assertEqual((int(kernel["CapPrm"], 16), int(kernel["CapAmb"], 16)), (0, 0))
            self.assertEqual(kernel["CapBnd"], ours["CapBnd"])  # set-id programs work
            self.assertEqual(uids_of(int(kernel["Parent"])), {games.pw_uid})
            # Not more of them at once than master.cf says.
            self.assertRegex(second.makefile().readline(), "Uid")
            with connected(mx) as third:
                third.settimeout(60)
                connection.sendall(b"\n")
                self.assertEqual(text.read(), "over\n")
                self.assertRegex(third.makefile().readline(), "Uid")
                # Who is killed takes them along.
                last = third.makefile()
                os.kill(started(mx, "spawn")["spawn"], signal.SIGKILL)
                last.read()
                self.assertEqual(third.recv(10), b"")
            self.assertNotIn("must not make", mx.log())

    def test_a_command_of_spawn_outlives_a_reload_and_the_next_has_the_new_line(self):
        with Instance(SETTINGS, services=SERVICES) as mx, connected(mx) as old:
            old.sendall(b"one")
            self.assertEqual(old.recv(10), b"one")
            mx.set_services({"spawned": "unix - n n - 5 spawn\n  user=games argv=/bin/echo new"})
            mx.tool("penstock", "reload", check=True)

            def answered():
                with connected(mx) as connection:
                    connection.shutdown(socket.SHUT_WR)
                    return connection.recv(10)
            eventually(lambda: answered() == b"new\n", answered)
            old.sendall(b"two")
            self.assertEqual(old.recv(10), b"two")

    def test_a_helper_of_spawn_that_is_killed_is_there_again_and_costs_no_command(self):
        with Instance(SETTINGS, services=SERVICES) as mx, connected(mx) as under_way:
            under_way.sendall(b"one")
            self.assertEqual(under_way.recv(10), b"one")
            pid = started(mx, "spawn")["spawn"]
            (helper,) = helpers_of(mx)
            os.kill(helper, signal.SIGKILL)
            mx.wait_log(r"spawn\[\d+\]: error: the helper that becomes users and opens tables for this process has "
                        "ended")
            under_way.sendall(b"two")
            self.assertEqual(under_way.recv(10), b"two")
            under_way.close()

            def echoed():
                with connected(mx) as connection:
                    connection.sendall(b"three")
                    return connection.recv(10)
            self.assertEqual(echoed(), b"three")
            self.assertNotEqual(started(mx, "spawn")["spawn"], pid)

    def test_a_process_of_pipe_is_the_commands_user_and_not_the_mail_systems(self):
        with Instance({**SETTINGS, "transport_maps": "inline:{ { piped.example = piped:id } }"}, start=False) as mx:
            out = os.path.join(mx.dir, "out")
            os.mkdir(out)
            os.chmod(out, 0o1777)
            mx.set_services({"piped": f"unix - n n - 5 pipe\n  user=games argv=/bin/sh {mx.dir}/script"})
            mx.write("script",
                     f"cat >/dev/null\ngrep -E '^(Uid|Cap|NoNewPrivs|Seccomp:)' /proc/$$/status > {out}/status\n")
            mx.start()
            send(mx.port, "ada@sender.example", ["jo@piped.example"], mail("one"))
            mx.wait_empty_queue()
            with open(f"{out}/status") as text:
                kernel = dict(line.rstrip("\n").split(":\t", 1) for line in text)
            self.assertEqual(set(kernel["Uid"].split()), {str(pwd.getpwnam("games").pw_uid)})
            self.assertEqual((kernel["NoNewPrivs"], kernel["Seccomp"]), ("0", "0"))
            self.assertEqual(int(kernel["CapPrm"], 16), 0)
            self.assertEqual(kernel["CapBnd"], status_of(os.getpid())["CapBnd"])  # set-id programs work

    def test_a_helper_that_is_killed_costs_no_mail(self):
        with Instance(SETTINGS, services=SERVICES) as mx:
            # A delivery waits for a lock, so it is under way.
            lock = os.path.join(mx.virtual_base, "box.lock")
            with open(lock, "w"):
                pass
            os.chown(lock, mx.owner_uid, mx.owner_gid)
            send(mx.port, "ada@sender.example", [f"box@{DOMAIN}"], mail("one"))
            pid = started(mx, "virtual")["virtual"]
            (helper,) = helpers_of(mx)
            eventually(lambda: any(status_of(p)["CapBnd"] == "00000000000000c0" for p in below(helper)),
                       lambda: below(helper))
            os.kill(helper, signal.SIGKILL)
            mx.wait_log(r"virtual\[\d+\]: error: the helper that becomes users and opens tables for this process has "
                        "ended")
            os.unlink(lock)
            send(mx.port, "ada@sender.example", [f"other@{DOMAIN}"], mail("two"))
            mx.wait_empty_queue()
            self.assertNotEqual(started(mx, "virtual")["virtual"], pid)
            for name in ("box", "other"):
                with open(os.path.join(mx.virtual_base, name)) as box:
                    self.assertRegex(box.read(), r"(?m)^Subject: (one|two)$")

    def test_one_helper_serves_over_reloads_and_ends_with_the_mail_system(self):
        with Instance(SETTINGS, services=SERVICES) as mx:
            wake(mx, "local", "virtual", "piped")
            pids = started(mx, "local", "virtual", "pipe")
            (helper,) = helpers_of(mx)
            os.kill(pids["local"], signal.SIGKILL)
            mx.tool("penstock", "reload", check=True)
            for program in ("virtual", "pipe"):
                eventually(lambda: not os.path.exists(f"/proc/{pids[program]}"), f"the former {program} is there")
            user = system_user()
            send(mx.port, "ada@sender.example", [f"{user}@local.test.example", f"box@{DOMAIN}", "jo@piped.example"],
                 mail("one"))
            mx.wait_empty_queue()
            self.assertEqual(helpers_of(mx), [helper])
            self.assertNotIn("has ended", mx.log())
            mx.stop()
            eventually(lambda: helpers_of(mx) == [], lambda: helpers_of(mx))

    def with_passwords(self, peer, **more):
        """Who delivers to the peer with a password from a table that only root may read."""
        mx = Instance({**SETTINGS, **relay_to(peer, "there.example"), "smtp_sasl_auth_enable": "yes", **more},
                      services=SERVICES, start=False)
        os.chmod(mx.write("passwords", f"[127.0.0.1]:{peer.port} user:one\n"), 0o600)
        mx.set(smtp_sasl_password_maps=f"texthash:{mx.dir}/passwords")
        mx.start()
        return mx

    def asked(self, mx, program, *requests):
        """What whoever took the program over gets: the answer, and what is in the file that came with it."""
        helper = socket_of(mx, running(mx)[program])
        out = []
        for wanted in requests:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            socket.send_fds(helper, [b"table"], [theirs.fileno()])
            theirs.close()
            ours.settimeout(60)
            ours.send(wanted)
            text, fds, _, _ = socket.recv_fds(ours, 100, 1)
            content = None
            for fd in fds:
                with open(fd) as file:
                    content = file.read()
            out.append((struct.unpack("<I", text[4:])[0] if text else None, content))
            ours.close()
        helper.close()
        return out

    def test_a_program_gets_tables_of_its_settings_and_nothing_else(self):
        with Peer() as peer, self.with_passwords(peer) as mx:
            send(mx.port, "ada@sender.example", ["who@there.example"], mail("one"))
            mx.wait_empty_queue()
            passwords, content = f"{mx.dir}/passwords", f"[127.0.0.1]:{peer.port} user:one\n"
            games = pwd.getpwnam("games")
            self.assertEqual(self.asked(mx, "smtp", table_request(passwords), table_request("/etc/shadow"),
                                        table_request(mx.dir + "/../" + os.path.basename(mx.dir) + "/passwords"),
                                        table_request(passwords)[:-1], request(WORKER, games.pw_uid, games.pw_gid),
                                        request(CONNECTION), encoded_policy()),
                             [(0, content), (1, None), (1, None), *[(None, None)] * 4])
            mx.wait_log(r"become\[\d+\]: warning: service smtp: refused: table /etc/shadow: no setting of smtp names "
                        "it")
            # Another program's table is not its own.
            self.assertEqual(self.asked(mx, "smtpd", table_request(passwords)), [(1, None)])

    def test_root_opens_nothing_where_somebody_else_makes_names(self):
        with Peer() as peer, self.with_passwords(peer) as mx:
            secret = mx.write("secret", "root's\n")
            os.chmod(secret, 0o600)
            os.mkdir(f"{mx.dir}/theirs")
            os.symlink(secret, f"{mx.dir}/theirs/passwords")
            owner = pwd.getpwnam(mail_owner())
            for path in (f"{mx.dir}/theirs", f"{mx.dir}/theirs/passwords"):
                os.lchown(path, owner.pw_uid, owner.pw_gid)
            mx.set(smtp_sasl_password_maps=f"texthash:{mx.dir}/theirs/passwords")
            mx.tool("penstock", "reload", check=True)
            wake(mx, "smtp")
            started(mx, "smtp")
            asked = table_request(f"{mx.dir}/theirs/passwords")
            self.assertEqual(self.asked(mx, "smtp", asked), [(13, None)])
            os.chmod(secret, 0o644)  # the control
            self.assertEqual(self.asked(mx, "smtp", asked), [(0, "root's\n")])

    def test_no_program_opens_as_root_what_a_users_link_leads_to(self):
        with Instance(SETTINGS, start=False) as mx:
            # Only root could open it, and whoever has the other end would see that.
            pipe = os.path.join(mx.dir, "roots", "pipe")
            os.mkdir(os.path.dirname(pipe), 0o700)
            os.mkfifo(pipe, 0o600)
            theirs = os.path.join(mx.dir, "theirs")
            os.mkdir(theirs)
            for name in ("map", "cert"):
                os.symlink(pipe, f"{theirs}/{name}")
                os.lchown(f"{theirs}/{name}", 20000, 20000)
            os.chown(theirs, 20000, 20000)
            opened = []
            threading.Thread(target=lambda: opened.append(os.open(pipe, os.O_WRONLY)), daemon=True).start()
            # The name is one of the administrator's own, which could be a class of restrictions or a table's.
            mx.set(own_name=f"check_client_access cidr:{theirs}/map", smtpd_tls_security_level="may",
                   smtpd_tls_cert_file=f"{theirs}/cert", tls_key_process="no")
            mx.start()
            mx.wait_log(r"penstock/smtpd\[\d+\]: .*theirs/cert: cannot be read")
            self.assertEqual(opened, [])
            done = os.open(pipe, os.O_RDONLY)  # the other end's wait ends
            eventually(lambda: opened, "a writer")
            for fd in (done, *opened):
                os.close(fd)

    def test_who_was_lent_a_table_goes_on_with_the_next_helper(self):
        with Peer() as peer, self.with_passwords(peer) as mx:
            send(mx.port, "ada@sender.example", ["who@there.example"], mail("one"))
            mx.wait_empty_queue()
            before = running(mx)
            (helper,) = helpers_of(mx)
            os.kill(helper, signal.SIGKILL)
            mx.wait_log(r"smtp\[\d+\]: error: the helper that becomes users and opens tables for this process has "
                        "ended")
            os.rename(mx.write("new", f"[127.0.0.1]:{peer.port} user:two\n"), f"{mx.dir}/passwords")
            os.chmod(f"{mx.dir}/passwords", 0o600)
            send(mx.port, "ada@sender.example", ["who@there.example"], mail("two"))
            mx.wait_empty_queue()
            self.assertNotEqual(running(mx)["smtp"], before["smtp"])
            self.assertEqual(running(mx)["qmgr"], before["qmgr"])
            self.assertEqual(self.asked(mx, "smtp", table_request(f"{mx.dir}/passwords"))[0][1],
                             f"[127.0.0.1]:{peer.port} user:two\n")
            self.assertEqual(len(helpers_of(mx)), 1)

    def test_who_finds_a_dead_helper_with_its_first_table_starts_anew(self):
        with Peer() as peer, self.with_passwords(peer) as mx:
            before = started(mx, "trivial-rewrite", "qmgr")
            (helper,) = helpers_of(mx)
            os.kill(helper, signal.SIGKILL)
            eventually(lambda: not helpers_of(mx), "the helper's end")
            send(mx.port, "ada@sender.example", ["who@there.example"], mail("one"))
            mx.wait_empty_queue()
            self.assertEqual(len(peer.messages), 1)
            self.assertNotEqual(running(mx)["trivial-rewrite"], before["trivial-rewrite"])
            self.assertEqual(running(mx)["qmgr"], before["qmgr"])


if __name__ == "__main__":
    unittest.main()
