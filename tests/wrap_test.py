"""scripts/wrap breaks long paragraphs, leaves code in comments as it is, and never changes a word."""
import pathlib
import re
import subprocess
import tempfile
import unittest

WRAP = pathlib.Path(__file__).parent.parent / "scripts/wrap"
LONG = "one two three four five six seven eight nine ten eleven twelve " * 3
USE = (
    "/// Use:     Dump dump(options, [](const std::string& line) { print(line); });" + "   // it prints them" * 3,
    "///          dump.directory(storage)  or  dump.segment(storage, slot)",
    "///",
    "///          if (!broken(Breakage::skip_sync)) sync();",
)


def words(text):
    return re.sub(r"^\s*(?:///?<?|#)(?= |$)", "", text, flags=re.M).split()


class Wrap(unittest.TestCase):
    def wrapped(self, text, name="a.h"):
        """What becomes of a file with that text. A second run must find nothing to do."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, name)
            path.write_text(text)
            for _ in range(2):
                done = subprocess.run([WRAP, path], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                before, text = text, path.read_text()
                self.assertEqual(words(text), words(before))
            self.assertEqual(text, before)
            return text

    def assert_stays(self, *lines):
        text = "\n".join(lines) + "\n"
        self.assertEqual(self.wrapped(text), text)

    def assert_breaks(self, text, begins, name="a.h"):
        """The text becomes several lines that fit, of which each but the first begins so."""
        first, *rest = self.wrapped(text + "\n", name).splitlines()
        self.assertTrue(rest)
        for line in (first, *rest):
            self.assertLessEqual(len(line), 120)
        for line in rest:
            self.assertRegex(line, f"^{begins}\\S")

    def test_a_paragraph_of_a_comment_is_wrapped(self):
        self.assert_breaks(f"/// {LONG}\n/// and a short line", "/// ")
        self.assert_breaks(f"  // {LONG}", "  // ")
        self.assert_breaks(f"/// Bounds:  {LONG}\n///          and a short line", "///          ")
        self.assert_breaks(f"# {LONG}", "# ", "a.cmake")

    def test_a_paragraph_of_a_page_is_wrapped(self):
        self.assert_breaks(LONG, "", "a.md")
        self.assert_breaks("- " + LONG, "  ", "a.md")

    def test_a_use_block_stays_as_it_is(self):
        self.assertGreater(len(USE[0]), 120)
        self.assert_stays(*USE)
        self.assert_stays("/// Owns: nothing.", *USE, "#include <string>")
        self.assert_stays(*("  " + line for line in USE))
        self.assert_stays(*USE, f"///          {LONG}".rstrip(), "///          and the words behind it")

    def test_the_label_behind_a_use_block_is_wrapped(self):
        head = "\n".join(USE)
        after = self.wrapped(f"{head}\n/// Bounds:  {LONG}\n///          and a short line\n")
        self.assertTrue(after.startswith(head + "\n/// Bounds:  one two"))
        self.assertLessEqual(max(map(len, after[len(head):].splitlines())), 120)

    def test_a_comment_behind_that_with_a_use_block_is_wrapped(self):
        head = "\n".join(USE) + "\n#include <string>\n"
        after = self.wrapped(f"{head}/// {LONG}\n")
        self.assertTrue(after.startswith(head))
        self.assertLessEqual(max(map(len, after[len(head):].splitlines())), 120)

    def test_other_code_in_a_comment_is_neither_wrapped_nor_joined(self):
        rows = (
            "//   PEN_RESTRICTION(name, argument, waits, relaying)",
            "//   PEN_RESTRICTION_REMOVED(name, instead)" + "   Postfix has no such name; this is another" * 2,
            "//   PEN_RESTRICTION_ALIAS(name, restriction)   an older name",
        )
        self.assert_stays(*rows)
        self.assert_stays(f"/// call({', '.join(['argument'] * 14)});", "/// other(1);")
        after = self.wrapped(f"// {LONG}\n// call(1);\n// call(2);\n")
        self.assertTrue(after.endswith("\n// call(1);\n// call(2);\n"), after)

    def test_a_line_that_cannot_be_wrapped_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "a.h")
            path.write_text("\n".join(USE))
            done = subprocess.run([WRAP, "-c", path], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"a.h:1: {len(USE[0])} columns", done.stderr)


if __name__ == "__main__":
    unittest.main()
