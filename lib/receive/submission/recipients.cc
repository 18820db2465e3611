#include "lib/receive/submission/recipients.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/header.h"
#include "lib/receive/submission/format.h"

namespace pen::submission {
namespace {

using Line = mail::HeaderScanner::Line;

enum class Kind { other, plain, resent };

Kind kind_of(std::string_view name) {
  for (const std::string_view word : {"to", "cc", "bcc"})
    if (iequals(name, word)) return Kind::plain;
  for (const std::string_view word : {"resent-to", "resent-cc", "resent-bcc"})
    if (iequals(name, word)) return Kind::resent;
  return Kind::other;
}

/// The part of a line that decides its kind, which does not depend on how much of the line was kept.
std::string_view start_of(std::string_view line) { return line.substr(0, mail::HeaderScanner::kDecide); }
std::string_view field_name(std::string_view line) { return line.substr(0, mail::field_name_length(start_of(line))); }

/// The end of a quoted string, comment, address literal or path that begins at `at`; the end of the text if it has
/// none.
std::size_t end_of(std::string_view text, std::size_t at) {
  const char open = text[at], close = open == '"' ? '"' : open == '(' ? ')' : open == '[' ? ']' : '>';
  std::size_t depth = 1;
  while (++at < text.size()) {
    if (text[at] == '\\')
      ++at;
    else if (text[at] == close && --depth == 0)
      return at + 1;
    else if (open == '(' && text[at] == '(')
      ++depth;
    else if (open == '<' && text[at] == '"')
      at = end_of(text, at) - 1;
  }
  return text.size();
}

class RecipientReader {
 public:
  RecipientReader(std::string_view text, std::size_t most) : text_(text), most_(most) {}

  Listed read() {
    for (std::size_t at = 0; at < text_.size() && out_.addresses.size() < most_;) {
      const char c = text_[at];
      std::size_t end = at + 1;
      if (c == '\\')
        end = std::min(at + 2, text_.size());
      else if (c == '"' || c == '(' || c == '[' || c == '<')
        end = end_of(text_, at);
      const auto piece = text_.substr(at, end - at);
      at = end;
      if (c == ',' || c == ';') {
        finish();
      } else if (c == ':') {
        // A group's name, unless somebody wrote a colon for a comma.
        if (item_.contains('@'))
          finish();
        else
          item_.clear();
      } else if (c == '(') {
        item_ += ' ';
        if (!piece.ends_with(')')) behind_ = piece.substr(1);  // it has no end: what it swallows may be recipients
      } else {
        path_ = path_ || c == '<';
        item_ += piece;
      }
    }
    finish();
    for (const auto word : split(behind_))
      if (word.contains('@')) add(word);
    return std::move(out_);
  }

 private:
  void finish() {
    const std::string item = std::exchange(item_, {});
    if (!std::exchange(path_, false)) return add_words(item);
    std::vector<std::string> skipped;
    for (auto& found : mail::parse_address_list(item, most_ - out_.addresses.size(), &skipped))
      out_.addresses.push_back(std::move(found.address));
    for (const auto& rest : skipped) add_words(rest);
  }

  /// Splits at blanks, but for those around @ and dots.
  void add_words(std::string_view item) {
    const auto joins = [](char c) { return c == '@' || c == '.'; };
    std::string word;
    for (std::size_t at = 0; at < item.size();) {
      if (ascii_space(item[at])) {
        while (at < item.size() && ascii_space(item[at])) ++at;
        if (at == item.size() || word.empty() || joins(item[at]) || joins(word.back())) continue;
        add(std::exchange(word, {}));
        continue;
      }
      std::size_t end = at + 1;
      if (item[at] == '\\')
        end = std::min(at + 2, item.size());
      else if (item[at] == '"' || item[at] == '[')
        end = end_of(item, at);
      word += item.substr(at, end - at);
      at = end;
    }
    add(word);
  }

  void add(std::string_view word) {
    if (word.empty() || out_.addresses.size() >= most_) return;
    std::vector<std::string> skipped;
    if (auto found = mail::parse_address_list(word, 2, &skipped); found.size() == 1 && skipped.empty()) {
      out_.addresses.push_back(std::move(found.front().address));
      return;
    }
    ++out_.unreadable;
    const auto at = word.rfind('@');
    if (at != std::string_view::npos && at > 0) {
      const std::string quoted = mail::quote_local(word.substr(0, at)) + std::string(word.substr(at));
      if (auto again = mail::parse_address_list(quoted, 1); !again.empty()) {
        out_.addresses.push_back(std::move(again.front().address));
        return;
      }
    }
    out_.addresses.push_back(mail::quote_local(word));
  }

  std::string_view text_;
  std::size_t most_;
  Listed out_;
  std::string item_;  // without comments
  bool path_ = false;
  std::string_view behind_;
};

}  // namespace

Listed read_recipients(std::string_view text, std::size_t most) { return RecipientReader(text, most).read(); }

void HeaderRecipients::feed(std::string_view content) {
  while (!ended_ && !content.empty()) {
    const auto lf = content.find('\n');
    const auto part = content.substr(0, lf);
    // Of a line that is no field of ours only the beginning matters.
    const bool counts = line_.size() < mail::HeaderScanner::kDecide ||
                        (in_field_ && (line_.front() == ' ' || line_.front() == '\t')) ||
                        kind_of(field_name(line_)) != Kind::other;
    if (counts) line_ += part;
    if (line_.size() + kept_ > kMaxHeader) {
      fault_ = "header too long";
      ended_ = true;
      return;
    }
    if (lf == std::string_view::npos) return;
    content.remove_prefix(lf + 1);
    if (line_.ends_with('\r')) line_.pop_back();
    std::string whole;
    whole.swap(line_);
    line(whole);
  }
}

void HeaderRecipients::line(std::string_view text) {
  const Line kind =
      mail::HeaderScanner::classify(start_of(text), text.size() < mail::HeaderScanner::kDecide, first_line_);
  first_line_ = false;
  if (kind == Line::continuation) {
    if (in_field_) {
      field_ += text;
      kept_ += text.size();
    }
    return;
  }
  field();
  if (kind == Line::separator || kind == Line::body) {
    ended_ = true;
    return;
  }
  in_field_ = kind_of(field_name(text)) != Kind::other;
  if (in_field_) {
    field_ = text;
    kept_ += text.size();
  }
}

void HeaderRecipients::field() {
  if (!in_field_) return;
  in_field_ = false;
  const std::string_view whole = field_;
  const auto name = field_name(whole);
  const bool resent = kind_of(name) == Kind::resent;
  any_resent_ = any_resent_ || resent;
  auto& list = resent ? resent_ : plain_;
  const auto room = kMaxRecipients + 1 - list.size();
  const auto value = whole.substr(whole.find(':') + 1);
  for (auto& address : read_recipients(value, room).addresses) list.push_back(std::move(address));
  if (list.size() > kMaxRecipients) fault_ = "too many recipients";
  field_.clear();
}

void HeaderRecipients::finish() {
  if (ended_) return;
  if (!line_.empty()) {
    if (line_.ends_with('\r')) line_.pop_back();
    line(std::exchange(line_, {}));
  }
  field();
  ended_ = true;
}

std::vector<std::string> HeaderRecipients::take() {
  std::vector<std::string> out;
  std::set<std::string, std::less<>> seen;
  for (auto& address : any_resent_ ? resent_ : plain_)
    if (seen.insert(address).second) out.push_back(std::move(address));
  return out;
}

}  // namespace pen::submission
