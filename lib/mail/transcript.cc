#include "lib/mail/transcript.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/base/text.h"
#include "lib/mail/command.h"

namespace pen::mail {
namespace {

constexpr std::string_view kHidden = "***";

/// Not text of a message, and not a password, that happens to begin with a verb.
bool beyond_doubt(const CommandLine& line) {
  switch (line.verb) {
    case Verb::mail:
      return istarts_with(line.args, "FROM:");
    case Verb::rcpt:
      return istarts_with(line.args, "TO:");
    case Verb::data:
    case Verb::rset:
    case Verb::quit:
    case Verb::starttls:
      return line.args.empty();
    case Verb::helo:
    case Verb::ehlo:
      return !line.args.empty() && line.args.find_first_of(" \t") == std::string_view::npos;
    default:
      return false;
  }
}

/// Of its form (RFC 4422 section 3.1), so that a password in its place is none.
bool mechanism_name(std::string_view word) {
  return word.size() <= 20 &&
         std::ranges::all_of(word, [](char c) { return ascii_alnum(c) || c == '-' || c == '_'; });
}

template <class F>
void for_each_line(std::string_view text, F each) {
  while (!text.empty()) {
    const auto end = text.find("\r\n");
    each(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 2);
  }
}

}  // namespace

void Transcript::add(bool ours, std::string_view line) {
  constexpr std::size_t kRoom =
      10;  // the mark in front, the dots of a line cut short, the line feed
  ++lines_;
  const bool first = tail_.empty() && head_.size() + line.size() + kRoom <= kMost / 2;
  std::string own;
  std::string& text = first ? head_ : own;
  text += ours ? "Out: " : "In:  ";
  if (line.size() > kMaxLine) {
    text += printable(line, kMaxLine);
  } else {  // nearly all of them: without a copy
    for (const char c : line) text += c >= 32 && c < 127 ? c : '?';
  }
  text += '\n';
  if (first) return;
  tail_bytes_ += own.size();
  tail_.push_back(std::move(own));
  while (tail_bytes_ > kMost / 2) {
    tail_bytes_ -= tail_.front().size();
    tail_.pop_front();
    ++left_out_;
  }
}

void Transcript::command(std::string_view line) {
  const bool ours = side_ == Side::client;
  if (std::exchange(response_next_, false)) {
    add(ours, kHidden);
    return;
  }
  challenges_ = false;
  const CommandLine parsed = split_command(line);
  if (parsed.verb == Verb::auth) {
    hide_ = challenges_ = true;
    const auto mechanism = parsed.args.substr(0, parsed.args.find_first_of(" \t"));
    add(ours, fmt::format("AUTH {}{}", mechanism_name(mechanism) ? mechanism : kHidden,
                          mechanism.size() < parsed.args.size() ? " ***" : ""));
    return;
  }
  if (hide_ && !beyond_doubt(parsed)) {
    add(ours, kHidden);
    return;
  }
  hide_ = parsed.verb == Verb::data || parsed.verb == Verb::bdat;
  add(ours, line);
}

void Transcript::reply(std::string_view line) {
  const bool ours = side_ == Side::server;
  if (challenges_ && line.starts_with("334")) {
    response_next_ = true;
    add(ours, "334 ***");
    return;
  }
  if (line.starts_with('2')) hide_ = false;  // it was taken: nothing of it is left to come
  add(ours, line);
}

void Transcript::commands(std::string_view text) {
  for_each_line(text, [this](std::string_view line) { command(line); });
}

void Transcript::replies(std::string_view text) {
  for_each_line(text, [this](std::string_view line) { reply(line); });
}

std::string Transcript::text() const {
  std::string text = head_;
  if (left_out_ > 0) text += fmt::format("[{} lines left out]\n", left_out_);
  for (const auto& line : tail_) text += line;
  return text;
}

void Transcript::clear() {
  head_ = {};
  tail_ = {};
  tail_bytes_ = 0;
  lines_ = left_out_ = 0;
  errors_ = {};
}

}  // namespace pen::mail
