"""scripts/check-layers reports every mistake, and nothing else: a small tree with one mistake at a time."""
import pathlib
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).parent.parent
RIGHT = {
    "lib/base/text.h": "#pragma once\n",
    "lib/base/text.cc": '#include "lib/base/text.h"\n#include <string>\n',
    "lib/base/CMakeLists.txt": "pen_library(base SOURCES text.cc)\n",
    "lib/mail/address.h": '#include "lib/base/text.h"\n',
    "lib/mail/address.cc": '#include "lib/mail/address.h"\n',
    "lib/mail/testing/words.h": "#pragma once\n",
    "lib/mail/address_test.cc": '#include "lib/mail/address.h"\n#include "lib/mail/testing/words.h"\n',
    "lib/mail/CMakeLists.txt": "pen_library(mail SOURCES address.cc PUBLIC base)\n"
                               "pen_tests(mail SOURCES address_test.cc DEPS mail)\n",
    "lib/net/tls/context.cc": "#include <openssl/ssl.h>\n",
    "bounce/notice.h": '#include "lib/mail/address.h"\n',
    "bounce/main.cc": '#include "bounce/notice.h"\n',
    "bounce/CMakeLists.txt": "pen_program(bounce SOURCES main.cc DEPS mail)\n",
    "smtp/main.cc": "",
    "fuzz/notice_fuzz.cc": '#include "bounce/notice.h"\n',
}


class CheckLayers(unittest.TestCase):
    def said(self, **changes):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**RIGHT, **changes}.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            done = subprocess.run([TOP / "scripts/check-layers", folder], capture_output=True, text=True)
            self.assertEqual(done.stderr, "")
            return done.returncode, done.stdout

    def test_a_tree_that_keeps_the_rules_is_right(self):
        self.assertEqual(self.said(), (0, "11 files looked at\n"))

    def test_each_broken_rule_is_named_with_its_place(self):
        for file, text, words in (
            (
                "lib/base/text.cc",
                '#include "lib/base/text.h"\n#include "lib/mail/address.h"\n',
                "lib/base/text.cc:2: lib/base may not include lib/mail/address.h",
            ),
            ("lib/base/text.h", '#include "lib/mail/address.h"\n', "lib/base/text.h:1: lib/base may not include"),
            (
                "smtp/main.cc",
                '\n\n#include "bounce/notice.h"\n',
                "smtp/main.cc:3: bounce/notice.h is the program bounce's",
            ),
            (
                "bounce/main.cc",
                "#include <openssl/evp.h>\n",
                "bounce/main.cc:1: <openssl/evp.h> belongs to lib/net/tls",
            ),
            ("bounce/main.cc", '#include "lib/mail/testing/words.h"\n', "is for tests, and bounce/main.cc ships"),
            (
                "lib/mail/address.cc",
                '#include <string>\n#include "lib/mail/address.h"\n',
                'lib/mail/address.cc:1: its first include is not "lib/mail/address.h"',
            ),
            ("lib/new/thing.h", "", "lib/new/thing.h:1: lib/new is not in the table"),
            (
                "bounce/CMakeLists.txt",
                "pen_program(bounce SOURCES main.cc)\n",
                "bounce/notice.h:1: includes lib/mail/address.h, "
                "and bounce_program (bounce/CMakeLists.txt:1) does not link mail",
            ),
            ("bounce/notice.h", "", "bounce/CMakeLists.txt:1: bounce_program links mail, and no file of it includes"),
        ):
            with self.subTest(file=file, words=words):
                code, said = self.said(**{file: text})
                self.assertEqual(code, 1)
                self.assertIn(words, said)

    def test_the_tree_itself_keeps_the_rules(self):
        done = subprocess.run([TOP / "scripts/check-layers"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)


if __name__ == "__main__":
    unittest.main()
