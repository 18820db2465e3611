"""Sanitizer builds under test: every program writes its reports where the tests look, and a report fails the test.

Use:     Suite (harness.py) calls assert_silent() when a test ends; Instance adds settings() to main.cf, because master
         gives its programs only the environment that import_environment names.
Builds:  what PEN_SANITIZE was when PEN_BIN's build was configured; a build without sanitizers does nothing here.
Kept:    a report is also copied into the directory PEN_SANITIZER_REPORTS, which scripts/suite looks at: a
         second run of the test that passes must not hide the report.
Leaks:   not here but in the unit tests. The programs end by _exit on purpose, as their memory lives until the process
         ends; and at the end of every command the search took longer than the command.
"""
import atexit
import os
import re
import shutil
import tempfile

from waiting import slow_down

VARIABLES = ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS")


def _built_with(bin_directory):
    try:
        with open(os.path.join(os.path.dirname(bin_directory), "CMakeCache.txt")) as cache:
            found = re.search(r"^PEN_SANITIZE:\w+=(.*)$", cache.read(), re.MULTILINE)
    except OSError:
        return ""  # an installed tree
    return found.group(1) if found else ""


# What AddressSanitizer says when OpenSSL jumps off the stack of a handshake that rests (docs/keys.md): it does not know
# that stack, and cannot clear its shadow. That is a notice and no report; what is reported besides counts.
_OTHER_STACK = re.compile(
    r"^==\d+==WARNING: ASan is ignoring requested __asan_handle_no_return: .*\n"
    r"False positive error reports may follow\nFor details see https://github\.com/google/sanitizers/issues/189\n",
    re.MULTILINE)


class Sanitizers:
    def __init__(self, bin_directory):
        self.names = _built_with(bin_directory)
        if not self.names:
            return
        # Programs that have given up root write here as well.
        self.reports = tempfile.mkdtemp(prefix="pen-sanitizer-")
        os.chmod(self.reports, 0o1777)
        atexit.register(shutil.rmtree, self.reports, ignore_errors=True)
        common = f"log_path={self.reports}/report:exitcode=99:handle_abort=1"  # a failed PEN_CHECK is reported, too
        # A small quarantine, so that measured memory is mostly the program's own.
        os.environ["ASAN_OPTIONS"] = (
            common + ":detect_leaks=0:quarantine_size_mb=8:malloc_context_size=8:detect_stack_use_after_return=0"
        )
        os.environ["UBSAN_OPTIONS"] = common + ":print_stacktrace=1"
        os.environ["TSAN_OPTIONS"] = common + ":second_deadlock_stack=1"
        slow_down(10 if "thread" in self.names else 4)

    def __bool__(self):
        return bool(self.names)

    def settings(self):
        """Returns settings of main.cf that make the programs report; {} in a plain build."""
        if not self.names:
            return {}
        return {"import_environment": "MAIL_CONFIG MAIL_DEBUG MAIL_LOGTAG TZ LANG=C " + " ".join(VARIABLES)}

    def memory(self, size):
        """Returns a memory limit with room for the sanitizers' own needs: shadow, red zones, quarantine."""
        return size * 4 + (64 << 20) if self.names else size

    def take(self):
        """Returns the reports written since the last call; each is returned once."""
        texts = []
        for name in sorted(os.listdir(self.reports)) if self.names else []:
            path = os.path.join(self.reports, name)
            with open(path, errors="replace") as text:
                said = _OTHER_STACK.sub("", text.read())[:20000]
            if said.strip():
                texts.append(said)
            os.unlink(path)
        return texts

    def assert_silent(self):
        """Fails if reports were written since the last call."""
        texts = self.take()
        if not texts:
            return
        message = f"{len(texts)} sanitizer report(s)\n" + "\n".join(texts[:5])
        if keep := os.environ.get("PEN_SANITIZER_REPORTS"):
            os.makedirs(keep, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=keep, prefix="report-", delete=False) as kept:
                kept.write(message)
        raise AssertionError(message)
