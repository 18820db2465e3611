#include "lib/map/required_literals.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/base/text.h"

namespace pen::map {
namespace {

constexpr std::size_t kMaxExact = 256;  // bytes of a combined string
constexpr unsigned kMaxDepth = 50;      // of groups

using Strings = std::vector<std::string>;

std::size_t shortest(const Strings& set) {
  std::size_t least = SIZE_MAX;
  for (const auto& s : set) least = std::min(least, s.size());
  return set.empty() ? 0 : least;
}

/// The set that excludes more texts: longer literals first, then fewer.
const Strings& rarer(const Strings& a, const Strings& b) {
  const std::size_t x = std::min(shortest(a), kMaxLiteral), y = std::min(shortest(b), kMaxLiteral);
  if (x != y) return x > y ? a : b;
  return a.size() <= b.size() ? a : b;
}

void sort_out(Strings& set) {
  std::ranges::sort(set);
  const auto rest = std::ranges::unique(set);
  set.erase(rest.begin(), rest.end());
}

/// What is known about the texts that a piece of a pattern matches.
struct Known {
  std::optional<Strings> exact;  // the piece matches exactly these texts
  std::vector<Strings> needed;   // a match contains one literal of each of these sets

  /// All sets of which a match contains one literal.
  std::vector<Strings> all() const {
    auto sets = needed;
    if (exact && shortest(*exact) > 0) sets.push_back(*exact);
    return sets;
  }
  /// The most selective set; empty: there is none.
  Strings best() const {
    Strings one;
    for (const auto& set : all()) one = rarer(set, one);
    return one;
  }
  static Known nothing() { return {std::nullopt, {}}; }
  static Known text(std::string s) { return {Strings{std::move(s)}, {}}; }
};

/// A sequence of pieces.
class Sequence {
 public:
  void add(const Known& piece) {
    if (piece.exact && join(*piece.exact)) return;
    // The pieces before this one form a run of their own.
    whole_ = false;
    end_run();
    for (const auto& set : piece.needed) keep(set);
    run_ = piece.exact ? *piece.exact : Strings{""};
  }
  Known take() {
    if (whole_) return {std::move(run_), {}};
    end_run();
    return {std::nullopt, std::move(needed_)};
  }

 private:
  void end_run() { keep(run_); }
  void keep(const Strings& set) {
    if (shortest(set) >= kMinLiteral && needed_.size() < kMaxSets) needed_.push_back(set);
  }
  bool join(const Strings& next) {
    if (run_.size() * next.size() > kMaxLiterals) return false;
    Strings joined;
    for (const auto& a : run_) {
      for (const auto& b : next) {
        if (a.size() + b.size() > kMaxExact) return false;
        joined.push_back(a + b);
      }
    }
    sort_out(joined);
    run_ = std::move(joined);
    return true;
  }
  Strings run_{""};              // the texts that the last pieces match together
  std::vector<Strings> needed_;  // from the pieces before them
  bool whole_ = true;
};

/// Reads a pattern; nullopt: it holds a construct that is not fully understood.
class Reader {
 public:
  Reader(std::string_view pattern, PatternSyntax syntax) : rest_(pattern), pcre_(syntax == PatternSyntax::pcre) {}

  std::optional<Known> read() {
    auto all = alternatives();
    if (!rest_.empty()) return std::nullopt;  // a stray parenthesis
    return all;
  }

 private:
  bool take(std::string_view what) {
    if (!rest_.starts_with(what)) return false;
    rest_.remove_prefix(what.size());
    return true;
  }
  char next() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  std::optional<Known> alternatives() {
    Known all{Strings{}, {}};
    Strings needed;
    bool all_need = true, branches = false;
    do {
      auto one = sequence();
      if (!one) return std::nullopt;
      if (!branches && !rest_.starts_with('|')) return one;  // there is only one branch
      branches = true;
      if (all.exact && one->exact && all.exact->size() + one->exact->size() <= kMaxLiterals)
        all.exact->insert(all.exact->end(), one->exact->begin(), one->exact->end());
      else
        all.exact.reset();
      const Strings literals = one->best();
      if (shortest(literals) == 0 || needed.size() + literals.size() > kMaxLiterals)
        all_need = false;
      else
        needed.insert(needed.end(), literals.begin(), literals.end());
    } while (take("|"));
    sort_out(needed);
    if (all_need) all.needed.push_back(std::move(needed));
    if (all.exact) sort_out(*all.exact);
    return all;
  }

  std::optional<Known> sequence() {
    Sequence pieces;
    while (!rest_.empty() && rest_.front() != '|' && rest_.front() != ')') {
      auto piece = atom();
      if (!piece || !quantifiers(*piece)) return std::nullopt;
      pieces.add(*piece);
    }
    return pieces.take();
  }

  std::optional<Known> atom() {
    const char c = next();
    switch (c) {
      case '(':
        return group();
      case '[':
        return bracket();
      case '\\':
        return escape();
      case '.':
        return Known::nothing();
      case '^':
      case '$':
        return Known::text("");
      case '*':
      case '+':
      case '?':
      case '{':
        return std::nullopt;
      default:
        return literal(c);
    }
  }

  static Known literal(char c) {
    // Bytes beyond ASCII may have other forms that match, in a locale or in UTF-8.
    if (static_cast<unsigned char>(c) >= 0x80 || c == '\0') return Known::nothing();
    return Known::text(std::string(1, ascii_lower(c)));
  }

