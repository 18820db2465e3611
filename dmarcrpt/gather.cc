#include "dmarcrpt/gather.h"

#include <algorithm>

#include "lib/base/text.h"

namespace pen::dmarcrpt {
namespace {

constexpr std::string_view kRefused = "reject";

std::string cut(const std::string& text) { return printable(text, kMaxText); }

Facts cut(const Facts& facts) {
  Facts out = facts;
  for (std::string* text : {&out.source_ip, &out.disposition, &out.override_type, &out.override_comment,
                            &out.header_from, &out.envelope_from, &out.spf_domain, &out.spf_scope, &out.spf_result})
    *text = cut(*text);
  if (out.signatures.size() > kMaxSignatures) out.signatures.resize(kMaxSignatures);
  for (Signature& s : out.signatures) s = {cut(s.domain), cut(s.selector), cut(s.result)};
  return out;
}

}  // namespace

bool takes_mail(const DomainDay& day) {
  // Rows of a day that an older version gathered count as well.
  return day.taken > 0 || std::ranges::any_of(day.rows, [](const Row& r) { return r.facts.disposition != kRefused; });
}

bool add(daily_reports::Days<DomainDay>& days, const ipc::dmarc_report::Result& result, WallTime now) {
  DomainDay* day = days.today(result.published.domain, now);
  if (day == nullptr) return false;
  day->published = result.published;
  Facts facts = cut(result.facts);
  if (facts.disposition != kRefused) ++day->taken;
  // What is counted most stands in front before long.
  const auto same = std::ranges::find(day->rows, facts, &Row::facts);
  if (same != day->rows.end()) {
    ++same->count;
    if (same != day->rows.begin() && same->count > std::prev(same)->count) std::iter_swap(same, std::prev(same));
  } else if (day->rows.size() < kMaxRows) {
    day->rows.push_back({std::move(facts), 1});
  } else {
    ++day->beyond;
  }
  return true;
}

}  // namespace pen::dmarcrpt
