#include "local/targets.h"

#include <algorithm>
#include <utility>

#include "lib/base/text.h"
#include "lib/mail/address.h"

namespace pen::local {
namespace {

using Kind = AliasTarget::Kind;
constexpr std::string_view kInclude = ":include:";
constexpr std::string_view kJoins = "@.%!:|";  // join what stands before and behind them to one destination

/// Removes quotes and backslashes.
std::string plain(std::string_view raw) {
  std::string out;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] == '"') continue;
    if (raw[i] == '\\' && i + 1 < raw.size()) ++i;
    out += raw[i];
  }
  return out;
}

/// Whether a text is one quoted string from its begin to its end.
bool is_quoted(std::string_view raw) {
  if (raw.size() < 2 || !raw.starts_with('"')) return false;
  std::size_t at = 1;
  while (at < raw.size() && raw[at] != '"') at += raw[at] == '\\' ? 2 : 1;
  return at + 1 == raw.size();
}

/// Cuts one list into words and turns them into targets.
class ListReader {
 public:
  ListReader(std::string_view text, std::size_t limit, std::vector<AliasTarget>& out)
      : text_(text), limit_(limit), out_(out) {}

  /// False: there are more than the limit.
  bool read() {
    while (at_ < text_.size() && out_.size() <= limit_) {
      const char c = text_[at_];
      if (ascii_space(c) || c == '(') {
        skip_blank();
      } else if (c == ',' || c == ';') {
        flush();
        ++at_;
      } else if (c == '>') {  // of no "<": ends a destination
        target(join(std::exchange(words_, {}), ""));
        ++at_;
      } else {
        read_word();
      }
    }
    flush();
    return out_.size() <= limit_;
  }

 private:
  void add(Kind kind, std::string_view text) {
    if (!text.empty()) out_.push_back({kind, std::string(text)});
  }

