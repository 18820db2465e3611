"""penmap and penalias: the effect of each option on a table, and the output that scripts read."""
import base64
import json
import os
import pty
import shutil
import stat
import subprocess
import tempfile
import time
import unittest

from instance import BIN


class Tables(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="pen-map-")
        self.addCleanup(shutil.rmtree, self.dir)
        os.chmod(self.dir, 0o755)

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as out:
            out.write(text)
        return path

    def run_tool(self, tool, *words, given=""):
        return subprocess.run(
            [os.path.join(BIN, tool), *words], input=given, capture_output=True, text=True, timeout=60
        )

    def penmap(self, *words, given="", status=0):
        done = self.run_tool("penmap", *words, given=given)
        self.assertEqual(done.returncode, status, done)
        return done

    def content(self, table):
        return dict(line.split("\t") for line in self.penmap("-s", table).stdout.splitlines())


class All(Tables):
    """penmap --all: every table of a configuration."""

    def configured(self, main, master=""):
        for name, text in ("main.cf", main), ("master.cf", master):
            self.write(name, text)
        return ("-c", self.dir, "--all")

    def test_every_table_that_the_files_name_is_made_once(self):
        for name, text in (("transport", "a.example smtp:\n"), ("canonical", "x y@z.example\n"), ("inner", "k v\n"),
                           ("of_a_class", "c OK\n"), ("of_a_service", "d OK\n"), ("texts", "t x\n"),
                           ("aliases", "postmaster: root\nlist: :include:/nowhere\n")):
            self.write(name, text)
        d = self.dir
        all_of_it = self.configured(
            f"transport_maps = hash:{d}/transport, texthash:{d}/texts\nvirtual_alias_maps = hash:{d}/transport\n"
            f"canonical_maps = proxy:btree:{d}/canonical\nrelocated_maps = unionmap:{{cdb:{d}/inner, static:x}}\n"
            f"smtpd_restriction_classes = mine\nmine = check_client_access lmdb:{d}/of_a_class\n"
            f"alias_maps = hash:{d}/aliases\nalias_database = hash:{d}/aliases\n"
            f"smtp_tls_session_cache_database = btree:{d}/no_table\n",
            f"587 inet n - n - - smtpd -o smtpd_client_restrictions=check_client_access,hash:{d}/of_a_service\n")
        done = self.penmap(*all_of_it)
        self.assertEqual(
            sorted(done.stdout.splitlines()),
            sorted(
                [
                    f"{d}/{name}: made"
                    for name in (
                        "transport.lmdb",
                        "canonical.lmdb",
                        "inner.cdb",
                        "of_a_class.lmdb",
                        "of_a_service.lmdb",
                        "aliases.lmdb",
                    )
                ]
                + ["6 made, 0 failed"]
            ),
        )
        self.assertEqual(self.content(f"hash:{d}/transport"), {"a.example": "smtp:"})
        self.assertEqual(self.content(f"hash:{d}/aliases"), {"postmaster": "root", "list": ":include:/nowhere"})
        self.assertEqual(self.content(f"cdb:{d}/inner"), {"k": "v"})

    def test_what_cannot_be_made_does_not_keep_the_rest(self):
        self.write("good", "a b\n")
        kept = self.write("kept", "a b\n")
        self.penmap(f"lmdb:{kept}")
        os.remove(kept)
        all_of_it = self.configured(
            "transport_maps = " + " ".join(f"hash:{self.dir}/{n}" for n in ("gone", "good", "kept"))
        )
        done = self.penmap(*all_of_it, status=66)
        self.assertIn(f"{self.dir}/good.lmdb: made\n", done.stdout)
        self.assertIn(f"{self.dir}/kept.lmdb: kept, there is no {self.dir}/kept", done.stdout)
        self.assertIn("1 made, 1 failed\n", done.stdout)
        self.assertRegex(done.stderr, "gone.*No such file")
        self.penmap(*all_of_it, "hash:/x", status=64)


