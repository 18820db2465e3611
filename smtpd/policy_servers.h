#pragma once
/// Asks policy servers, for all sessions of the process: one PolicyEndpoint for each service, tries, warnings.
///
/// Use:     auto action = co_await servers.ask(service, transaction, [&] { return policy_request(…); }, utf8);
///          if (!action) … the service's default_action counts …
///          servers.forget(transaction);                          // when it is over
/// Tries:   try_limit in all, retry_delay between them. The last failure is logged, another only if it is a surprise;
///          one line a second for each service at most.
/// Bounds:  kEndpoints: answers of servers and tables may name services too. One that nobody uses makes room.
/// Thread:  the loop's.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "smtpd/policy_endpoint.h"

namespace pen::smtpd {

class PolicyServers {
 public:
  static constexpr std::size_t kEndpoints = 100;

  PolicyServers(async::Loop& loop, Names& names) : loop_(loop), names_(names) {}
  PolicyServers(const PolicyServers&) = delete;
  PolicyServers& operator=(const PolicyServers&) = delete;

  /// nullopt: there is no answer, and the log has the reason.
  [[gnu::noinline]] async::Task<std::optional<std::string>> ask(std::shared_ptr<const PolicyService> service,
                                                                std::uint64_t transaction,
                                                                PolicyEndpoint::Request request, bool utf8);
  void forget(std::uint64_t transaction) {
    for (auto& [name, kept] : endpoints_) kept->endpoint.forget(transaction);
  }
  /// A line for each service, for the status report.
  std::vector<std::string> status() const;

 private:
  struct Kept {
    PolicyEndpoint endpoint;
    SteadyTime used{}, warned = SteadyTime::min();
  };
  std::shared_ptr<Kept> endpoint(const std::shared_ptr<const PolicyService>& service);
  void warn(Kept& kept, const std::string& why) const;

  async::Loop& loop_;
  Names& names_;
  std::map<std::string, std::shared_ptr<Kept>> endpoints_;  // by PolicyService::text
};

}  // namespace pen::smtpd