  std::optional<Known> group() {
    if (++depth_ > kMaxDepth) return std::nullopt;
    bool around = false;  // a look-around: the text is not part of the match
    if (rest_.starts_with('*')) return std::nullopt;
    if (rest_.starts_with('?')) {
      if (!pcre_) return std::nullopt;
      rest_.remove_prefix(1);
      around = take("=") || take("!") || take("<=") || take("<!");
      if (!around && !take(":") && !take(">")) {
        if (!rest_.empty() && (rest_.front() == '<' || rest_.starts_with("P<"))) {
          const auto end = rest_.find('>');
          if (end == rest_.npos) return std::nullopt;
          rest_.remove_prefix(end + 1);
        } else if (const auto flags = rest_.find_first_not_of("imsU-"); flags != rest_.npos) {
          // These flags change nothing here. Others, and other constructs with this beginning, change a pattern's
          // meaning.
          rest_.remove_prefix(flags);
          if (take(")")) {
            --depth_;
            return Known::text("");
          }
          if (!take(":")) return std::nullopt;
        } else {
          return std::nullopt;
        }
      }
    }
    auto inside = alternatives();
    if (!inside || !take(")")) return std::nullopt;
    --depth_;
    return around ? Known::text("") : inside;
  }

  /// Reads a set of characters; a small and simple set becomes alternatives.
  std::optional<Known> bracket() {
    Strings members;
    bool simple = true;
    if (take("^")) simple = false;
    for (bool first = true;; first = false) {
      if (rest_.empty()) return std::nullopt;
      const char c = next();
      if (c == ']' && !first) break;
      if (c == '[' && !rest_.empty() && (rest_.front() == ':' || rest_.front() == '.' || rest_.front() == '=')) {
        const auto end = rest_.find_first_not_of("abcdefghijklmnopqrstuvwxyz^", 1);
        if (rest_.front() != ':' || end == rest_.npos || !rest_.substr(end).starts_with(":]")) return std::nullopt;
        rest_.remove_prefix(end + 2);
        simple = false;
      } else if (c == '\\' && pcre_) {
        if (rest_.empty()) return std::nullopt;
        const char escaped = next();
        if (escaped == 'Q' || escaped == 'E' || escaped == 'c') return std::nullopt;
        simple = false;
      } else if (c == '-' && !members.empty()) {
        simple = false;  // a range, or a hyphen at the end
      } else {
        const Known one = literal(c);
        if (one.exact)
          members.push_back(one.exact->front());
        else
          simple = false;
      }
    }
    sort_out(members);
    if (!simple || members.size() > kMaxLiterals / 2) return Known::nothing();
    return Known{std::move(members), {}};
  }

  std::optional<Known> escape() {
    if (rest_.empty()) return std::nullopt;
    const char c = next();
    const auto among = [c](std::string_view set) { return set.find(c) != set.npos; };
    if (ascii_digit(c)) {  // a back-reference; with more digits perhaps a character
      if (c == '0' || (!rest_.empty() && ascii_digit(rest_.front()))) return std::nullopt;
      return Known::nothing();
    }
    if (!pcre_) {
      if (among("wWsS")) return Known::nothing();
      if (among("<>bB`'")) return Known::text("");
    } else {
      if (among("dDwWsShHvVNR")) {
        // \N{U+…} stands for a character.
        if (c == 'N' && rest_.starts_with('{')) return std::nullopt;
        return Known::nothing();
      }
      if (among("bBAZzG")) return Known::text("");
      if (c == 't') return Known::text("\t");
      if (c == 'n') return Known::text("\n");
      if (c == 'r') return Known::text("\r");
    }
    if (ascii_alnum(c)) return std::nullopt;
    return literal(c);
  }

  /// Reads the quantifiers behind an atom. False: not understood.
  bool quantifiers(Known& piece) {
    for (;;) {
      bool may_lack = false, once = false;
      if (take("*")) {
        may_lack = true;
      } else if (take("?")) {
        may_lack = once = true;
      } else if (take("+")) {
      } else if (rest_.starts_with('{')) {
        const auto end = rest_.find('}');
        if (end == rest_.npos) return false;
        const std::string_view range = rest_.substr(1, end - 1);
        const auto comma = range.find(',');
        const auto least = parse_unsigned(range.substr(0, comma));
        if (!least) return false;
        if (comma != range.npos && comma + 1 < range.size() && !parse_unsigned(range.substr(comma + 1))) return false;
        may_lack = *least == 0;
        rest_.remove_prefix(end + 1);
      } else {
        return true;
      }
      if (pcre_ && !take("?")) take("+");  // lazy, possessive
      if (!may_lack) {
        piece = {std::nullopt, piece.all()};
      } else if (once && piece.exact && piece.exact->size() < kMaxLiterals) {
        piece.exact->emplace_back();
        sort_out(*piece.exact);
        piece.needed.clear();
      } else {
        piece = Known::nothing();
      }
    }
  }

  std::string_view rest_;
  bool pcre_;
  unsigned depth_ = 0;
};

}  // namespace

std::vector<Strings> required_literals(std::string_view pattern, PatternSyntax syntax) {
  const auto known = Reader(pattern, syntax).read();
  if (!known) return {};
  auto sets = known->all();
  std::erase_if(sets, [](const Strings& set) { return shortest(set) < kMinLiteral; });
  for (auto& set : sets) {
    for (auto& literal : set) literal.resize(std::min(literal.size(), kMaxLiteral));
    sort_out(set);
  }
  return sets;
}

}  // namespace pen::map
