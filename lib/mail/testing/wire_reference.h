#pragma once
/// The scanners' rules written the slow and obvious way, over a whole input; for tests and the fuzz target.
#include <algorithm>
#include <string>
#include <string_view>

#include "lib/mail/plain_lines.h"
#include "lib/mail/wire.h"

namespace pen::mail::reference {

struct Sink {
  std::string content;
  void text(std::string_view part) { content += part; }
  void line_end() { content += "\r\n"; }
};
struct Read {
  std::string content;
  std::size_t consumed = 0;
  bool done = false;
};

inline std::string clean(std::string line) {
  for (char& c : line)
    if (c == '\r') c = ' ';
  return line;
}

/// What DATA gives: content and where it ends. Only complete lines are considered.
inline Read data(std::string_view in) {
  Read r;
  bool before_crlf = true;
  while (!r.done) {
    const auto lf = in.find('\n', r.consumed);
    if (lf == std::string_view::npos) return r;
    std::string line(in.substr(r.consumed, lf - r.consumed));
    r.consumed = lf + 1;
    const bool crlf = line.ends_with('\r');
    if (crlf) line.pop_back();
    if (line == "." && crlf && before_crlf) {
      r.done = true;
      return r;
    }
    if (line.size() > 1 && line.front() == '.') line.erase(0, 1);
    for (std::size_t n = 1; n < kMostCrs && crlf && line.ends_with('\r'); ++n) line.pop_back();
    r.content += clean(line) + "\r\n";
    before_crlf = crlf;
  }
  return r;
}

inline std::string bdat(std::string_view in) {
  std::string content;
  while (!in.empty()) {
    const auto lf = in.find('\n');
    std::string line(in.substr(0, lf));
    in.remove_prefix(lf == std::string_view::npos ? in.size() : lf + 1);
    for (std::size_t n = 0; n < kMostCrs && lf != std::string_view::npos && line.ends_with('\r'); ++n) line.pop_back();
    content += clean(line) + "\r\n";
  }
  return content;
}

/// Finds line by line what plain_lines() finds.
inline PlainLines plain_lines(std::string_view text, std::size_t max_line) {
  PlainLines run;
  for (;;) {
    const auto lf = text.find('\n', run.size);
    if (lf == std::string_view::npos) return run;
    std::string_view line = text.substr(run.size, lf - run.size);
    if (!line.ends_with('\r')) return run;
    line.remove_suffix(1);
    if (line.find('\r') != line.npos || line.starts_with('.') || line.size() > max_line) return run;
    run.longest = std::max(run.longest, line.size());
    run.eight_bit |= std::ranges::any_of(line, [](char c) { return (c & 0x80) != 0; });
    run.nul |= line.find('\0') != line.npos;
    run.size = lf + 1;
  }
}

}  // namespace pen::mail::reference