  /// Skips white space and comments.
  void skip_blank() {
    unsigned depth = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '(')
        ++depth;
      else if (depth > 0 && c == '\\')
        ++at_;
      else if (depth > 0 && c == ')')
        --depth;
      else if (depth == 0 && !ascii_space(c))
        return;
    }
    at_ = std::min(at_, text_.size());
  }

  /// Reads from a quote past its end, unchanged; adds a missing end.
  std::string read_quoted() {
    const std::size_t begin = at_++;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_, text_.size());
    std::string raw(text_.substr(begin, at_ - begin));
    if (at_ < text_.size()) ++at_;
    return raw + '"';
  }

  bool ends_here() const {
    constexpr std::string_view kEnds = ",;(>";
    return at_ >= text_.size() || kEnds.contains(text_[at_]) || ascii_space(text_[at_]);
  }

  /// A quoted string is a word, or a part of one that an operator joins to the rest.
  void read_word() {
    std::string raw;
    bool angle = false;
    while (at_ < text_.size() && (angle || !ends_here())) {
      const char c = text_[at_];
      if (c == '"') {
        if (!angle && !raw.empty() && !kJoins.contains(raw.back())) break;
        raw += read_quoted();
        if (!angle && !ends_here() && !kJoins.contains(text_[at_])) break;
        continue;
      }
      const std::size_t size = c == '\\' ? 2 : 1;
      raw += text_.substr(at_, size);
      at_ = std::min(at_ + size, text_.size());
      if (c == '<') angle = last_close_ != std::string_view::npos && last_close_ > at_;
      if (c == '>') {
        words_.push_back(std::move(raw));
        return flush_brackets();
      }
    }
    words_.push_back(std::move(raw));
  }

  /// Takes what stands in angle brackets and drops the name before it.
  void flush_brackets() {
    const std::string_view last = words_.back();
    const std::string inner(trim(last.substr(last.find('<') + 1, last.size() - last.find('<') - 2)));
    const std::string all = join(std::exchange(words_, {}), " ");
    if (!special(inner)) add_address(all);
  }

  /// Takes the words, those that an operator joins together.
  void flush() {
    std::string one;
    for (auto& next : std::exchange(words_, {})) {
      const bool joins = !one.empty() && !istarts_with(next, kInclude) &&
                         (kJoins.contains(one.back()) || kJoins.contains(next.front()));
      if (!joins && !one.empty()) target(std::exchange(one, {}));
      one += next;
    }
    target(one);
  }

  void target(const std::string& raw) {
    if (!raw.empty() && !special(raw)) add_address(raw);
  }

  /// Takes a target that is no plain address. raw: as written.
  bool special(const std::string& raw) {
    const bool whole = is_quoted(raw);
    const std::string_view inside = whole ? std::string_view(raw).substr(1, raw.size() - 2) : raw;
    const std::string text = plain(raw);
    if (inside.starts_with('\\') && inside.size() > 1) {
      const std::string_view name = inside.substr(inside.starts_with("\\\\") ? 2 : 1);
      if (mail::has_domain(name))
        add_address(name);
      else
        add(Kind::mailbox, name);
    } else if (text.starts_with('|')) {
      add(Kind::command, trim(std::string_view(text).substr(1)));
    } else if (text.starts_with('/') || text.starts_with('~')) {
      add(Kind::file, text);
    } else if (istarts_with(text, kInclude)) {
      add(Kind::include, trim(std::string_view(text).substr(kInclude.size())));
    } else {
      return false;
    }
    return true;
  }

  /// True: a colon in what was read up to here begins no group, as no semicolon ends it.
  bool no_group() const { return last_semicolon_ == std::string_view::npos || last_semicolon_ < at_; }

  void add_address(std::string_view text) {
    if (plain(text).empty()) return;
    const auto before = text.substr(0, text.rfind('@'));
    if (no_group() && text.contains(':') && text.find_first_of("<>\"[") == text.npos && !text.starts_with('@'))
      return add(Kind::address, mail::quote_local(plain(before)) + std::string(text.substr(before.size())));
    bool found = false;
    for (auto& a : mail::parse_address_list(text, limit_ + 1)) {
      found = true;
      add(Kind::address, a.address);
    }
    if (found || text.find_first_of(":;<>") != std::string_view::npos) return;
    // No valid target, so it will be returned: what an administrator wrote must not vanish.
    const auto at = text.rfind('@');
    const std::string_view local = text.substr(0, at);
    if (at != std::string_view::npos && at + 1 < text.size()) {
      const std::string quoted = mail::quote_local(plain(local)) + std::string(text.substr(at));
      const auto again = mail::parse_address_list(quoted, 1);
      if (!again.empty()) return add(Kind::address, again.front().address);
    }
    add(Kind::address, mail::quote_local(plain(text)));
  }

  std::string_view text_;
  std::size_t limit_;
  std::vector<AliasTarget>& out_;
  std::size_t last_close_ = text_.rfind('>'), last_semicolon_ = text_.rfind(';');
  std::size_t at_ = 0;
  std::vector<std::string> words_;  // of a kind not known yet
};

}  // namespace

std::string_view error_module(LocalError) { return "local"; }
std::string_view describe(LocalError e) {
  switch (e) {
    case LocalError::too_many:
      return "too many destinations";
    case LocalError::loop:
      return "aliases lead round in a circle or too deep";
    case LocalError::untrusted:
      return "file is not to be trusted";
    case LocalError::unreadable:
      return "a file cannot be read now";
  }
  return "unknown";
}

Result<std::vector<AliasTarget>> parse_targets(std::string_view value, std::size_t limit) {
  std::vector<AliasTarget> out;
  if (!ListReader(value, limit, out).read()) return fail(LocalError::too_many);
  return out;
}

Result<std::vector<AliasTarget>> parse_target_file(std::string_view text, std::size_t limit) {
  std::vector<AliasTarget> out;
  while (!text.empty()) {
    const auto lf = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, lf);
    text.remove_prefix(std::min(lf + 1, text.size()));
    if (trim(line).starts_with('#')) continue;
    // An unterminated quote or comment spoils its own line and no other.
    if (!ListReader(line, limit, out).read()) return fail(LocalError::too_many);
  }
  return out;
}

}  // namespace pen::local
