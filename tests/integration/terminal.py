"""A terminal in which a command runs, by tmux: its keys are pressed, its screen is read.

Use:     with Terminal([BIN + "/pentop", "-c", mx.etc], width=100, height=30) as terminal:
             terminal.wait("QUEUE");  terminal.press("m");  terminal.screen()
"""
import os
import shutil
import subprocess
import tempfile

from waiting import eventually

TMUX = shutil.which("tmux")


class Terminal:
    def __init__(self, command, width=100, height=30, environment=None):
        self.directory = tempfile.mkdtemp(prefix="pen-term-")
        self.socket = os.path.join(self.directory, "tmux")
        self.environment = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color", **(environment or {})}
        self.status = os.path.join(self.directory, "status")
        # A server of its own for each: nothing of the user's configuration, and it ends with its session. tmux loses
        # the status of a command whose terminal closes before it is waited for, so a shell keeps it.
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height),
                   *(f"-e{k}={v}" for k, v in (environment or {}).items()),
                   "sh", "-c", '"$@"; echo $? >"$0"', self.status, *command)
        self._tmux("set-option", "-g", "remain-on-exit", "on")
        self._tmux("set-option", "-g", "status", "off")

    def _tmux(self, *words, check=True):
        return subprocess.run([TMUX, "-S", self.socket, *words], capture_output=True, text=True, check=check,
                              env=self.environment, timeout=60).stdout

    def press(self, *keys):
        """Characters, or names as tmux knows them (Enter, Escape, Down, NPage)."""
        self._tmux("send-keys", *keys)

    def type(self, text):
        self._tmux("send-keys", "-l", text)

    def resize(self, width, height):
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def screen(self, colours=False):
        return self._tmux("capture-pane", "-p", *(["-e"] if colours else []), check=False)

    def wait(self, text):
        """Until the screen has the text, or what a compiled pattern fits. Returns the whole screen."""
        def there():
            self.seen = self.screen()
            return text in self.seen if isinstance(text, str) else text.search(self.seen)
        eventually(there, lambda: f"{text!r} on the screen\n{self.seen}")
        return self.seen

    def ended(self):
        """Waits until the command has ended; its exit status."""
        def dead():
            if not os.path.exists(self.status):
                return None
            with open(self.status) as text:
                return text.read().strip() or None
        return int(eventually(dead, lambda: f"the command ends\n{self.screen()}"))

    def close(self):
        self._tmux("kill-server", check=False)
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
