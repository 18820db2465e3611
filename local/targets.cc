#include "local/targets.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/mail/address.h"

namespace pen::local {
namespace {

using Kind = AliasTarget::Kind;
constexpr std::string_view kInclude = ":include:";
constexpr std::string_view kJoins = "@.%!:";  // between two words they join them to one address

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

/// Cuts one list into words and turns each into a target.
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
      } else if (c == ',') {
        flush();
        ++at_;
      } else if (c == '|') {
        flush();
        read_command();
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
    return at_ >= text_.size() || text_[at_] == ',' || text_[at_] == '(' || ascii_space(text_[at_]);
  }

  void read_command() {
    ++at_;
    skip_blank();
    std::string line;
    if (at_ < text_.size() && text_[at_] == '"') {
      line = read_quoted();
      if (ends_here()) return add(Kind::command, trim(plain(line)));
    }
    while (at_ < text_.size() && text_[at_] != ',') {
      if (text_[at_] == '(') {
        skip_blank();
        line += ' ';
      } else if (text_[at_] == '"') {
        line += read_quoted();
      } else {
        const std::size_t size = text_[at_] == '\\' ? 2 : 1;
        line += text_.substr(at_, size);
        at_ += size;
      }
    }
    add(Kind::command, trim(line));
  }

  void read_word() {
    std::string raw;
    bool angle = false;
    std::size_t quoted = 0;  // characters of the word that are within quotes, including the quotes
    while (at_ < text_.size() && (angle || !ends_here())) {
      const char c = text_[at_];
      if (c == '"') {
        const std::string part = read_quoted();
        quoted += part.size();
        raw += part;
        continue;
      }
      const std::size_t size = c == '\\' ? 2 : 1;
      raw += text_.substr(at_, size);
      at_ = std::min(at_ + size, text_.size());
      if (c == '<') angle = closes_after(at_);
      if (c == '>') {
        words_.push_back(std::move(raw));
        return flush_brackets();
      }
    }
    // "a""b" is two quoted strings, but one word like any other.
    word(std::move(raw), quoted);
  }

  /// quoted: as above.
  void word(std::string raw, std::size_t quoted) {
    const bool whole = quoted > 0 && quoted == raw.size();
    if (name_of_brackets() || !special(raw, whole)) words_.push_back(std::move(raw));
  }

  /// True: the words so far are the name before an address in angle brackets; the next bracket or comma decides.
  bool name_of_brackets() {
    if (decided_at_ > 0 && at_ <= decided_at_) return brackets_;
    bool quoted = false;
    unsigned comment = 0;
    for (decided_at_ = at_; decided_at_ < text_.size(); ++decided_at_) {
      const char c = text_[decided_at_];
      if (c == '\\') {
        ++decided_at_;
      } else if (comment > 0) {
        if (c == '(') ++comment;
        if (c == ')') --comment;
      } else if (c == '"') {
        quoted = !quoted;
      } else if (!quoted && c == '(') {
        ++comment;
      } else if (!quoted && (c == ',' || (c == '<' && closes_after(decided_at_)))) {
        break;
      }
    }
    brackets_ = decided_at_ < text_.size() && text_[decided_at_] == '<';
    return brackets_;
  }

  bool closes_after(std::size_t at) const { return last_close_ != std::string_view::npos && last_close_ > at; }

  /// Takes a target that is no plain address. raw: as written; whole: raw is one quoted string.
  bool special(const std::string& raw, bool whole) {
    const std::string_view inside = whole ? std::string_view(raw).substr(1, raw.size() - 2) : raw;
    const std::string text = plain(raw);
    if (inside.starts_with('\\') && inside.size() > 1) {
      const std::string_view name = inside.substr(inside.starts_with("\\\\") ? 2 : 1);
      flush();
      if (mail::has_domain(name))
        add_address(name);
      else
        add(Kind::mailbox, name);
    } else if (whole && text.starts_with('|')) {
      flush();
      add(Kind::command, trim(std::string_view(text).substr(1)));
    } else if (text.starts_with('/') || text.starts_with('~')) {
      flush();
      add(Kind::file, text);
    } else if (istarts_with(text, kInclude)) {
      flush();
      std::string path(trim(std::string_view(text).substr(kInclude.size())));
      if (path.empty() && !whole) path = next_path();
      add(Kind::include, path);
    } else {
      return false;
    }
    return true;
  }

  /// The path of an ":include:" that is a word of its own.
  std::string next_path() {
    skip_blank();
    std::string raw;
    while (!ends_here()) {
      if (text_[at_] == '"') {
        raw += read_quoted();
      } else {
        const std::size_t size = text_[at_] == '\\' ? 2 : 1;
        raw += text_.substr(at_, size);
        at_ = std::min(at_ + size, text_.size());
      }
    }
    return plain(raw);
  }

  /// Takes an address in angle brackets and drops the name before it.
  void flush_brackets() {
    const std::string all = join(words_, " ");
    words_.clear();
    add_address(all);
  }

  /// Takes words that are addresses, and joins those with an operator between them.
  void flush() {
    std::string address;
    for (auto& next : words_) {
      const bool joins = !address.empty() && (kJoins.contains(address.back()) || kJoins.contains(next.front()));
      if (!joins && !address.empty()) {
        add_address(address);
        address.clear();
      }
      address += next;
    }
    words_.clear();
    if (!address.empty()) add_address(address);
  }

  void add_address(std::string_view text) {
    if (plain(text).empty()) return;
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
  std::size_t last_close_ = text_.rfind('>');
  std::size_t at_ = 0;
  std::size_t decided_at_ = 0;  // the decision holds for brackets_ up to here; 0: not decided
  bool brackets_ = false;
  std::vector<std::string> words_;  // words that were read, of a kind not known yet
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
