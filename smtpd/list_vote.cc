#include "smtpd/list_vote.h"

#include <algorithm>

#include "lib/base/log_as.h"
#include "lib/net/dnsbl/question.h"

namespace pen::smtpd {

using dnsbl::Answer;

ListVote::ListVote(async::Loop& loop, dnsbl::Lookup& lists, const Screening& screening, std::string address,
                   async::Until until, async::Cancel& told)
    : lists_(lists),
      screening_(screening),
      address_(std::move(address)),
      told_(told),
      answers_(screening.domains.size()),
      gate_(loop) {
  for (std::size_t i = 0; i < screening.domains.size(); ++i) {
    const auto question = dnsbl::about_address(address_, screening.domains[i]);
    if (!question) continue;
    ++missing_;
    gate_.spawn("list", ask(this, i, *question, until));
  }
  if (missing_ == 0) told_.raise();
}

async::Task<void> ListVote::ask(ListVote* vote, std::size_t domain, std::string question, async::Until until) {
  Answer answer = co_await vote->lists_.ask(vote->screening_.domains[domain], question, until);
  vote->answered(domain, question, std::move(answer));
}

void ListVote::answered(std::size_t domain, const std::string& question, Answer answer) {
  const std::string& name = screening_.domains[domain];
  const bool speaks_for_clients = std::ranges::any_of(
      screening_.sites, [&](const auto& row) { return row.domain == domain && row.site.weight < 0; });
  if (speaks_for_clients) {
    const auto refusal = std::ranges::find_if(answer.addresses, dnsbl::means_refused_by_allow_list);
    if (refusal != answer.addresses.end()) {
      lists_.refused_by(name, question, *refusal);
      answer = {};
    }
  }
  for (const auto& address : answer.addresses)
    log::info_as("dnsblog", "addr {} listed by domain {} as {}", address_, name, dnsbl::text_of(address));
  answers_[domain] = std::move(answer);
  if (--missing_ == 0) told_.raise();
}

ListVote::Result ListVote::result() const {
  Result out;
  int most = 0;
  for (const auto& [site, domain] : screening_.sites) {
    const Answer& answer = answers_[domain];
    if (answer.state == Answer::State::unknown) continue;
    out.ttl = std::min(out.ttl.value_or(seconds::max()), answer.ttl);
    if (answer.state != Answer::State::listed || !dnsbl::hits(site.list, answer)) continue;
    out.score += site.weight;
    if (site.weight > most) {
      most = site.weight;
      out.blamed = site.list.domain;
    }
  }
  return out;
}

}  // namespace pen::smtpd
