#pragma once
/// Which client asks about which address, which probes are under way, and what is answered. No I/O, no clock.
///
/// Use:     auto asked = verifier.ask(client, request, address, now);  tell asked.answer;
///          if (asked.probe) … send one …; then ended(address, …) for its result, or not_sent().
///          gone(client) when a client's connection ends;  tick(now) now and then.
/// Rules:   one probe of an address at a time, however many clients ask. While an answer holds it is given at once,
///          also if it is being refreshed. Else the asker hears `probing`, and the result when it comes.
/// Bounds:  `pending` probes. Beyond that an unknown address is put off at once, and nothing is refreshed. A probe
///          without a result for Cache::kProbeTime is given up. Each asker waits once for an address.
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/mail/delivery_status.h"
#include "verify/cache.h"

namespace pen::verify {

using ClientNumber = std::uint64_t;

/// One result of the results for the recipients of a probe: an alias may make several of one.
struct Outcome {
  State state = State::deferred;
  std::string text;
};
/// Good if one of them is; else deferred if one of them is.
Outcome outcome_of(const std::vector<mail::DeliveryStatus>& results);

class Verifier {
 public:
  struct Answer {
    ClientNumber client = 0;
    ipc::verify::Answer answer;
  };
  struct Asked {
    ipc::verify::Answer answer;
    bool probe = false;
  };

  Verifier(CacheRules rules, std::size_t pending, std::size_t most = Cache::kMost)
      : cache_(rules, most), pending_(pending) {}

  Asked ask(ClientNumber client, std::uint64_t request, const std::string& address, WallTime now);
  /// A probe, of this process or of one before, has a result. Returns the answers to send.
  std::vector<Answer> ended(const std::string& address, State state, std::string_view text, WallTime now);
  /// Other hosts know the address (Cache::take() has it): the probe is not to be sent. False: what they know does not
  /// hold, and the probe is to be sent.
  bool answered_elsewhere(const std::string& address, WallTime now, std::vector<Answer>& tell);
  /// The probe could not be sent: nothing is remembered.
  std::vector<Answer> not_sent(const std::string& address, std::string_view why);
  /// Gives up probes without a result. Returns the answers to send.
  std::vector<Answer> tick(WallTime now);
  void gone(ClientNumber client);
  bool under_way(const std::string& address) const { return probes_.contains(Cache::key_of(address)); }
  std::size_t probes() const { return probes_.size(); }
  Cache& cache() { return cache_; }
  const Cache& cache() const { return cache_; }

 private:
  struct Probe {
    std::int64_t since = 0;
    std::unordered_map<ClientNumber, std::uint64_t> waiting;  // and their requests
  };
  std::vector<Answer> end(const std::string& key, State state, const std::string& text);

  Cache cache_;
  std::size_t pending_;
  std::unordered_map<std::string, Probe> probes_;
};

}  // namespace pen::verify
