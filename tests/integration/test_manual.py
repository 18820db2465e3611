"""Every command's options in three places: what it takes, what --help says, what its manual page says."""
import functools
import os
import re
import string
import subprocess
import unittest

from instance import BIN, TOP

TOOLS = ("mailq", "newaliases", "penalias", "pencat", "penconf", "pendest", "pendrop", "penkick", "penlock", "penlog",
         "penmap", "penqueue",
         "pendkim", "penshape", "penstock", "pensrs", "pensuper", "pentop", "pentrace",
         "penverify", "pensuppress", "sendmail")
# Other names of the same program: they share its help and its manual page.
SHARED = {"mailq": "penqueue", "newaliases": "sendmail"}
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*|-[A-Za-z#]+)")


def read(name):
    with open(os.path.join(TOP, name)) as given:
        return given.read()


def run(tool, *words):
    """Runs a command without input, with no instance of this machine."""
    return subprocess.run([os.path.join(BIN, tool), *words], capture_output=True, text=True, timeout=20,
                          stdin=subprocess.DEVNULL, env={"MAIL_CONFIG": "/nonexistent"})


def takes(tool, option):
    """Whether the program knows the option. --help is its value, or ends the program before it does anything."""
    return not re.search("no such option|invalid option|unrecognized option", run(tool, option, "--help").stderr)


@functools.cache
def taken(tool):
    """The options that the program takes: {"-x", "--word"}. Of long ones, those in --help are tried."""
    words = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", run(tool, "--help").stdout))
    letters = {"-" + letter for letter in string.ascii_letters + string.digits + "#"}
    return {option for option in words | letters if takes(tool, option)}


def mentioned(text, known):
    """The options in a text. A bundle, [-abc], is its letters, unless it is an option with its value (-bv, -qI)."""
    found = set()
    for word in OPTION.findall(text):
        if word.startswith("--") or len(word) == 2:
            found.add(word)
        elif all("-" + c in known for c in word[1:]):
            found |= {"-" + c for c in word[1:]}
        else:
            found.add(word[:2])
    return found


def any_name(tool):
    """The options that the program takes under this name and its other one."""
    return taken(tool) | taken(SHARED.get(tool, tool))


def page(name):
    """A manual page without markup, and the headings of its paragraphs on options."""
    text = read(f"man/{name}.1")
    if text.startswith(".so man1/"):
        return page(text.removeprefix(".so man1/").strip().removesuffix(".1"))
    text = re.sub(r"^\.(?:B|I|BI|BR|IR|RB|IB) +(.*)$", lambda m: m.group(1).replace('"', ""), text, flags=re.M)
    text = re.sub(r"\\f[BIRP]", "", text).replace("\\-", "-").replace("\\&", "")
    heads = "\n".join(line for line in re.findall(r"^\.TP(?: \d+)?\n(.*)$", text, flags=re.M) if line.startswith("-"))
    return text, heads


class Manual(unittest.TestCase):
    def test_every_command_is_looked_at(self):
        self.assertEqual(set(TOOLS), set(os.listdir(BIN)))

    def test_help_names_every_option_and_no_other(self):
        for tool in TOOLS:
            with self.subTest(tool):
                known = taken(tool)
                done = run(tool, "--help")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                found = mentioned(done.stdout, known)
                self.assertEqual(known - found, set(), "taken, and not in --help")
                lines = "\n".join(re.findall(r"^ {1,4}(-[^ ]+(?:, -[^ ]+)*)", done.stdout, flags=re.M))
                self.assertEqual(mentioned(lines, known) - any_name(tool), set(), "in --help, and not taken")

    def test_the_manual_page_names_every_option_and_no_other(self):
        for tool in TOOLS:
            with self.subTest(tool):
                known = taken(tool)
                text, heads = page(tool)
                self.assertEqual(known - mentioned(text, known), set(), "taken, and not in the manual page")
                self.assertEqual(mentioned(heads, known) - any_name(tool), set(), "in the manual page, and not taken")


if __name__ == "__main__":
    unittest.main()
