#pragma once
/// The sender rewriting scheme: an envelope sender in the name of a host that forwards, so that its SPF record holds.
///
/// Use:     Srs srs({.secrets = {"now", "before"}});
///          auto sender = srs.forward("jo@there.example", "here.example", now);   // SRS0=HHHH=TT=there.example=jo@…
///          auto original = srs.reverse("SRS0=…@here.example", now);              // jo@there.example
/// Forms:   SRS0 for an original address; SRS1 for one that another host has written as SRS0, or SRS1, so that it never
///          grows with the number of hosts: a bounce goes to the first of them.
/// Compatible with postsrsd, libsrs2 and Mail::SRS, which share secrets and addresses: HMAC-SHA1 over the parts in
///          lower case, its first characters in base 64, + and / as well as - and _; days modulo 1024 in two
///          characters of base 32.
/// Errors:  not_srs; syntax; forged: no secret made this; expired; no_domain: an address that cannot be rewritten.
/// Pure. Thread: any.
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"

namespace pen::srs {

enum class SrsError { not_srs = 1, syntax, forged, expired, no_domain };
inline std::string_view error_module(SrsError) { return "SRS"; }
std::string_view describe(SrsError e);

struct Options {
  std::vector<std::string> secrets;  // the first signs; all are accepted. At least one
  std::size_t hash_length = 4;       // of what is written; kLeastHash to kMostHash
  std::size_t hash_minimum = 4;      // of what comes back
  char separator = '=';              // behind SRS0 and SRS1: = + or -
  unsigned max_age = 21;             // days
};

class Srs {
 public:
  // What libsrs2 and Mail::SRS take at least; a digest has no more than 27 characters.
  static constexpr std::size_t kLeastHash = 4, kMostHash = 27;
  explicit Srs(Options options);
  /// The address in the name of alias_domain. An address of that domain is rewritten too: the caller knows which
  /// mail needs it.
  Result<std::string> forward(std::string_view address, std::string_view alias_domain, WallTime now) const;
  /// The address that a rewritten one stands for.
  Result<std::string> reverse(std::string_view address, WallTime now) const;
  /// Whether it begins as a rewritten one does, in any case.
  static bool rewritten(std::string_view address);

 private:
  bool made(std::string_view hash, const std::string& parts) const;
  Options options_;
};

}  // namespace pen::srs
