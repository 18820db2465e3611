#pragma once
/// What all sessions of a process know of the filters' endpoints: whether they answer, and what they agreed to last.
///
/// Use:     Endpoint& at = endpoints.of(filter);   if (!at.may_try(now)) … the default action at once …
///          at.opened(negotiation);   at.failed(now);
/// Rules:   after a failure an endpoint is down: for half a second, then for twice as long each time, to half a minute.
///          When that is over one session tries; the others still take it for down until the try has ended. So a filter
///          that hangs costs one session its time-out, not each.
/// Thread:  the loop's. References stay valid as long as the object.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/pace.h"
#include "lib/base/time.h"
#include "lib/receive/milter/protocol.h"
#include "lib/receive/milter/settings.h"

namespace pen::milter {

class Endpoint {
 public:
  /// Whether a session may connect now. The session that is the first to try again must say opened() or failed().
  bool may_try(SteadyTime now);
  void opened(const Negotiation& agreed);
  /// Returns whether the endpoint was up before.
  bool failed(SteadyTime now);
  /// The try was given up by the client's end, and says nothing.
  void given_up() { trying_ = false; }
  bool down() const { return down_; }
  /// The filter cannot refuse a client before MAIL: a session may connect to it when there is mail.
  bool only_mail() const;

  /// The filter has let so many messages in a row pass to their end that the steps of one may be sent together: it
  /// will hardly end the next one early, and then its connection is out of step and closed.
  bool goes_on() const { return in_a_row_ >= needed_; }
  void went_on() { ++in_a_row_; }
  void ended_early() {
    if (goes_on()) needed_ = std::min(needed_ * 4, kMostNeeded);
    in_a_row_ = 0;
  }

  struct Counts {
    std::uint64_t connections = 0, failures = 0, messages = 0;
    std::size_t live = 0;
  };
  Counts counts;

 private:
  static constexpr Pace::Options kPace{.first = milliseconds(500), .longest = seconds(30), .settled = seconds(1)};
  Pace pace_{kPace};
  bool down_ = false, trying_ = false;
  SteadyTime down_until_{};
  std::optional<Negotiation> last_;
  static constexpr std::uint64_t kNeeded = 50, kMostNeeded = 100'000;
  std::uint64_t in_a_row_ = 0, needed_ = kNeeded;
};

class Endpoints {
 public:
  /// A piece of content on its way to a filter. While the pieces of all sessions are many, each is small: filters that
  /// hang do not hold more memory than this.
  class Flight {
   public:
    explicit Flight(Endpoints& all) : all_(all), size_(all.flying_ < kAllowed ? kLarge : kSmall) {
      all_.flying_ += size_;
    }
    ~Flight() { all_.flying_ -= size_; }
    Flight(const Flight&) = delete;
    Flight& operator=(const Flight&) = delete;
    std::size_t size() const { return size_; }

   private:
    // As much as one packet carries: a byte more would cost a filter that answers each another round trip.
    static constexpr std::size_t kAllowed = 256 * kMaxData, kLarge = kMaxData, kSmall = 4 * 1024;
    Endpoints& all_;
    std::size_t size_;
  };

  Endpoint& of(const Filter& filter) { return all_[filter.name]; }
  /// One line for each, for the status page.
  std::vector<std::string> status() const;

 private:
  std::map<std::string, Endpoint, std::less<>> all_;
  std::size_t flying_ = 0;
};

}  // namespace pen::milter
