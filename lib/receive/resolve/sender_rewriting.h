#pragma once
/// SRS as the settings have it: which senders are rewritten, and which addresses of ours stand for others.
///
/// Use:     auto rewriting = SenderRewriting::open(options);      // nullptr: srs_domain is empty
///          if (auto original = rewriting->original(recipient)) … // nullopt: an address like any other
/// Rules:   an address of srs_domain with a local part that begins with SRS0 or SRS1 is never anything else: what was
///          not made here, or is too old, is an unknown user, whatever tables have.
/// Owns:    the secrets, read by open().
/// Errors:  of open(): a setting or a file of secrets that cannot be used.
/// Thread:  any; immutable.
/// Source:  docs/srs.md.
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/receive/resolve/resolve.h"
#include "lib/trust/srs/srs.h"

namespace pen::resolve {

class SenderRewriting {
 public:
  static Result<std::shared_ptr<const SenderRewriting>> open(const Options& options);

  /// srs_domain, in lower case.
  const std::string& domain() const { return domain_; }
  /// The address that a recipient of ours stands for; an error: it was not made here, or is too old. nullopt: it is no
  /// rewritten address of ours.
  std::optional<Result<std::string>> original(std::string_view recipient) const;
  /// The sender in our name; empty: there is nothing to rewrite (no sender, no domain, srs_domain itself), or it is of
  /// srs_exclude_domains. Errors: of a table in that list.
  Result<std::string> forward(std::string_view sender) const;
  bool blocking() const { return excluded_.blocking(); }

 private:
  SenderRewriting(srs::Srs srs, std::string domain, map::MatchList excluded, const Clock& clock)
      : srs_(std::move(srs)), domain_(std::move(domain)), excluded_(std::move(excluded)), clock_(clock) {}
  srs::Srs srs_;
  std::string domain_;
  map::MatchList excluded_;
  const Clock& clock_;
};

}  // namespace pen::resolve
