#pragma once
/// A terminal of which a program has the whole screen, by ncurses.
///
/// Use:     auto terminal = Terminal::open({.colour = true});
///          terminal->show(lines);  while (const auto key = terminal->key()) …;  terminal->size()
/// Ends:    the destructor gives the screen back as it was.
/// Errors:  a terminal that ncurses does not know.
/// Thread:  one of the process; one terminal at a time.
#include <memory>
#include <optional>
#include <vector>

#include "lib/base/result.h"
#include "tools/top_view.h"

namespace pen::tools {

class Terminal {
 public:
  struct Options {
    bool colour = true;
  };
  static Result<std::unique_ptr<Terminal>> open(Options options);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Shows these lines and nothing else.
  void show(const std::vector<TopLine>& lines);
  /// A character or a TopKey that waits to be read; nullopt: none. Never waits.
  std::optional<int> key();
  /// Asks for the size anew: after SIGWINCH.
  void resized();
  TopSize size() const;

 private:
  Terminal() = default;
  bool colour_ = false;
};

}  // namespace pen::tools
