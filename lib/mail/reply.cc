#include "lib/mail/reply.h"

#include <algorithm>
#include <utility>

#include "lib/base/text.h"

namespace pen::mail {

std::string Reply::dsn_or_default() const {
  if (!dsn.empty()) return dsn;
  switch (first_digit()) {
    case 2:
      return "2.0.0";
    case 5:
      return "5.0.0";
    default:
      return "4.0.0";
  }
}

std::optional<std::string_view> enhanced_code(std::string_view text) {
  if (text.size() < 5 || (text[0] != '2' && text[0] != '4' && text[0] != '5') || text[1] != '.') return std::nullopt;
  std::size_t at = 2;
  auto number = [&] {
    std::size_t digits = 0;
    while (at < text.size() && ascii_digit(text[at]) && digits < 4) {
      ++at;
      ++digits;
    }
    return digits >= 1 && digits <= 3;
  };
  if (!number() || at >= text.size() || text[at] != '.') return std::nullopt;
  ++at;
  if (!number()) return std::nullopt;
  if (at < text.size() && !ascii_space(text[at])) return std::nullopt;
  return text.substr(0, at);
}

Reply ReplyParser::finish(int code, bool malformed) {
  reply_.code = malformed ? 0 : code;
  reply_.malformed = malformed;
  if (malformed || (!reply_.dsn.empty() && reply_.dsn[0] - '0' != code / 100)) reply_.dsn.clear();
  count_ = 0;
  return std::exchange(reply_, Reply{});
}

std::optional<Reply> ReplyParser::feed(std::string_view line) {
  const bool coded = line.size() >= 3 && ascii_digit(line[0]) && ascii_digit(line[1]) && ascii_digit(line[2]) &&
                     (line.size() == 3 || line[3] == ' ' || line[3] == '-');
  ++count_;
  if (reply_.text.size() < kMaxText) {
    if (count_ > 1) reply_.text += ' ';
    reply_.text.append(line.substr(0, kMaxText - std::min(kMaxText, reply_.text.size())));
  }
  if (!coded) {
    if (count_ == 1) return finish(0, true);
    if (count_ >= kMaxReplyLines) return finish(0, true);
    return std::nullopt;
  }
  const std::string_view rest = line.size() > 4 ? line.substr(4) : std::string_view{};
  // The code of the last line counts, and so does its enhanced code. If the last line has none, the one of an earlier
  // line stays.
  if (const auto dsn = enhanced_code(rest)) reply_.dsn = std::string(*dsn);
  if (keep_lines_ && reply_.lines.size() < kMaxLines) reply_.lines.emplace_back(rest.substr(0, kMaxText));
  const int code = (line[0] - '0') * 100 + (line[1] - '0') * 10 + (line[2] - '0');
  if (line.size() > 3 && line[3] == '-') {
    if (count_ >= kMaxReplyLines) return finish(0, true);
    return std::nullopt;
  }
  return finish(code, code < 200 || code > 599);
}

}  // namespace pen::mail
