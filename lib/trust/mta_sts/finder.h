#pragma once
/// Finds the MTA-STS policy that applies to a domain now: from DNS, the cache, and the domain's policy host.
///
/// Use:     Finder finder(loop, dns, store, fetcher, options);
///          Applied a = co_await finder.find("example.org");       // at every routing; nearly always from memory
/// Waits:   for DNS; for HTTPS at most options.wait, and only if no valid policy is known or DNS announces another id.
///          A fetch continues after its waiters have left, and its result serves later callers. A domain has only one
///          fetch at a time.
/// Keeps:   a policy until its max_age has passed, whatever DNS and HTTPS say meanwhile (section 3.3: an attacker who
///          can suppress them must not remove the protection). After a failed fetch the next one comes
///          options.timing.retry later.
/// Bounds:  at most options.threads fetches run and kMaxFlights have begun; beyond that, what is already known counts.
///          A policy host that never answers occupies a thread for the fetcher's time limit; no other work waits for
///          these threads.
/// Thread:  the loop's. options.tell is called in it.
/// Source:  RFC 8461 sections 3.3, 5.1, 10.2.
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "lib/base/async/handler_pool.h"
#include "lib/base/async/sync.h"
#include "lib/net/dns.h"
#include "lib/trust/mta_sts/fetch.h"
#include "lib/trust/mta_sts/store.h"

namespace pen::mta_sts {

struct FinderOptions {
  Timing timing;
  milliseconds wait{10'000};   // for the first mail to a domain
  milliseconds limit{60'000};  // for a whole fetch, DNS included; after it the flight ends
  std::size_t threads = 16;
  bool ipv4 = true, ipv6 = true;
  net::HostLookup lookup = net::HostLookup::dns;
  /// For the log: news about policies, and (warning) problems for the administrator.
  std::function<void(bool warning, const std::string& text)> tell = [](bool, const std::string&) {};
};

/// What applies to mail for a domain now.
struct Applied {
  std::string domain;            // A-labels, lower case
  std::optional<Policy> policy;  // nullopt: none applies
  std::string id;
  WallTime fetched{};
  FetchOutcome outcome = FetchOutcome::ok;  // of the last fetch
  std::string why;                          // why that fetch failed
  seconds ttl{3600};                        // how long this answer is valid
};

class Finder {
 public:
  static constexpr std::size_t kMaxFlights = 1000;
  static constexpr seconds kUnused{30 * 86'400};  // policies not used by mail for this long are not refreshed
  static constexpr seconds kSweep{3600};          // between rounds over all stored policies

  Finder(async::Loop& loop, net::Resolver& dns, std::shared_ptr<Store> store, std::shared_ptr<Fetcher> fetcher,
         FinderOptions options);
  ~Finder();
  Finder(const Finder&) = delete;
  Finder& operator=(const Finder&) = delete;

  async::Task<Applied> find(std::string domain);
  /// Refreshes policies that will expire and removes those that have; for a task of its own. Never ends.
  async::Task<void> keep();
  /// One round of keep().
  async::Task<void> sweep();

  /// Reports something about a policy to the administrator, like this object's own messages.
  void tell(const std::string& text) const { options_.tell(false, text); }

  struct Counts {
    std::uint64_t asked = 0, applied = 0, fetched = 0, failed = 0, waited_in_vain = 0;
    std::size_t under_way = 0;
  };
  Counts counts() const;

 private:
  struct Flight {
    explicit Flight(async::Loop& loop) : done(loop) {}
    async::Event done;
  };
  /// The running fetch of a domain; begins one if there is none. Null: too many fetches are running.
  std::shared_ptr<Flight> fly(const std::string& domain, const std::string& id, bool for_mail);
  async::Task<void> fetch(std::string domain, std::string id, bool for_mail, std::shared_ptr<Flight> flight);
  async::Task<FetchRequest> addresses(std::string domain);
  void tell(const std::string& domain, const Known& before, const Known& now) const;
  Applied apply(const std::string& domain, const Known& known, seconds ttl) const;

  async::Loop& loop_;
  net::Resolver& dns_;
  std::shared_ptr<Store> store_;
  std::shared_ptr<Fetcher> fetcher_;
  FinderOptions options_;
  async::HandlerPool pool_;
  std::map<std::string, std::shared_ptr<Flight>> flights_;
  Counts counts_;
  async::Gate gate_;  // declared last: its tasks are destroyed before the objects they use
};

/// Updates what is known by the result of a fetch: a policy replaces the older one, a failure is noted beside it.
/// Pure.
void take(Known& known, const Fetched& fetched, const std::string& id, bool for_mail, WallTime now);

}  // namespace pen::mta_sts
