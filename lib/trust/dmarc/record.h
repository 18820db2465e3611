#pragma once
/// A DMARC record: what the owner of a domain asks for mail that is not from there.
///
/// Use:     if (Record::is_one(txt)) auto record = Record::parse(txt);
/// Rules:   a tag that is not known, or has a value that makes no sense, is passed over, as the RFC says. Without p= a
///          record with rua= means p=none; without both it is no record.
/// Errors:  syntax.
/// Source:  RFC 9989 section 4.7 (np=, psd=, t=); RFC 7489 section 6.3 (pct=, which many records still have). Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace pen::dmarc {

enum class DmarcError { syntax = 1, no_list };
inline std::string_view error_module(DmarcError) { return "dmarc"; }
std::string_view describe(DmarcError e);

/// In order of their strictness.
enum class Policy : std::uint8_t { none, quarantine, reject };
std::string_view policy_word(Policy policy);

struct Record {
  // Lists of report addresses make up the most of real ones.
  static constexpr std::size_t kMaxSize = 8192;
  enum class PublicSuffix : std::uint8_t { unknown, yes, no };

  Policy policy = Policy::none;
  std::optional<Policy> subdomains, missing;  // sp=, np=
  bool strict_dkim = false, strict_spf = false;
  unsigned percent = 100;
  bool testing = false;  // t=y
  PublicSuffix public_suffix = PublicSuffix::unknown;
  std::string report_uris;  // rua=, as it stands

  static bool is_one(std::string_view text);
  static Result<Record> parse(std::string_view text);
};

}  // namespace pen::dmarc
