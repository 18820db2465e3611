#pragma once
/// The DKIM-Signature: field: read, and written; and the fields of ARC that are like it: written.
///
/// Use:     auto signature = Signature::parse(value);           // what follows the colon
///          std::string field = signature.field();               // folded; without the last CRLF
/// Length:  field() depends on sizes alone, not on the values of the digest and the signature: room can be kept for it
///          before they are known.
/// Errors:  syntax; unsupported: another version.
/// Source:  RFC 6376 sections 3.5 and 6.1.1, RFC 8301; RFC 8617 sections 4.1.2 and 4.1.3. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/trust/dkim/canonical.h"
#include "lib/trust/dkim/error.h"
#include "lib/trust/dkim/key.h"

namespace pen::dkim {

inline constexpr std::string_view kSignatureName = "DKIM-Signature";
inline constexpr std::string_view kArcResultsName = "ARC-Authentication-Results",
                                  kArcMessageName = "ARC-Message-Signature", kArcSealName = "ARC-Seal";

struct Signature {
  // Beyond this a field is not read: mine are below 2 KiB.
  static constexpr std::size_t kMaxSize = 64 * 1024;
  static constexpr std::size_t kMaxFields = 1000;  // names in h=

  std::string algorithm_text;          // a=
  std::optional<Algorithm> algorithm;  // nullopt: one that we do not have, or must not accept
  Canonicalization canonicalization;
  std::string domain, selector;
  std::string identity;             // i=; empty: @domain
  std::vector<std::string> fields;  // h=
  std::string body_digest;          // bh=, raw
  std::string signature;            // b=, raw
  std::optional<std::uint64_t> time, expires;
  bool partial = false;      // l=: a part of the body only is signed
  std::size_t instance = 0;  // of a set of ARC: the field is ARC-Message-Signature, without identity; 0: DKIM-Signature

  static Result<Signature> parse(std::string_view value);
  /// The whole field; b= is its last tag. signed_part(): the same with an empty b=.
  std::string field() const;
  std::string signed_part() const;
};

/// The field that closes a set of ARC.
struct Seal {
  std::size_t instance = 0;
  Algorithm algorithm = Algorithm::rsa_sha256;
  std::uint64_t time = 0;
  std::string chain;  // cv=
  std::string domain, selector;
  std::string signature;  // b=, raw

  std::string field() const;
  std::string signed_part() const;
};

/// A whole DKIM-Signature: field with an empty b=, everything else as it was.
std::string without_signature(std::string_view whole);

}  // namespace pen::dkim
