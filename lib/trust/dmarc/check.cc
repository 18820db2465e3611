#include "lib/trust/dmarc/check.h"

#include <algorithm>
#include <map>

#include "lib/base/text.h"
#include "lib/net/dns_packet.h"

namespace pen::dmarc {
namespace {

using net::DnsOutcome;
using net::RecordType;

// RFC 9989 section 4.10: a longer name is asked about as it is, and then from its last seven labels on.
constexpr std::ptrdiff_t kMostLabels = 7;

bool within(std::string_view name, std::string_view domain) {
  return name == domain ||
         (name.ends_with(domain) && name.size() > domain.size() && name[name.size() - domain.size() - 1] == '.');
}

/// The next name of a tree walk; empty: there is none.
std::string_view parent_of(std::string_view name) {
  do {
    const auto dot = name.find('.');
    if (dot == name.npos) return {};
    name.remove_prefix(dot + 1);
  } while (std::ranges::count(name, '.') >= kMostLabels);
  return name;
}

Policy softened(Policy policy) { return policy == Policy::reject ? Policy::quarantine : Policy::none; }

/// One evaluation. Its tasks run one within the other.
class Evaluation {
 public:
  Evaluation(const Records& records, const Suffixes* suffixes, const Facts& facts, unsigned chance, async::Until until)
      : records_(records), suffixes_(suffixes), facts_(facts), chance_(chance), until_(until) {}

  async::Task<Outcome> author(std::string domain);

 private:
  struct Found {  // the record of one name
    std::optional<Record> record;
    bool unknown = false;
  };
  struct Place {  // where a domain belongs, and the record that speaks for it
    std::string organisation;
    std::string record_at;
    std::optional<Record> record;
    bool unknown = false;  // as far as DNS answers: there may be another record
  };
  [[gnu::noinline]] async::Task<Found> record_of(std::string name);
  [[gnu::noinline]] async::Task<Place> by_list(std::string domain);
  [[gnu::noinline]] async::Task<Place> by_walk(std::string domain);
  [[gnu::noinline]] async::Task<bool> exists(std::string domain);
  [[gnu::noinline]] async::Task<Policy> policy_at(const Place& place, const std::string& domain);
  Policy after_part(const Record& record, Policy policy) const {
    return record.testing || chance_ >= record.percent ? softened(policy) : policy;
  }
  enum class Aligned : std::uint8_t { no, unknown, yes };
  [[gnu::noinline]] async::Task<Aligned> aligned(const Identity& identity, const Place& author, const std::string& from,
                                                 bool strict);

