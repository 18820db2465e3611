/// What DMARC said of a message, in the words of an aggregate report.
#include "smtpd/authentication.h"

namespace pen::smtpd {

std::optional<ipc::dmarc_report::Result> Authentication::report(dmarc::Policy applied) const {
  if (!dmarc_ || !dmarc_->record ||
      (dmarc_->verdict != dmarc::Verdict::pass && dmarc_->verdict != dmarc::Verdict::fail))
    return std::nullopt;
  const dmarc::Record& record = *dmarc_->record;
  const auto word = [](std::optional<dmarc::Policy> policy) {
    return std::string(policy ? dmarc::policy_word(*policy) : std::string_view());
  };
  ipc::dmarc_report::Result out;
  out.published = {.domain = dmarc_->record_at,
                   .policy = word(record.policy),
                   .subdomains = word(record.subdomains),
                   .missing = word(record.missing),
                   .strict_dkim = record.strict_dkim,
                   .strict_spf = record.strict_spf,
                   .testing = record.testing,
                   .percent = record.percent};
  auto& facts = out.facts;
  facts.source_ip = client_.peer.address;
  facts.disposition = word(applied);
  facts.dkim = dmarc_->dkim_aligned;
  facts.spf = dmarc_->spf_aligned;
  if (dmarc_->verdict == dmarc::Verdict::fail && applied != dmarc_->policy) {
    const bool sampled = applied == dmarc_->disposition && dmarc_->reason.empty();
    facts.override_type = sampled ? "sampled_out" : "local_policy";
    facts.override_comment = dmarc_->reason;
  }
  facts.header_from = dmarc_->from;
  const auto at = sender_.rfind('@');
  facts.envelope_from = at == sender_.npos ? std::string() : sender_.substr(at + 1);
  for (const auto& one : dkim_)
    facts.signatures.push_back({one.domain, one.selector, std::string(dkim::verdict_word(one.verdict))});
  const spf::Outcome& spf = sender_.empty() ? helo_spf_ : mail_spf_;
  facts.spf_domain = spf.domain.empty() ? (sender_.empty() ? helo_ : facts.envelope_from) : spf.domain;
  facts.spf_scope = sender_.empty() ? "helo" : "mfrom";
  facts.spf_result = spf::verdict_word(spf.verdict);
  return out;
}

}  // namespace pen::smtpd
