#pragma once
/// What the tests of clients share in one process: the cache of those that passed, and counts.
///
/// Use:     Screener screener(loop, screening, places);  screener.cache() …
///          Screener::Seat seat(screener, key);         // while a client is tested, or refused in a session of its own
///          auto place = co_await screener.enter(until);  // to be served
/// Places:  as many sessions are served at once as master.cf says for the smtpd of this port. Further clients that
///          passed wait for a place, postscreen_post_queue_limit of them; Postfix has the same two limits.
/// Thread:  the loop's. Outlives every seat and place.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lib/base/async/sync.h"
#include "lib/meaning/smtpd/screening.h"
#include "lib/receive/triage/cache.h"
#include "smtpd/stress.h"

namespace pen::smtpd {

class Screener {
 public:
  Screener(async::Loop& loop, std::shared_ptr<const Screening> screening, std::size_t places);

  const Screening& screening() const { return *screening_; }
  triage::Cache& cache() { return cache_; }
  void learn(const std::string& key, const triage::Record& record);
  /// Called when the cache has changes for the file.
  std::function<void()> on_change = [] {};
  /// Whether so many clients are tested that their tests are shortened; none: nobody asks.
  std::unique_ptr<Stress> stress;
  /// Asks other hosts about a client, and reports to them; empty: there are no other hosts.
  std::function<async::Task<std::optional<triage::Record>>(std::string key)> find_elsewhere;
  std::function<void(const std::string& key, const triage::Record& record)> tell_others;

  /// A client in the tests, or refused after them.
  class Seat {
   public:
    Seat() = default;
    Seat(Screener& screener, std::string key);
    Seat(Seat&&) noexcept = default;
    Seat& operator=(Seat&&) noexcept = default;
    void leave() { held_.reset(); }

   private:
    struct Held {
      Screener* screener;
      std::string key;
      std::optional<Stress::Taken> place = {};
      ~Held();
    };
    std::unique_ptr<Held> held_;
  };
  /// Of one client, the seat that asks included.
  std::size_t seats_of(const std::string& key) const;
  std::size_t seats() const { return seats_; }

  /// One of the sessions that are served.
  class Place {
   public:
    Place() = default;
    explicit Place(Screener& screener) : screener_(&screener) {}
    Place(Place&& other) noexcept : screener_(std::exchange(other.screener_, nullptr)) {}
    Place& operator=(Place&& other) noexcept {
      std::swap(screener_, other.screener_);
      return *this;
    }
    ~Place();

   private:
    Screener* screener_ = nullptr;
  };
  /// Errors: timed_out, cancelled.
  async::Task<Result<Place>> enter(async::Until until);
  std::size_t waiting() const { return waiting_; }

  /// A wait that stop() ends.
  class Waiting : Link {
   public:
    Waiting(Screener& screener, async::Cancel& cancel) : cancel_(cancel) { screener.tests_.push_back(*this); }

   private:
    friend class Screener;
    async::Cancel& cancel_;
  };
  /// Ends the waits of all tests: the process is to end.
  void stop();

  struct Counts {
    std::uint64_t tested = 0, passed = 0, known = 0, refused = 0;
  };
  Counts counts;
  std::string status_line() const;

 private:
  std::shared_ptr<const Screening> screening_;
  triage::Cache cache_;
  std::unordered_map<std::string, std::size_t> clients_;
  std::size_t seats_ = 0, waiting_ = 0;
  Link tests_;
  async::Semaphore places_;
};

/// "0.07", "1.2", "35": two digits that count, as postscreen writes times.
std::string short_time(std::chrono::nanoseconds time);
/// Text of a client for the log, at most 100 characters: \r\n as backslash and letter.
std::string escaped(std::string_view text);

}  // namespace pen::smtpd
