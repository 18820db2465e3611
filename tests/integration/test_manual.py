"""Every command's options in its three places: what it takes (getopt), what --help says, what its manual page says."""
import os
import re
import subprocess
import unittest

from instance import BIN, TOP

# Where a command's options are read, and the index of its getopt() string where a file has several.
SOURCES = {
    "mailq": (["tools/penqueue.cc"], 0),
    "newaliases": (["tools/sendmail.cc"], 0),
    "penalias": (["tools/map_tool.cc"], 0),
    "pencat": (["tools/pencat.cc"], 0),
    "penconf": (["tools/penconf.cc"], 0),
    "pendest": (["tools/pendest.cc"], 0),
    "pendrop": (["pickup/pendrop.cc"], 0),
    "penlog": (["tools/penlog.cc"], 0),
    "penmap": (["tools/map_tool.cc"], 0),
    "penqueue": (["tools/penqueue.cc", "tools/queue_selection.cc"], 1),
    "penshape": (["tools/penshape.cc", "tools/queue_selection.cc"], 0),
    "penstock": (["tools/penstock.cc"], None),
    "pensuper": (["tools/pensuper.cc", "tools/queue_selection.cc"], 0),
    "sendmail": (["tools/sendmail.cc"], 0),
}
# Other names of the same program: they share its help and its manual page.
SHARED = {"mailq": "penqueue", "newaliases": "sendmail"}
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*|-[A-Za-z#]+)")


def read(name):
    with open(os.path.join(TOP, name)) as given:
        return given.read()


def taken(tool):
    """The options that the program takes: {"-x", "--word"}."""
    files, index = SOURCES[tool]
    text = "".join(read(name) for name in files)
    found = {"--" + word for word in re.findall(r'\{"([a-z-]+)",\s*(?:no|required|optional)_argument', text)}
    if index is None:
        return found | {word for word in re.findall(r'"(-c|--[a-z-]+)"', text)}
    call = text[text.index("getopt_long(argc, argv,"):]
    letters = re.findall(r'"([^"]*)"', call[:call.index("nullptr")] if '"' in call[:call.index("nullptr")] else call)[index]
    return found | {"-" + c for c in letters if c not in "+:"}


def mentioned(text, known):
    """The options in a text. A bundle, [-abc], counts as its letters unless it is an option with its value (-bv, -qI)."""
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
    """What the program takes by this name and its other one."""
    return taken(tool) | taken(SHARED.get(tool, tool))


def page(name):
    """A manual page without its markup, and the headings of its paragraphs about options."""
    text = read(f"man/{name}.1")
    if text.startswith(".so man1/"):
        return page(text.removeprefix(".so man1/").strip().removesuffix(".1"))
    text = re.sub(r"^\.(?:B|I|BI|BR|IR|RB|IB) +(.*)$", lambda m: m.group(1).replace('"', ""), text, flags=re.M)
    text = re.sub(r"\\f[BIRP]", "", text).replace("\\-", "-").replace("\\&", "")
    heads = "\n".join(line for line in re.findall(r"^\.TP(?: \d+)?\n(.*)$", text, flags=re.M) if line.startswith("-"))
    return text, heads


class Manual(unittest.TestCase):
    def test_every_command_is_looked_at(self):
        self.assertEqual(set(SOURCES), set(os.listdir(BIN)))

    def test_help_names_every_option_and_no_other(self):
        for tool in sorted(SOURCES):
            with self.subTest(tool):
                known = taken(tool)
                done = subprocess.run([os.path.join(BIN, tool), "--help"], capture_output=True, text=True, timeout=20,
                                      stdin=subprocess.DEVNULL)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                found = mentioned(done.stdout, known)
                self.assertEqual(known - found, set(), "taken, and not in --help")
                lines = "\n".join(re.findall(r"^ {1,4}(-[^ ]+(?:, -[^ ]+)*)", done.stdout, flags=re.M))
                self.assertEqual(mentioned(lines, known) - any_name(tool), set(), "in --help, and not taken")

    def test_the_manual_page_names_every_option_and_no_other(self):
        for tool in sorted(SOURCES):
            with self.subTest(tool):
                known = taken(tool)
                text, heads = page(tool)
                self.assertEqual(known - mentioned(text, known), set(), "taken, and not in the manual page")
                self.assertEqual(mentioned(heads, known) - any_name(tool), set(), "in the manual page, and not taken")


if __name__ == "__main__":
    unittest.main()
