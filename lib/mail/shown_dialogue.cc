#include "lib/mail/shown_dialogue.h"

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

}  // namespace

ShownDialogue::ShownDialogue(Side side, Begin begin) : side_(side) {
  if (begin == Begin::start) return;
  last_ = Verb::auth;  // the next reply may be a challenge
  hide_ = side == Side::server;
}

std::string_view ShownDialogue::command(std::string_view line) {
  const CommandLine parsed = split_command(line);
  if (hide_ && parsed.verb != Verb::auth && !beyond_doubt(parsed)) {
    last_ = Verb::unknown;
    hid_ = true;
    return kHidden;
  }
  const bool doubtful = hide_ && hid_;  // it may be a text that contains a word like AUTH
  last_ = parsed.verb;
  if (side_ == Side::server && has_secrets_behind(parsed.verb) && !hide_) {
    hide_ = true;
    hid_ = false;
  }
  if (parsed.verb != Verb::auth) return line;
  const auto mechanism = parsed.args.substr(0, parsed.args.find_first_of(" \t"));
  own_ = fmt::format("AUTH {}{}", !doubtful && mechanism_name(mechanism) ? mechanism : kHidden,
                     mechanism.size() < parsed.args.size() ? " ***" : "");
  return own_;
}

std::string_view ShownDialogue::response() const { return kHidden; }

std::string_view ShownDialogue::reply(std::string_view line) {
  const bool intermediate = line.starts_with('3'), positive = line.starts_with('2');
  if (last_ == Verb::auth && intermediate) {  // each of these replies is a challenge
    own_ = fmt::format("{} ***", line.substr(0, 3));
    return own_;
  }
  if (!hide_ || (line.size() > 3 && line[3] == '-')) return line;
  // After an accepted AUTH, DATA or BDAT the private data is read elsewhere, or nothing of it is left to come. A line
  // of refused content may look like RSET or MAIL; these two prove that the client continues only while nothing came
  // that could be such content.
  const bool taken = positive ? has_secrets_behind(last_) : intermediate && last_ == Verb::data;
  const bool goes_on = positive && !hid_ && (last_ == Verb::rset || last_ == Verb::mail);
  if (taken || goes_on) hide_ = false;
  return line;
}

}  // namespace pen::mail
