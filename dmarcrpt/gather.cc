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

/// About what a row of it takes.
std::size_t size_of(const Facts& facts) {
  std::size_t out = sizeof(Row);
  for (const std::string* text :
       {&facts.source_ip, &facts.disposition, &facts.override_type, &facts.override_comment, &facts.header_from,
        &facts.envelope_from, &facts.spf_domain, &facts.spf_scope, &facts.spf_result})
    out += text->size();
  for (const Signature& s : facts.signatures) out += sizeof s + s.domain.size() + s.selector.size() + s.result.size();
  return out;
}

}  // namespace

std::size_t DomainDay::reckoned() const {
  std::size_t out = 0;
  for (const Row& row : rows) out += size_of(row.facts);
  return out;
}

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
  } else if (day->rows.size() < kMaxRows && days.grow(*day, size_of(facts))) {
    day->rows.push_back({std::move(facts), 1});
  } else {
    ++day->beyond;
  }
  return true;
}

}  // namespace pen::dmarcrpt
