#include "tools/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#define NCURSES_NOMACROS
#include <curses.h>

namespace pen::tools {
namespace {

// Pairs of colours, by style.
enum : short { kGood = 1, kWarn, kBad };

attr_t attributes(TopStyle style, bool colour) {
  switch (style) {
    case TopStyle::plain:
      return A_NORMAL;
    case TopStyle::bold:
      return A_BOLD;
    case TopStyle::dim:
      return A_DIM;
    case TopStyle::good:
      return colour ? static_cast<attr_t>(COLOR_PAIR(kGood)) : A_NORMAL;
    case TopStyle::warn:
      return colour ? static_cast<attr_t>(COLOR_PAIR(kWarn)) : A_BOLD;
    case TopStyle::bad:
      return colour ? static_cast<attr_t>(COLOR_PAIR(kBad)) | A_BOLD : A_BOLD;
    case TopStyle::chosen:
      return A_REVERSE;
  }
  return A_NORMAL;
}

SCREEN* screen = nullptr;

}  // namespace

Result<std::unique_ptr<Terminal>> Terminal::open(Options options) {
  screen = ::newterm(nullptr, stdout, stdin);
  if (screen == nullptr) return fail_errno("the terminal (TERM) is not known", ENOTTY);
  std::unique_ptr<Terminal> terminal(new Terminal());
  ::cbreak();
  ::noecho();
  ::nonl();
  ::keypad(stdscr, TRUE);
  ::nodelay(stdscr, TRUE);
  ::set_escdelay(25);
  ::curs_set(0);
  terminal->colour_ = options.colour && ::has_colors() && ::start_color() == OK;
  if (terminal->colour_) {
    ::use_default_colors();
    ::init_pair(kGood, COLOR_GREEN, -1);
    ::init_pair(kWarn, COLOR_YELLOW, -1);
    ::init_pair(kBad, COLOR_RED, -1);
  }
  return terminal;
}

Terminal::~Terminal() {
  ::endwin();
  ::delscreen(screen);
  screen = nullptr;
}

void Terminal::show(const std::vector<TopLine>& lines) {
  ::werase(stdscr);
  int row = 0;
  for (const TopLine& line : lines) {
    if (row >= LINES || ::wmove(stdscr, row++, 0) == ERR) break;
    for (const TopSpan& span : line) {
      ::wattrset(stdscr, static_cast<int>(attributes(span.style, colour_)));
      ::waddnstr(stdscr, span.text.data(), static_cast<int>(span.text.size()));
    }
  }
  ::wattrset(stdscr, A_NORMAL);
  ::wrefresh(stdscr);
}

std::optional<int> Terminal::key() {
  const int key = ::wgetch(stdscr);
  const auto is = [](TopKey k) { return static_cast<int>(k); };
  switch (key) {
    case ERR:
      return std::nullopt;
    case KEY_UP:
      return is(TopKey::up);
    case KEY_DOWN:
      return is(TopKey::down);
    case KEY_PPAGE:
      return is(TopKey::page_up);
    case KEY_NPAGE:
      return is(TopKey::page_down);
    case KEY_HOME:
      return is(TopKey::home);
    case KEY_END:
      return is(TopKey::end);
    case KEY_ENTER:
    case '\r':
    case '\n':
      return is(TopKey::enter);
    case 27:
      return is(TopKey::escape);
    case KEY_BACKSPACE:
    case 127:
    case 8:
      return is(TopKey::backspace);
    default:
      return key;
  }
}

void Terminal::resized() {
  winsize now{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &now) == 0 && now.ws_row > 0 && now.ws_col > 0)
    ::resizeterm(now.ws_row, now.ws_col);
}

TopSize Terminal::size() const {
  return {.width = static_cast<std::size_t>(std::max(COLS, 1)), .height = static_cast<std::size_t>(std::max(LINES, 1))};
}

}  // namespace pen::tools
