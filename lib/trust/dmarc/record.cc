#include "lib/trust/dmarc/record.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lib/base/text.h"

namespace pen::dmarc {
namespace {

// The standards know eleven.
constexpr std::size_t kMaxTags = 50;

struct Tag {
  std::string_view name, value;
};

/// The tags in order; a part without "=" is passed over.
std::vector<Tag> tags_of(std::string_view text) {
  std::vector<Tag> out;
  while (!text.empty() && out.size() < kMaxTags) {
    const auto end = std::min(text.find(';'), text.size());
    const auto part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto equals = part.find('=');
    if (equals != part.npos) out.push_back({trim(part.substr(0, equals)), trim(part.substr(equals + 1))});
  }
  return out;
}

std::optional<Policy> policy_of(std::string_view word) {
  for (const auto policy : {Policy::none, Policy::quarantine, Policy::reject})
    if (iequals(word, policy_word(policy))) return policy;
  return std::nullopt;
}

}  // namespace

std::string_view describe(DmarcError e) {
  switch (e) {
    case DmarcError::syntax:
      return "malformed";
    case DmarcError::no_list:
      return "the list of public suffixes cannot be used";
  }
  return "unknown";
}

std::string_view policy_word(Policy policy) {
  switch (policy) {
    case Policy::none:
      return "none";
    case Policy::quarantine:
      return "quarantine";
    case Policy::reject:
      return "reject";
  }
  return "unknown";
}

bool Record::is_one(std::string_view text) {
  // The version is the first tag and its value is in capitals.
  const auto tags = tags_of(text.substr(0, text.find(';')));
  return !tags.empty() && iequals(tags.front().name, "v") && tags.front().value == "DMARC1";
}

Result<Record> Record::parse(std::string_view text) {
  if (!is_one(text)) return fail(DmarcError::syntax, "no v=DMARC1");
  if (text.size() > kMaxSize) return fail(DmarcError::syntax, "too long");
  Record out;
  std::optional<Policy> policy;
  bool reports = false;
  for (const auto& [name, value] : tags_of(text)) {
    if (iequals(name, "p"))
      policy = policy_of(value);
    else if (iequals(name, "sp"))
      out.subdomains = policy_of(value);
    else if (iequals(name, "np"))
      out.missing = policy_of(value);
    else if (iequals(name, "adkim"))
      out.strict_dkim = iequals(value, "s");
    else if (iequals(name, "aspf"))
      out.strict_spf = iequals(value, "s");
    else if (iequals(name, "t"))
      out.testing = iequals(value, "y");
    else if (iequals(name, "psd") && (iequals(value, "y") || iequals(value, "n")))
      out.public_suffix = iequals(value, "y") ? PublicSuffix::yes : PublicSuffix::no;
    else if (iequals(name, "rua")) {
      reports = reports || istarts_with(value, "mailto:");
      out.report_uris = value;
    } else if (iequals(name, "pct"))
      out.percent = static_cast<unsigned>(std::min(parse_unsigned(value).value_or(100), 100ULL));
  }
  if (!policy && !reports) return fail(DmarcError::syntax, "no p=");
  out.policy = policy.value_or(Policy::none);
  return out;
}

}  // namespace pen::dmarc
