#include "lib/net/dnsbl/lookup.h"

#include <algorithm>

#include "lib/base/network.h"
#include "lib/base/text.h"

namespace pen::dnsbl {

using async::Task;
using async::Until;
using net::DnsOutcome;
using net::RecordType;

namespace {

constexpr std::string_view kTextKey = "TXT ";

std::string refusal(const Ipv4& address) {
  return "the list answers " + text_of(address) + ", which refuses the question and lists nothing";
}

}  // namespace

struct Lookup::ListState {
  ListState(async::Loop& loop, std::size_t at_once) : places(loop, at_once) {}
  async::Semaphore places;
  std::size_t under_way = 0;  // those that wait for a place included
  unsigned failures = 0;      // in a row
  SteadyTime rests_until = SteadyTime::min();
  SteadyTime quiet_until = SteadyTime::min();
};

struct Lookup::Pending {
  explicit Pending(async::Loop& loop) : done(loop) {}
  async::Event done;
  Answer answer;  // unknown until done
};

Lookup::Lookup(async::Loop& loop, Records records, Report report, Limits limits)
    : loop_(loop), records_(std::move(records)), report_(std::move(report)), limits_(limits), gate_(loop) {}
Lookup::~Lookup() = default;

std::shared_ptr<Lookup::ListState> Lookup::state_of(const std::string& domain) {
  if (const auto found = lists_.find(domain); found != lists_.end()) return found->second;
  if (lists_.size() >= limits_.lists) std::erase_if(lists_, [](const auto& row) { return row.second->under_way == 0; });
  return lists_.emplace(domain, std::make_shared<ListState>(loop_, limits_.at_once)).first->second;
}

std::shared_ptr<Lookup::Pending> Lookup::start(const std::string& domain, const std::shared_ptr<ListState>& list,
                                               const std::string& question) {
  auto pending = std::make_shared<Pending>(loop_);
  pending_.emplace(question, pending);
  ++counts_.asked;
  ++list->under_way;
  gate_.spawn("list " + question, run(this, domain, list, question, pending));
  return pending;
}

void Lookup::begin(const std::string& domain, const std::string& question) {
  const auto list = state_of(domain);
  if (loop_.now() < list->rests_until || list->under_way >= limits_.ahead || pending_.contains(question) ||
      unanswered(question))
    return;
  start(domain, list, question);
}

Task<Answer> Lookup::ask(std::string domain, std::string question, Until until) {
  std::shared_ptr<Pending> pending;
  if (const auto found = pending_.find(question); found != pending_.end()) {
    ++counts_.joined;
    pending = found->second;
  } else {
    const auto list = state_of(domain);
    if (loop_.now() < list->rests_until || unanswered(question)) {
      ++counts_.not_asked;
      co_return Answer{};
    }
    pending = start(domain, list, question);
  }
  (void)co_await pending->done.wait(until);  // unanswered: unknown
  co_return pending->answer;
}

Task<void> Lookup::run(Lookup* self, std::string domain, std::shared_ptr<ListState> list, std::string question,
                       std::shared_ptr<Pending> pending) {
  const Until until{.deadline = self->loop_.now() + self->limits_.patience, .cancel = &self->gate_.cancel()};
  std::string why = "too many questions wait for this list";
  if (auto place = co_await list->places.acquire(until); place) {
    const net::DnsAnswer said = co_await self->records_(question, RecordType::a, until);
    list->places.release();
    why.clear();
    pending->answer = read(said, why);
  }
  --list->under_way;
  if (pending->answer.state == Answer::State::unknown) {
    ++self->counts_.unknown;
    self->note(domain, *list, question, why);
  } else {
    list->failures = 0;
  }
  self->pending_.erase(question);
  pending->done.set();
}

Answer Lookup::read(const net::DnsAnswer& said, std::string& why) {
  Answer answer;
  if (said.outcome == DnsOutcome::temporary) {
    why = said.text;
    return answer;
  }
  for (const auto& record : said.records) {
    const auto ip = parse_ip(record.data);
    if (!ip || ip->size != 4) continue;
    const Ipv4 address{ip->bytes[0], ip->bytes[1], ip->bytes[2], ip->bytes[3]};
    if (means_refused(address)) {
      why = refusal(address);
      return {};
    }
    answer.addresses.push_back(address);
  }
  answer.state = answer.addresses.empty() ? Answer::State::not_listed : Answer::State::listed;
  answer.ttl = said.ttl;
  return answer;
}

bool Lookup::unanswered(const std::string& question) {
  while (!forget_.empty() && forget_.front().first <= loop_.now()) {
    unanswered_.erase(forget_.front().second);
    forget_.pop_front();
  }
  return unanswered_.contains(question);
}

void Lookup::remember_unanswered(const std::string& question) {
  if (unanswered(question)) return;
  if (forget_.size() >= limits_.unanswered) {
    unanswered_.erase(forget_.front().second);
    forget_.pop_front();
  }
  unanswered_.insert(question);
  forget_.emplace_back(loop_.now() + limits_.rest, question);
}

void Lookup::note(const std::string& domain, ListState& list, const std::string& question, const std::string& why) {
  const SteadyTime now = loop_.now();
  remember_unanswered(question);
  if (++list.failures >= limits_.failures) list.rests_until = now + limits_.rest;
  if (now < list.quiet_until) return;
  list.quiet_until = now + limits_.tell_again;
  report_(question + ": RBL lookup error: " + why + " (" + domain + " counts as no answer, and is told of again in " +
          std::to_string(limits_.tell_again.count()) + " s at the earliest)");
}

void Lookup::refused_by(const std::string& domain, const std::string& question, const Ipv4& with) {
  note(domain, *state_of(domain), question, refusal(with));
}

Task<std::string> Lookup::reason(std::string domain, std::string question, Until until) {
  const auto list = state_of(domain);
  const std::string key = std::string(kTextKey) + question;
  std::string out;
  until.deadline = std::min(until.deadline, loop_.now() + limits_.patience);
  if (unanswered(key) || !co_await list->places.acquire(until)) co_return out;
  const net::DnsAnswer said = co_await records_(std::move(question), RecordType::txt, until);
  list->places.release();
  if (said.outcome == DnsOutcome::temporary) remember_unanswered(key);
  for (const auto& record : said.records) {
    if (!out.empty()) out += " / ";
    out += record.data;
    if (out.size() >= kMaxReason) break;
  }
  co_return out.substr(0, kMaxReason);
}

Lookup::Counts Lookup::counts() const {
  Counts counts = counts_;
  counts.under_way = pending_.size();
  return counts;
}

}  // namespace pen::dnsbl
