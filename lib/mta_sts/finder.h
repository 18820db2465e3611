#pragma once
/// The MTA-STS policy that counts for a domain now: from DNS, the cache, and the domain's policy host.
///
/// Use:     Finder finder(loop, dns, store, fetcher, options);
///          Applied a = co_await finder.find("example.org");       // at every routing; nearly always from memory
/// Waits:   for DNS; for HTTPS at most options.wait, and only where nothing valid is known or another id is
///          announced. A fetch goes on without those who waited, and serves those who come later. One domain is
///          fetched once at a time.
/// Keeps:   a policy until its max_age has passed, whatever DNS and HTTPS say meanwhile (section 3.3: nobody who can
///          suppress them may take the protection away); after a failed fetch the next is options.timing.retry later.
/// Bounds:  options.threads fetches at once and kMaxFlights begun: what comes then goes by what is known. A policy
///          host that never answers costs a thread for the fetcher's limit; nothing else waits for those threads.
/// Thread:  the loop's. options.tell is called there.
/// Source:  RFC 8461 sections 3.3, 5.1, 10.2.
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "lib/async/handler_pool.h"
#include "lib/async/sync.h"
#include "lib/mta_sts/fetch.h"
#include "lib/mta_sts/store.h"
#include "lib/net/dns.h"

namespace pen::mta_sts {

struct FinderOptions {
  Timing timing;
  milliseconds wait{10'000};   // of the first mail to a domain
  milliseconds limit{60'000};  // of a whole fetch, DNS included; after it the flight ends
  std::size_t threads = 16;
  bool ipv4 = true, ipv6 = true;
  net::HostLookup lookup = net::HostLookup::dns;
  /// For the log: what was learnt, and (warning) what an administrator should know.
  std::function<void(bool warning, const std::string& text)> tell = [](bool, const std::string&) {};
};

/// What counts for mail to a domain now.
struct Applied {
  std::string domain;            // A-labels, lower case
  std::optional<Policy> policy;  // nullopt: none counts
  std::string id;
  WallTime fetched{};
  FetchOutcome outcome = FetchOutcome::ok;  // of the last fetch
  std::string why;                          // it failed
  seconds ttl{3600};                        // how long this holds
};

class Finder {
 public:
  static constexpr std::size_t kMaxFlights = 1000;
  static constexpr seconds kUnused{30 * 86'400};  // policies of domains not written to for so long are not refreshed
  static constexpr seconds kSweep{3600};          // between looks at all that is kept

  Finder(async::Loop& loop, net::Resolver& dns, std::shared_ptr<Store> store, std::shared_ptr<Fetcher> fetcher,
         FinderOptions options);
  ~Finder();
  Finder(const Finder&) = delete;
  Finder& operator=(const Finder&) = delete;

  async::Task<Applied> find(std::string domain);
  /// Refreshes what will end, forgets what has; for a task of its own. Ends never.
  async::Task<void> keep();
  /// One round of keep().
  async::Task<void> sweep();

  /// Says something of a policy to the administrator, as this object does itself.
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
  /// The fetch of a domain that is under way, begun now if there is none; null: there are too many.
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
  async::Gate gate_;  // declared last: what still runs dies before what it uses
};

/// What a fetch makes of what was known: a policy in place of the older one, or a failure beside it. Pure.
void take(Known& known, const Fetched& fetched, const std::string& id, bool for_mail, WallTime now);

}  // namespace pen::mta_sts
