#include "lib/trust/mta_sts/finder.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/net/dns_packet.h"

namespace pen::mta_sts {

using async::Task;
using net::DnsAnswer;
using net::DnsOutcome;
using net::RecordType;

namespace {

constexpr std::size_t kMaxDomain = 253 - std::string_view("_mta-sts.").size();
constexpr seconds kShort{60};  // validity of an answer that a running fetch may change
constexpr std::size_t kBatch = 500;

}  // namespace

void take(Known& known, const Fetched& fetched, const std::string& id, bool for_mail, WallTime now) {
  auto policy = fetched.outcome == FetchOutcome::ok ? parse_policy(fetched.body) : Result<Policy>(Policy());
  known.attempted_id = id;
  known.failed = WallTime{};
  known.outcome = fetched.outcome;
  known.why = fetched.why;
  if (fetched.outcome == FetchOutcome::ok && !policy) {
    known.outcome = FetchOutcome::policy_invalid;
    known.why = policy.error().context();
  }
  if (known.outcome != FetchOutcome::ok) {
    known.failed = now;
    return;
  }
  // A policy that expires at once is worth no more than a failure, and must not be fetched more often.
  if (policy->max_age == seconds(0)) known.failed = now;
  known.policy = *std::move(policy);
  known.id = id;
  known.fetched = now;
  if (for_mail) known.used = now;
}

Finder::Finder(async::Loop& loop, net::Resolver& dns, std::shared_ptr<Store> store, std::shared_ptr<Fetcher> fetcher,
               FinderOptions options)
    : loop_(loop),
      dns_(dns),
      store_(std::move(store)),
      fetcher_(std::move(fetcher)),
      options_(std::move(options)),
      pool_(loop, options_.threads),
      gate_(loop) {}
Finder::~Finder() = default;

Finder::Counts Finder::counts() const {
  Counts c = counts_;
  c.under_way = flights_.size();
  return c;
}

Applied Finder::apply(const std::string& domain, const Known& known, seconds ttl) const {
  Applied a;
  a.domain = domain;
  a.outcome = known.outcome;
  a.why = known.why;
  a.ttl = ttl;
  const WallTime now = loop_.clock().wall_now();
  if (!known.valid(now)) return a;
  a.policy = known.policy;
  a.id = known.id;
  a.fetched = known.fetched;
  a.ttl = std::min(ttl, std::chrono::ceil<seconds>(known.expires() - now));
  return a;
}

Task<Applied> Finder::find(std::string domain) {
  ++counts_.asked;
  auto ascii = net::normal_name(domain);
  Applied none;
  none.domain = domain;
  if (!ascii || ascii->empty() || ascii->size() > kMaxDomain) co_return none;
  domain = to_lower(*ascii);
  const DnsAnswer answer = co_await dns_.lookup("_mta-sts." + domain, RecordType::txt);
  std::vector<std::string> records;
  for (const auto& record : answer.records) records.push_back(record.data);
  const auto id = answer.outcome == DnsOutcome::found ? read_records(records) : std::optional<std::string>();
  seconds ttl = std::max(answer.ttl, seconds(1));
  if (answer.outcome == DnsOutcome::temporary) ttl = kShort;
  Known known = store_->get(domain);
  const Plan to_do = plan(known, id, loop_.clock().wall_now(), options_.timing);
  if (to_do.fetch != Plan::Fetch::no) {
    // Without a record the known policy is checked under its own id.
    const auto flight = fly(domain, id.value_or(known.id), true);
    if (flight && to_do.fetch == Plan::Fetch::first) {
      const async::Until until{.deadline = loop_.now() + options_.wait};
      if (auto done = co_await flight->done.wait(until); !done) {
        ++counts_.waited_in_vain;
        ttl = std::min(ttl, kShort);
      }
      known = store_->get(domain);
    }
    if (!flight) ttl = std::min(ttl, kShort);
  }
  // A domain without a valid policy is checked again when a fetch is permitted again.
  if (id && !known.valid(loop_.clock().wall_now())) ttl = std::min(ttl, std::max(options_.timing.retry, seconds(1)));
  Applied applied = apply(domain, known, ttl);
  if (applied.policy) ++counts_.applied;
  co_return applied;
}

std::shared_ptr<Finder::Flight> Finder::fly(const std::string& domain, const std::string& id, bool for_mail) {
  if (const auto found = flights_.find(domain); found != flights_.end()) return found->second;
  if (flights_.size() >= kMaxFlights) return nullptr;
  auto flight = std::make_shared<Flight>(loop_);
  flights_.emplace(domain, flight);
  gate_.spawn("MTA-STS policy of " + domain, fetch(domain, id, for_mail, flight));
  return flight;
}

Task<FetchRequest> Finder::addresses(std::string domain) {
  FetchRequest request;
  const async::Until until{.deadline = loop_.now() + options_.limit};
  for (const bool six : {false, true}) {
    if (six ? !options_.ipv6 : !options_.ipv4) continue;
    const DnsAnswer answer =
        co_await dns_.lookup_host("mta-sts." + domain, six ? RecordType::aaaa : RecordType::a, options_.lookup, until);
    if (answer.outcome != DnsOutcome::found) continue;
    for (const auto& record : answer.records) request.addresses.push_back(record.data);
  }
  request.domain = std::move(domain);
  co_return request;
}

Task<void> Finder::fetch(std::string domain, std::string id, bool for_mail, std::shared_ptr<Flight> flight) {
  FetchRequest request = co_await addresses(domain);
  const Clock& clock = loop_.clock();
  // The work owns what it uses: this object may be destroyed before the work has ended.
  auto work = [fetcher = fetcher_, store = store_, request, id, for_mail, &clock] {
    Fetched fetched;
    fetched.why = "its policy host mta-sts." + request.domain + " has no address";
    if (!request.addresses.empty()) fetched = fetcher->fetch(request);
    struct Change {
      Known before, now;
      Result<void> stored;
    } change;
    change.stored = store->update(request.domain, [&](Known& known) {
      change.before = known;
      take(known, fetched, id, for_mail, clock.wall_now());
      change.now = known;
    });
    return change;
  };
  const auto change = co_await pool_.run(std::move(work));
  ++(change.now.outcome == FetchOutcome::ok ? counts_.fetched : counts_.failed);
  tell(domain, change.before, change.now);
  if (!change.stored)
    options_.tell(true, "MTA-STS policy of " + domain + " is kept in memory only: " + change.stored.error().message());
  flights_.erase(domain);
  flight->done.set();
}

void Finder::tell(const std::string& domain, const Known& before, const Known& now) const {
  const std::string subject = "MTA-STS policy of " + domain + ": ";
  if (now.outcome != FetchOutcome::ok) {
    const bool valid = now.valid(loop_.clock().wall_now());
    if (valid && now.policy->mode == Mode::none) return;  // section 8.3: the policy is being withdrawn
    const std::string problem = subject + "not fetched: " + printable(now.why, 400) + "; ";
    if (valid) {
      options_.tell(true, problem + "the one that is known (" + std::string(mode_name(now.policy->mode)) + ", id " +
                              now.id + ") counts for " +
                              std::to_string((now.expires() - loop_.clock().wall_now()) / std::chrono::hours(24)) +
                              " more days");
    } else if (now.outcome == FetchOutcome::no_authorities) {
      options_.tell(true, problem +
                              "mail waits: is smtp_mta_sts_CAfile a file of certificates that the account of "
                              "trivial-rewrite can read?");
    } else {
      options_.tell(false, problem + "mail is sent without one");
    }
    return;
  }
  if (before.policy == now.policy && before.id == now.id) return;
  options_.tell(false, subject + std::string(mode_name(now.policy->mode)) + ", id " + now.id + ", mx " +
                           printable(join(now.policy->mx), 400) + ", for " +
                           std::to_string(now.policy->max_age.count()) + " seconds");
}

Task<void> Finder::sweep() {
  std::string after;
  do {
    struct Batch {
      Result<std::string> last;
      std::vector<std::pair<std::string, std::string>> ageing;  // domain, id
    };
    const WallTime now = loop_.clock().wall_now();
    auto look = [store = store_, timing = options_.timing, after, now] {
      Batch batch;
      batch.last = store->each(after, kBatch, [&](const std::string& domain, const Known& known) {
        if (wants_refresh(known, now, timing, kUnused)) batch.ageing.emplace_back(domain, known.id);
        return is_garbage(known, now, timing);
      });
      return batch;
    };
    const Batch batch = co_await pool_.run(std::move(look));
    if (!batch.last) {
      options_.tell(true, "MTA-STS policies: " + batch.last.error().message());
      co_return;
    }
    // One after the other: no mail waits for these.
    for (const auto& [domain, id] : batch.ageing)
      if (const auto flight = fly(domain, id, false))
        (void)co_await flight->done.wait();  // without deadline or cancel this can only succeed
    after = *batch.last;
  } while (!after.empty());
}

Task<void> Finder::keep() {
  for (;;) {
    if (auto slept = co_await loop_.sleep(kSweep); !slept) co_return;
    co_await sweep();
  }
}

}  // namespace pen::mta_sts