  const Records& records_;
  const Suffixes* suffixes_;
  const Facts& facts_;
  unsigned chance_;
  async::Until until_;
  std::map<std::string, Found, std::less<>> seen_;
};

async::Task<Evaluation::Found> Evaluation::record_of(std::string name) {
  if (const auto seen = seen_.find(name); seen != seen_.end()) co_return seen->second;
  const net::DnsAnswer answer = co_await records_("_dmarc." + name, RecordType::txt, until_);
  Found out;
  out.unknown = answer.outcome == DnsOutcome::temporary;
  std::size_t count = 0;
  for (const auto& text : answer.records) {
    if (!Record::is_one(text.data)) continue;
    auto record = Record::parse(text.data);
    if (++count == 1 && record) out.record = *record;
  }
  if (count > 1) out.record.reset();  // several: none of them
  seen_.emplace(std::move(name), out);
  co_return out;
}

async::Task<Evaluation::Place> Evaluation::by_list(std::string domain) {
  Place out{.organisation = suffixes_->organisation(domain), .record_at = {}, .record = {}};
  for (const auto& name : {domain, out.organisation}) {
    const Found found = co_await record_of(name);
    out.unknown = out.unknown || found.unknown;
    if (found.record) {
      out.record = found.record;
      out.record_at = name;
    }
    if (out.record || out.organisation == domain) break;
  }
  co_return out;
}

async::Task<Evaluation::Place> Evaluation::by_walk(std::string domain) {
  Place out;
  std::optional<Record> organisation, suffix;
  std::string below, suffix_name;
  for (std::string_view name = domain; !name.empty(); below = name, name = parent_of(name)) {
    const Found found = co_await record_of(std::string(name));
    out.unknown = out.unknown || found.unknown;
    if (!found.record) continue;
    if (name == domain) {
      out.record = found.record;
      out.record_at = name;
    }
    if (found.record->public_suffix == Record::PublicSuffix::yes && name != domain) {
      out.organisation = below;
      suffix = found.record;
      suffix_name = name;
      break;
    }
    organisation = found.record;  // the one with the fewest labels counts
    out.organisation = name;
    if (found.record->public_suffix != Record::PublicSuffix::unknown) break;
  }
  if (out.organisation.empty()) out.organisation = domain;
  if (!out.record && suffix) {
    // Directly below a public suffix the organisation may have a record of its own.
    const Found own = co_await record_of(out.organisation);
    out.record = own.record ? own.record : suffix;
    out.record_at = own.record ? out.organisation : suffix_name;
  } else if (!out.record && organisation) {
    out.record = organisation;
    out.record_at = out.organisation;
  }
  co_return out;
}

async::Task<bool> Evaluation::exists(std::string domain) {
  for (const auto type : {RecordType::a, RecordType::aaaa, RecordType::mx}) {
    const net::DnsAnswer answer = co_await records_(domain, type, until_);
    // What cannot be found out is no reason for the stricter policy.
    if (answer.outcome == DnsOutcome::found || answer.outcome == DnsOutcome::temporary) co_return true;
  }
  co_return false;
}

async::Task<Evaluation::Aligned> Evaluation::aligned(const Identity& identity, const Place& author,
                                                     const std::string& from, bool strict) {
  const auto said = [](bool is) { return is ? Aligned::yes : Aligned::no; };
  const auto name = net::normal_name(identity.domain);
  if (!name) co_return Aligned::no;
  if (*name == from) co_return Aligned::yes;
  if (strict || !within(*name, author.organisation)) co_return Aligned::no;
  if (suffixes_) co_return said(suffixes_->organisation(*name) == author.organisation);
  // Between it and the organisation there may be another one.
  const Place place = co_await by_walk(*name);
  if (place.unknown) co_return Aligned::unknown;
  co_return said(place.organisation == author.organisation);
}

async::Task<Policy> Evaluation::policy_at(const Place& place, const std::string& domain) {
  const Record& record = *place.record;
  if (place.record_at == domain) co_return record.policy;
  if (record.missing && !co_await exists(domain)) co_return *record.missing;
  co_return record.subdomains.value_or(record.policy);
}

async::Task<Outcome> Evaluation::author(std::string domain) {
  Outcome out;
  out.from = domain;
  Place place;
  if (suffixes_)
    place = co_await by_list(domain);
  else
    place = co_await by_walk(domain);
  if (place.unknown) {
    out.verdict = Verdict::temperror;
    out.reason = "no answer from DNS about the policy";
    if (place.record) out.withheld = after_part(*place.record, co_await policy_at(place, domain));
    co_return out;
  }
  if (!place.record) co_return out;
  const Record& record = *place.record;
  out.record = record;
  out.record_at = place.record_at;
  out.policy = co_await policy_at(place, domain);
  bool unknown = false;
  const auto judge = [&](const Identity& identity) { return identity.passed || identity.unknown; };
  const auto weigh = [&](const Identity& identity, Aligned is, bool& passed) {
    if (is == Aligned::no) return;
    passed = passed || (is == Aligned::yes && identity.passed);
    unknown = unknown || is == Aligned::unknown || identity.unknown;
  };
  for (const auto& identity : facts_.dkim)
    if (judge(identity))
      weigh(identity, co_await aligned(identity, place, domain, record.strict_dkim), out.dkim_aligned);
  if ((!out.dkim_aligned || facts_.all_identities) && facts_.spf && judge(*facts_.spf))
    weigh(*facts_.spf, co_await aligned(*facts_.spf, place, domain, record.strict_spf), out.spf_aligned);
  if (out.dkim_aligned || out.spf_aligned) out.verdict = Verdict::pass;
  if (out.verdict == Verdict::pass) co_return out;
  if (unknown) {
    out.verdict = Verdict::temperror;
    out.reason = "no answer from DNS about an identity";
    out.withheld = after_part(record, out.policy);
    co_return out;
  }
  out.verdict = Verdict::fail;
  out.disposition = after_part(record, out.policy);
  co_return out;
}

}  // namespace

std::string_view verdict_word(Verdict verdict) {
  switch (verdict) {
    case Verdict::none:
      return "none";
    case Verdict::pass:
      return "pass";
    case Verdict::permerror:
      return "permerror";
    case Verdict::temperror:
      return "temperror";
    case Verdict::fail:
      return "fail";
  }
  return "unknown";
}

async::Task<Outcome> check(const Records& records, const Suffixes* suffixes, Facts facts, unsigned chance,
                           async::Until until) {
  Outcome worst;
  Evaluation evaluation(records, suffixes, facts, chance, until);
  bool first = true;
  Policy withheld = Policy::none;
  for (const auto& domain : facts.authors.domains) {
    Outcome one = co_await evaluation.author(domain);
    withheld = std::max(withheld, one.withheld);
    const bool worse =
        one.verdict > worst.verdict || (one.verdict == worst.verdict && one.disposition > worst.disposition);
    if (first || worse) worst = std::move(one);
    first = false;
  }
  worst.withheld = withheld;
  if (facts.authors.problem.empty()) co_return worst;
  // A part of it may be another author, which was not looked at.
  if (worst.verdict < Verdict::permerror) worst.verdict = Verdict::permerror;
  if (worst.verdict == Verdict::permerror || worst.reason.empty()) worst.reason = facts.authors.problem;
  if (facts.authors.more) worst.disposition = Policy::reject;
  co_return worst;
}

}  // namespace pen::dmarc
