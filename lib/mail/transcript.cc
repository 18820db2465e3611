#include "lib/mail/transcript.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/text.h"

namespace pen::mail {
namespace {

constexpr std::string_view kHidden = "***";

/// Whether the line is a command for certain, not text of a message or a password that happens to begin with a verb.
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

/// Commands after which a client may send private data, whether the command was refused or not.
bool has_secrets_behind(Verb verb) { return verb == Verb::auth || verb == Verb::data || verb == Verb::bdat; }

/// Whether the word has the form of a mechanism's name (RFC 4422 section 3.1): a password in its place rarely has.
bool mechanism_name(std::string_view word) {
  return word.size() <= 20 && std::ranges::all_of(word, [](char c) { return ascii_alnum(c) || c == '-' || c == '_'; });
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
  constexpr std::size_t kRoom = 10;  // for the mark in front, the dots of a line cut short, and the line feed
  ++lines_;
  const bool first = tail_.empty() && head_.size() + line.size() + kRoom <= kMost / 2;
  std::string own;
  std::string& text = first ? head_ : own;
  text += ours ? "Out: " : "In:  ";
  if (line.size() > kMaxLine) {
    text += printable(line, kMaxLine);
  } else {  // nearly all lines: without a copy
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
  const CommandLine parsed = split_command(line);
  if (hide_ && parsed.verb != Verb::auth && !beyond_doubt(parsed)) {
    last_ = Verb::unknown;
    hid_ = true;
    add(ours, kHidden);
    return;
  }
  const bool doubtful = hide_ && hid_;  // it may be a text that contains a word like AUTH
  last_ = parsed.verb;
  if (!ours && has_secrets_behind(parsed.verb) && !hide_) {
    hide_ = true;
    hid_ = false;
  }
  if (parsed.verb == Verb::auth) {
    const auto mechanism = parsed.args.substr(0, parsed.args.find_first_of(" \t"));
    add(ours, fmt::format("AUTH {}{}", !doubtful && mechanism_name(mechanism) ? mechanism : kHidden,
                          mechanism.size() < parsed.args.size() ? " ***" : ""));
    return;
  }
  add(ours, line);
}

void Transcript::response() { add(side_ == Side::client, kHidden); }

void Transcript::reply(std::string_view line) {
  const bool ours = side_ == Side::server;
  const bool intermediate = line.starts_with('3'), positive = line.starts_with('2');
  if (last_ == Verb::auth && intermediate) {  // each of these replies is a challenge
    add(ours, fmt::format("{} ***", line.substr(0, 3)));
    return;
  }
  add(ours, line);
  if (!hide_ || (line.size() > 3 && line[3] == '-')) return;
  // After an accepted AUTH, DATA or BDAT the private data is read elsewhere, or nothing of it is left to come. A line
  // of refused content may look like RSET or MAIL; these two prove that the client continues only while nothing came
  // that could be such content.
  const bool taken = positive ? has_secrets_behind(last_) : intermediate && last_ == Verb::data;
  const bool goes_on = positive && !hid_ && (last_ == Verb::rset || last_ == Verb::mail);
  if (taken || goes_on) hide_ = false;
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
