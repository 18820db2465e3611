"""scripts/check-english names "who" in place of a noun in comments and pages, and no other English or code."""
import pathlib
import subprocess
import tempfile
import unittest

CHECK = pathlib.Path(__file__).parent.parent / "scripts/check-english"

COMMENT_FAULTS = (
    ("/// Wakes whoever waits.", "a.h:1: whoever"),
    ("int i = 0;\n// Whoever asks is served.", "a.h:2: Whoever"),
    ("int i = 0;  // the one for whom it is", "a.h:1: whom"),
    ("/// Who has left is not served.", "a.h:1: Who …"),
    ("/// It waits. Who has left\n/// is not served. Is it?", "a.h:1: Who …"),
    ("/// Rules:   Who has left is not served.", "a.h:1: Who …"),
    ("/// One line.\n/// It is signed for\n/// who asked.", "a.h:2: for who"),
    ("/// The group is that\n/// of who asked.", "a.h:1: that of who"),
    ("/// Set by who wants it.", "a.h:1: by who"),
    ("/// Errors:  a name that is none.", "a.h:1: is none"),
    ('f("//", 1\'000);  // as whom', "a.h:1: whom"),
    ("const char* text = R\"(//)\";\n/// As whom.", "a.h:2: whom"),
)
COMMENTS = (
    "/// Who may ask? The users who have an account, and an administrator who reads.",
    "/// The first one; nullptr: there is none.",
    "/// Which program asks, and who owns it.",
    'log("whoever asks");  // nothing else',
    "/// docs/who-may-talk.md, \"Who may talk to whom\"; `whoever` is a name.",
    "log(R\"(\n// whoever asks)\");",
    "int who = by(whom);",
)
PAGE_FAULTS = (
    ("# Title\n\nOne line\nthat is for whoever asks.", "a.md:4: whoever"),
    ("- one item\n- Who asks is served.", "a.md:2: Who …"),
    ("It waits. **Who asks** is served.", "a.md:1: Who …"),
    ("| name | Who asks is served |", "a.md:1: Who …"),
    ("A name that is none is refused.", "a.md:1: is none"),
)
PAGES = (
    "# Who may talk to whom\n\n## Who has what\n\nThe page \"Who has what\" is for users who ask.",
    "Who may ask? Everybody.",
    "```\nwhoever asks\n```",
    "    whoever asks",
    "The command `whoever` and there is none.",
)


class English(unittest.TestCase):
    def check(self, name, text):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, name).write_text(text + "\n", encoding="utf-8")
            done = subprocess.run([CHECK, name], cwd=folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 1 if done.stderr else 0, text)
            return done.stderr.strip()

    def test_faults_are_named_with_their_line(self):
        for name, rows in (("a.h", COMMENT_FAULTS), ("a.md", PAGE_FAULTS)):
            for text, fault in rows:
                self.assertEqual(self.check(name, text), fault, text)

    def test_other_english_and_code_pass(self):
        for name, rows in (("a.h", COMMENTS), ("a.md", PAGES)):
            for text in rows:
                self.assertEqual(self.check(name, text), "", text)


if __name__ == "__main__":
    unittest.main()
