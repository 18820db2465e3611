#pragma once
/// For tests and the fuzz target: the scanners' rules written the slow and obvious way, over a whole input.
#include <string>
#include <string_view>

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

/// What DATA gives: content and where it ends. Only complete lines are looked at.
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
    if (lf != std::string_view::npos && line.ends_with('\r')) line.pop_back();
    content += clean(line) + "\r\n";
  }
  return content;
}

}  // namespace pen::mail::reference
