#pragma once
/// The patterns of regexp and pcre tables, compiled, each with a limit for what one match may cost.
///
/// Use:     PEN_TRY_ASSIGN(auto pattern, PcrePattern::compile(rule, path));
///          pattern.needed();                             // see required_literals.h
///          Result<bool> yes = pattern.match(key, spans);
/// Spans:   valid after a match for the groups that the rule's result uses; others may be missing.
/// Limits:  beyond them match() is an error (MapError::unreadable, "matching took too long"): mail waits, and is
///          neither let through nor refused. docs/content-checks.md has the figures.
/// Thread:  any. A pcre pattern becomes machine code when it is first tried.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "lib/map/map.h"
#include "lib/map/rules.h"

namespace pen::map {

/// Where a match and its groups are in the key.
struct Spans {
  static constexpr std::size_t kMax = 100;
  std::array<std::pair<std::size_t, std::size_t>, kMax> at;
  std::size_t count;
};

/// POSIX: of the matches that begin first the longest. The C library's, which knows no limit of its own: it is asked
/// about few beginnings at a time, and a clock is looked at in between.
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

/// Perl's, by PCRE2: as machine code where the system lets a process make some, else interpreted.
class PcrePattern {
 public:
  static Result<PcrePattern> compile(const Rule& rule, const std::string& path);
  const std::vector<std::vector<std::string>>& needed() const { return needed_; }
  Result<bool> match(const std::string& key, Spans& spans) const;
  /// For tests: never as machine code.
  Result<bool> match_interpreted(const std::string& key, Spans& spans) const;

 private:
  struct Compiled;
  struct Free {
    void operator()(Compiled* compiled) const;
  };
  std::unique_ptr<Compiled, Free> compiled_;
  std::vector<std::vector<std::string>> needed_;
};

/// Why PCRE2 interprets patterns here, if it does: it cannot make machine code, or the system forbids it. Tried once.
std::optional<std::string> why_pcre_is_interpreted();

}  // namespace pen::map
