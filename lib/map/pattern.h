#pragma once
/// The compiled patterns of regexp and pcre tables; each has a limit for the cost of one match.
///
/// Use:     PEN_TRY_ASSIGN(auto pattern, PcrePattern::compile(rule, path));
///          pattern.needed();                             // see required_literals.h
///          Result<bool> yes = pattern.match(key, spans);
/// Spans:   valid after a match for the groups that the rule's result uses; others may be missing.
/// Limits:  beyond them match() is an error (MapError::unreadable, "matching took too long"): the mail waits, and is
///          neither accepted nor refused. docs/content-checks.md has the figures.
/// Thread:  any. A pcre pattern is compiled to machine code when it is first tried.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "lib/map/map.h"
#include "lib/map/rules.h"

namespace pen::map {

/// The places of a match and its groups in the key.
struct Spans {
  static constexpr std::size_t kMax = 100;
  std::array<std::pair<std::size_t, std::size_t>, kMax> at;
  std::size_t count;
};

/// A POSIX pattern: of the matches that begin first, the longest. The C library's matcher has no limit of its own: so
/// it gets few starting positions at a time, and a clock is read in between.
class RegexpPattern {
 public:
  static Result<RegexpPattern> compile(const Rule& rule, const std::string& path);
  const std::vector<std::vector<std::string>>& needed() const { return needed_; }
  Result<bool> match(const std::string& key, Spans& spans) const;

 private:
  struct Compiled;
  struct Free {
    void operator()(Compiled* compiled) const;
  };
  Result<bool> match_long(const std::string& key, Spans& spans) const;

  std::unique_ptr<Compiled, Free> compiled_;
  std::vector<std::vector<std::string>> needed_;
};

/// A Perl pattern, by PCRE2: as machine code where the system permits that, else interpreted.
class PcrePattern {
 public:
  static Result<PcrePattern> compile(const Rule& rule, const std::string& path);
  const std::vector<std::vector<std::string>>& needed() const { return needed_; }
  Result<bool> match(const std::string& key, Spans& spans) const;
  /// For tests: matches without machine code.
  Result<bool> match_interpreted(const std::string& key, Spans& spans) const;

 private:
  struct Compiled;
  struct Free {
    void operator()(Compiled* compiled) const;
  };
  std::unique_ptr<Compiled, Free> compiled_;
  std::vector<std::vector<std::string>> needed_;
};

/// The reason why PCRE2 interprets patterns here, if it does: the library cannot make machine code, or the system
/// forbids it. Tried once.
std::optional<std::string> why_pcre_is_interpreted();

}  // namespace pen::map