class Making(Tables):
    def test_i_adds_standard_input_to_the_table_there_is(self):
        for kind in ("lmdb", "cdb"):
            table = f"{kind}:" + self.write(kind, "old one\n")
            self.penmap(table)
            self.penmap("-i", table, given="new two\n")
            self.assertEqual(self.content(table), {"old": "one", "new": "two"})

    def test_i_makes_a_table_that_is_not_there(self):
        table = "lmdb:" + os.path.join(self.dir, "fresh")
        self.penmap("-i", table, given="a b\n")
        self.assertEqual(self.content(table), {"a": "b"})

    def test_the_first_of_two_entries_stays_with_a_warning_and_w_says_nothing(self):
        table = "lmdb:" + self.write("twice", "key first\nkey second\n")
        done = self.penmap(table)
        self.assertRegex(done.stderr, r"warning: .*twice, line 2: duplicate entry: \"key\"")
        self.assertEqual(self.content(table), {"key": "first"})
        self.assertEqual(self.penmap("-w", table).stderr, "")
        self.assertEqual(self.content(table), {"key": "first"})

    def test_r_lets_the_later_entry_replace_without_a_warning(self):
        table = "lmdb:" + self.write("twice", "key first\nkey second\n")
        self.assertEqual(self.penmap("-r", table).stderr, "")
        self.assertEqual(self.content(table), {"key": "second"})
        self.penmap("-i", "-r", table, given="key third\n")
        self.assertEqual(self.content(table), {"key": "third"})

    def test_f_keeps_upper_and_lower_case_apart(self):
        table = "lmdb:" + self.write("case", "Key one\nkey two\n")
        self.penmap("-f", table)
        self.assertEqual(self.content(table), {"Key": "one", "key": "two"})
        self.assertEqual(self.penmap("-f", "-q", "Key", table).stdout, "one\n")
        self.penmap("-r", table)
        self.assertEqual(self.content(table), {"key": "two"})
        self.assertEqual(self.penmap("-q", "KEY", table).stdout, "two\n")

    def test_n_and_N_and_u_and_U_and_v_make_the_same_table(self):
        for word in ("-n", "-N", "-u", "-U", "-v"):
            table = "lmdb:" + self.write("same" + word, "key value\n")
            self.penmap(word, table)
            self.assertEqual(self.content(table), {"key": "value"}, word)
            self.assertEqual(self.penmap(word, "-q", "key", table).stdout, "value\n", word)

    def test_the_table_has_the_permissions_of_its_text_and_with_p_those_of_all(self):
        path = self.write("private", "key value\n")
        os.chmod(path, 0o640)
        self.penmap("lmdb:" + path)
        self.assertEqual(stat.S_IMODE(os.stat(path + ".lmdb").st_mode), 0o640)
        self.penmap("-p", "lmdb:" + path)
        self.assertEqual(stat.S_IMODE(os.stat(path + ".lmdb").st_mode), 0o644)

    @unittest.skipUnless(os.geteuid() == 0, "only root makes tables of others")
    def test_root_makes_the_table_of_its_owner_and_with_o_its_own(self):
        home = os.path.join(self.dir, "theirs")
        os.mkdir(home)
        path = os.path.join(home, "table")
        with open(path, "w") as out:
            out.write("key value\n")
        for name in (home, path):
            os.chown(name, 65534, 65534)
        self.assertEqual(self.penmap("lmdb:" + path).stderr, "")
        self.assertEqual((os.stat(path + ".lmdb").st_uid, os.stat(path + ".lmdb").st_gid), (65534, 65534))
        self.assertIn("belongs to root, its directory to uid 65534, who can replace it",
                      self.penmap("-o", "lmdb:" + path).stderr)
        self.assertEqual(os.stat(path + ".lmdb").st_uid, 0)
        os.chown(path + ".lmdb", 65534, 65534)
        self.penmap("-d", "key", "lmdb:" + path)
        self.assertEqual(os.stat(path + ".lmdb").st_uid, 65534, "removing keeps the owner")
        # A text of root's there: its directory's owner could put another table in its place.
        os.chown(path, 0, 0)
        for words in (["lmdb:" + path], ["-i", "lmdb:" + path], ["cdb:" + path]):
            self.assertEqual(self.penmap(*words, given="more value\n").stderr, "")
            self.assertEqual(os.stat(path + "." + words[-1].split(":")[0]).st_uid, 65534)

    def test_F_stores_the_content_of_files_in_base_64(self):
        content = "-----BEGIN-----\nline\n"
        table = "lmdb:" + self.write("files", f"cert {self.write('pem', content)}\ngone {self.dir}/nowhere\n")
        done = self.penmap("-F", table)
        self.assertRegex(done.stderr, "files, line 2: .*nowhere.*skipping this entry")
        self.assertEqual(base64.b64decode(self.penmap("-q", "cert", table).stdout), content.encode())
        self.assertEqual(self.penmap("-F", "-q", "cert", table).stdout, content + "\n")
        self.assertEqual(self.penmap("-F", "-s", table).stdout, "cert\t" + content + "\n")
        plain = "lmdb:" + self.write("plain", "key not base 64\n")
        self.penmap(plain)
        self.assertRegex(self.penmap("-F", "-q", "key", plain, status=65).stderr, "base 64")

    def test_F_joins_several_files_with_an_end_of_line(self):
        key, chain, empty = self.write("key", "KEY\n"), self.write("chain", "CHAIN"), self.write("empty", "")
        table = "lmdb:" + self.write(
            "lists", f"both {key}, {chain}\nthree {chain}\t{empty},{key}\nhalf {key} {self.dir}/gone\nnone ,\n"
        )
        done = self.penmap("-F", table)
        self.assertEqual({k: base64.b64decode(v) for k, v in self.content(table).items()},
                         {"both": b"KEY\n\nCHAIN", "three": b"CHAIN\n\nKEY\n"})
        self.assertRegex(done.stderr, "lists, line 3: .*gone.*skipping this entry")
        self.assertRegex(done.stderr, "lists, line 4: .*no file is named.*skipping this entry")

    @unittest.skipUnless(os.geteuid() == 0, "only root could read more than the owner")
    def test_F_reads_as_the_owner_what_the_owners_text_names(self):
        home, secret = os.path.join(self.dir, "theirs"), self.write("secret", "root's own\n")
        os.chmod(secret, 0o600)
        os.mkdir(home)
        path, own = os.path.join(home, "table"), os.path.join(home, "own")
        for name, text in ((path, f"stolen {secret}\nown {own}\n"), (own, "theirs\n")):
            with open(name, "w") as out:
                out.write(text)
        for name in (home, path, own):
            os.chown(name, 65534, 65534)
        for kind in ("lmdb", "cdb"):
            table = f"{kind}:{path}"
            done = self.penmap("-F", table)
            self.assertRegex(done.stderr, "table, line 1: .*secret.*skipping this entry")
            self.assertEqual(list(self.content(table)), ["own"])
            done = self.penmap("-F", "-i", table, given=f"stolen {secret}\n")
            self.assertRegex(done.stderr, "standard input, line 1: .*secret.*skipping this entry")
            self.assertEqual(list(self.content(table)), ["own"])
            self.penmap("-F", "-o", table)
            self.assertEqual(sorted(self.content(table)), ["own", "stolen"])

    def test_a_type_that_is_not_made_and_one_that_does_not_exist(self):
        path = self.write("x", "a b\n")
        self.assertIn("the text is read as it is", self.penmap("regexp:" + path, status=64).stderr)
        self.assertIn("no file", self.penmap("static:x", status=64).stderr)
        self.assertIn("no such type", self.penmap("nosuch:" + path, status=64).stderr)

    def test_a_failure_leaves_the_old_table_and_says_why(self):
        table = "lmdb:" + self.write("kept", "key value\n")
        self.penmap(table)
        os.unlink(os.path.join(self.dir, "kept"))
        self.assertIn("kept", self.penmap(table, status=66).stderr)
        self.assertEqual(self.content(table), {"key": "value"})

    def test_penalias_makes_an_alias_table_and_answers_for_it(self):
        path = self.write("aliases", "Root: ada, \"|cmd a\"\n# comment\nada: ada@one.example,\n  ada@two.example\n")
        done = self.run_tool("penalias", "lmdb:" + path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = self.run_tool("penalias", "-q", "root", "lmdb:" + path)
        self.assertEqual((done.returncode, done.stdout), (0, "ada, \"|cmd a\"\n"))
        done = self.run_tool("penalias", "-i", "lmdb:" + path, given="bob: ada\n")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("bob:\tada\n", self.run_tool("penalias", "-s", "lmdb:" + path).stdout)  # as postalias has it
        self.assertEqual(self.run_tool("penalias", "-q", "-", "lmdb:" + path, given="x\nbob\n").stdout, "bob:\tada\n")
        done = self.run_tool("penalias", "-s", "-j", "lmdb:" + path)
        self.assertEqual([list(json.loads(line)) for line in done.stdout.splitlines()], [["ada"], ["bob"], ["root"]])
        self.assertEqual(self.run_tool("penalias", "-d", "bob", "lmdb:" + path).returncode, 0)
        self.assertEqual(self.run_tool("penalias", "-q", "bob", "lmdb:" + path).returncode, 1)


class Asking(Tables):
    def setUp(self):
        super().setUp()
        self.one = "lmdb:" + self.write("one", "a 1\nb 2\n")
        self.two = "cdb:" + self.write("two", "b other\nc 3\n")
        self.penmap(self.one, self.two)

    def test_the_first_table_that_has_the_key_answers(self):
        self.assertEqual(self.penmap("-q", "b", self.one, self.two).stdout, "2\n")
        self.assertEqual(self.penmap("-q", "c", self.one, self.two).stdout, "3\n")
        self.assertEqual(self.penmap("-q", "d", self.one, self.two, status=1).stdout, "")

    def test_debug_tells_on_standard_error_what_is_asked(self):
        for table, key, status, value, told in (
                (self.one, "b", 0, "2\n", '= "2"'), (self.one, "c", 1, "", '= "not_found"'),
                (f"unionmap:{{{self.one}}}", "a", 0, "1\n", '= "1"'), ("fail:x", "a", 75, "", '= "error" (')):
            with self.subTest(table):
                done = self.penmap("-q", key, "debug:" + table, status=status)
                self.assertEqual(done.stdout, value)
                self.assertIn(f'penmap: {table} lookup: "{key}" {told}', done.stderr)
        self.assertIn("tables of this type are not made", self.penmap("debug:" + self.one, status=64).stderr)

    def test_keys_come_from_standard_input(self):
        done = self.penmap("-q", "-", self.one, self.two, given="c\nnone\nb\n")
        self.assertEqual(done.stdout, "c\t3\nb\t2\n")
        self.assertEqual(self.penmap("-q", "-", self.one, given="none\n", status=1).stdout, "")

    def test_an_empty_key_is_asked_as_postmap_asks_it(self):
        pattern = "regexp:" + self.write("pattern", "/^$/ empty\n")
        text = "texthash:" + self.write("t", "x y\n")
        for table, status, value in ((self.one, 1, ""), (self.two, 1, ""), (text, 1, ""),
                                     ("inline:{a=b}", 1, ""), ("static:x", 0, "x\n"), (pattern, 0, "empty\n"),
                                     ("unionmap:{static:x,static:y}", 0, "x,y\n"), ("unix:passwd.byname", 1, "")):
            with self.subTest(table):
                self.assertEqual(self.penmap("-q", "", table, status=status).stdout, value)
        self.assertEqual(self.penmap("-q", "-", "static:x", given="\ny\n").stdout, "\tx\ny\tx\n")
        self.penmap("-d", "", self.one, status=1)
        self.assertEqual(self.penmap("-q", "a", self.one).stdout, "1\n")

    def test_j_prints_an_object_a_line(self):
        self.assertEqual(self.penmap("-j", "-q", "a", self.one).stdout, '{"a": "1"}\n')
        self.assertEqual(self.penmap("-j", "-q", "-", self.one, given="b\na\n").stdout, '{"b": "2"}\n{"a": "1"}\n')
        listed = [json.loads(line) for line in self.penmap("-s", "-j", self.one, self.two).stdout.splitlines()]
        self.assertEqual(listed[:2], [{"a": "1"}, {"b": "2"}])
        self.assertCountEqual(listed[2:], [{"b": "other"}, {"c": "3"}])
        self.assertIn("-q or -s", self.penmap("-j", self.one, status=64).stderr)

    def test_keys_are_removed_by_name_and_from_standard_input(self):
        for kind in ("lmdb", "cdb"):
            table = f"{kind}:" + self.write("less" + kind, "a 1\nb 2\nc 3\nd 4\n")
            self.penmap(table)
            self.penmap("-d", "A", table)
            self.penmap("-d", "-", table, given="b\nnone\nc\n")
            self.assertEqual(self.content(table), {"d": "4"})
            self.penmap("-d", "none", table, status=1)
            self.penmap("-d", "-", table, given="none\n", status=1)
        self.penmap("-d", "a", "regexp:" + self.write("patterns", "/a/ b\n"), status=64)

    def test_how_a_failure_ends(self):
        garbage = os.path.join(self.dir, "garbage")
        with open(garbage + ".lmdb", "wb") as out:
            out.write(b"no table" * 4096)
        self.assertIn("garbage", self.penmap("-q", "a", "lmdb:" + garbage, status=75).stderr)
        self.penmap("-q", "a", "lmdb:" + self.dir + "/nowhere", status=75)
        self.penmap("-s", "lmdb:" + self.dir + "/nowhere", status=66)
        self.penmap("-s", "static:x", status=64)
        self.penmap("-d", "a", "lmdb:" + self.dir + "/nowhere", status=66)
        self.penmap("-q", "a", "-s", self.one, status=64)
        self.penmap(status=64)
        self.penmap("-c", self.dir + "/nowhere", "table", status=78)


class Long(Tables):
    def made(self, tool, table, seconds):
        """Makes a table whose text takes that long to come; returns what a terminal on standard error showed."""
        text = "".join(f"key{i}: value\n" for i in range(60000)).encode()
        ours, theirs = pty.openpty()
        try:
            made = subprocess.Popen([os.path.join(BIN, tool), "-i", table], stdin=subprocess.PIPE, stderr=theirs)
            os.close(theirs)
            made.stdin.write(text[:300000])  # more than a pipe holds, so it is reading
            time.sleep(seconds)
            made.stdin.write(text[300000:])
            made.stdin.close()
            shown = b""
            try:
                while part := os.read(ours, 65536):
                    shown += part
            except OSError:
                pass  # nobody reads the terminal any more
            self.assertEqual(made.wait(60), 0)
        finally:
            os.close(ours)
        return shown.decode()

    def test_a_terminal_shows_how_far_a_table_is_after_two_seconds(self):
        for tool in ("penmap", "penalias"):
            shown = self.made(tool, "lmdb:" + os.path.join(self.dir, tool), 2.1)
            self.assertRegex(shown, r"\rMaking .*/" + tool + r"\.lmdb: \[[#.]{30}\] +\d+%  \d+ entries")
            self.assertTrue(shown.endswith("\r\033[K"), "and takes it away")

    def test_what_is_no_terminal_is_shown_nothing(self):
        self.assertEqual(self.penmap("-i", "lmdb:" + os.path.join(self.dir, "t"), given="a b\n").stderr, "")


MESSAGE = """Subject: one
 two
X-Test: outer
Content-Type: multipart/mixed; boundary=b

preamble
--b
X-Test: part

body of the part
--b
Content-Type: message/rfc822

X-Test: inner

body inside
--b--
X-Test: not a header
"""


class AsksAboutAMessage(Tables):
    """Looks up keys as header_checks(5) and body_checks(5) do."""

    def setUp(self):
        super().setUp()
        self.rules = "regexp:" + self.write(
            "rules", "/^Subject: one.*two/ FOLDED\n/^X-Test: (.*)/ X $1\n/body|preamble/ BODY\n"
        )

    def ask(self, *words, message=MESSAGE):
        found = self.penmap(*words, "-q", "-", self.rules, given=message).stdout
        return [line.rsplit("\t", 1)[1] for line in found.splitlines() if "\t" in line]

    def test_h_asks_the_fields_of_the_header_whole(self):
        self.assertEqual(self.ask("-h"), ["FOLDED", "X outer"])
        self.assertEqual(self.penmap("-h", "-q", "-", self.rules, given="Subject: one\n two\n\nbody\n").stdout,
                         "Subject: one\n two\tFOLDED\n")

    def test_b_asks_the_lines_of_the_body(self):
        self.assertEqual(self.ask("-b"), ["BODY", "X part", "BODY", "X inner", "BODY", "X not a header"])

    def test_m_takes_fields_of_parts_and_messages_inside_for_header(self):
        self.assertEqual(self.ask("-h", "-m"), ["FOLDED", "X outer", "X part", "X inner"])
        self.assertEqual(self.ask("-b", "-m"), ["BODY", "BODY", "BODY", "X not a header"])

    def test_h_and_b_ask_both(self):
        self.assertEqual(self.ask("-h", "-b", message="X-Test: a\r\n\r\nX-Test: b"), ["X a", "X b"])

    def test_nothing_found_is_exit_status_1(self):
        self.penmap("-h", "-q", "-", self.rules, given="From: a\n\nbody\n", status=1)

    def test_they_go_with_standard_input_only(self):
        self.assertIn("-q -", self.penmap("-h", "-q", "key", self.rules, status=64).stderr)
        self.assertIn("-q -", self.penmap("-b", self.rules, status=64).stderr)
        self.penmap("-m", "-q", "-", self.rules, given="", status=64)


if __name__ == "__main__":
    unittest.main()
