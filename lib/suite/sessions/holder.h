#pragma once
/// A program's leases of SMTP sessions: asks anvil for one before a session of a class begins, gives it back
/// afterwards.
///
/// Use:     auto holder = std::make_shared<Holder>(loop, queue_path(ipc::kAnvilSocket), classes, events);
///          holder->start();
///          smtpd: auto entry = co_await holder->enter(name, address, until);   // entry.place: hold it for the session
///          qmgr:  lease = holder->take(Direction::outgoing, in_class, host, address, answer); … release(lease)
/// Away:    master starts a dead anvil again in a moment: questions wait meanwhile, a client's shorter than outgoing
///          mail's. After that no session is refused or kept waiting for its absence: the limits are applied to what
///          this process itself holds. When it is there again, every live session is reported to it, so that its
///          counts are right. An anvil that does not answer within answer_time counts as away for long.
/// Events:  come from the loop, never from within take() or release().
/// Cost:    nothing is asked for a session that belongs to no class.
/// Thread:  the loop's. Source: docs/session-classes.md; lib/suite/ipc/sessions.h.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "lib/suite/ipc/link.h"
#include "lib/suite/ipc/sessions.h"
#include "lib/suite/sessions/classes.h"

namespace pen::sessions {

using ipc::sessions::Direction;

class Holder : public std::enable_shared_from_this<Holder> {
 public:
  using Lease = std::uint64_t;
  using Answer = std::function<void(bool granted)>;
  struct Events {
    /// Outgoing sessions of this class were refused, and there may be room now.
    std::function<void(std::uint32_t in_class)> room = {};
    /// A session wants a place: closes an idle outgoing connection of the class. False: there is none.
    std::function<bool(std::uint32_t in_class)> wanted = {};
    /// Every class holds its refuse limit, or no longer.
    std::function<void(bool full)> all_full = {};
    /// A line for the log: anvil cannot be reached, or does not answer.
    std::function<void(const std::string& line)> report = {};
  };
  struct Options {
    milliseconds answer_time{5000};  // above anvil's own patience
    // how long an absence is waited for
    milliseconds client_patience{1000}, mail_patience{5000};
  };

  Holder(async::Loop& loop, std::string path, std::shared_ptr<const Classes> classes, Events events, Options options);
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  void start() { link_.start(); }

  const Classes& classes() const { return *classes_; }
  bool connected() const { return link_.connected(); }
  /// Sessions held, and asked for.
  std::size_t size() const { return leases_.size(); }

  /// in_class: a place in classes().list(). answer is called once, later, unless release() comes first; after
  /// answer(false) the lease is forgotten.
  Lease take(Direction direction, std::uint32_t in_class, std::string name, std::string address, Answer answer);
  void release(Lease lease);

  /// Holds a lease until it is destroyed.
  class Place {
   public:
    Place() = default;
    Place(std::shared_ptr<Holder> holder, Lease lease) : holder_(std::move(holder)), lease_(lease) {}
    Place(Place&& other) noexcept : holder_(std::move(other.holder_)), lease_(std::exchange(other.lease_, 0)) {}
    Place& operator=(Place&& other) noexcept {
      Place old(std::move(*this));
      holder_ = std::move(other.holder_);
      lease_ = std::exchange(other.lease_, 0);
      return *this;
    }
    ~Place() {
      if (holder_ && lease_ != 0) holder_->release(lease_);
    }

   private:
    std::shared_ptr<Holder> holder_;
    Lease lease_ = 0;
  };
  struct Entry {
    bool granted = true;
    Place place;
    const Class* refused_by = nullptr;  // lives as long as the holder
  };
  /// For an incoming session. If `until` ends first, the session is let in: the client is not to suffer.
  async::Task<Entry> enter(std::string name, std::string address, async::Until until);

 private:
  using Link = ipc::Link<ipc::sessions::FromAnvil, ipc::sessions::ToAnvil, Holder>;
  friend Link;
  struct Held {
    std::uint32_t in_class = 0;
    Direction direction{};
    bool asked = false;    // its answer was not given yet
    bool decided = false;  // the answer comes in the next turn, and is our own
    bool counted = false;  // in own_: the session lives, or will
    SteadyTime asked_at{};
    std::string name, address;
    Answer answer;
  };
  bool may_by_itself(std::uint32_t in_class, Direction direction) const;
  milliseconds patience(Direction direction) const {
    return direction == Direction::incoming ? options_.client_patience : options_.mail_patience;
  }
  /// Since when anvil is away.
  void away(SteadyTime since);
  /// Decides those that wait in vain, in order: each counts beside those before it that were granted.
  void decide_waiting(Direction direction);
  /// The answer is known; it is given in the next turn.
  void decide(Lease lease, bool granted);
  void give(Lease lease, bool granted, const std::string& mask);
  void count(Held& held);
  void ask(Lease lease, const Held& held);
  void watch(SteadyTime at);
  void on_connected();
  void on_message(Link::Channel::Received& received);
  void on_lost(const Error& why);
  void on_refused(const Error&) {}
  void tell_room(std::uint32_t in_class);
  void take(const ipc::sessions::Taken& m);
  void take(const ipc::sessions::Room& m);
  void take(const ipc::sessions::Wanted& m);
  void take(const ipc::sessions::AllFull& m);
  void take(const ipc::sessions::Status&) {}
  template <class M>
  void send(const M& message) {
    if (connected()) (void)link_.channel().send(message);  // too large it cannot be
  }

  async::Loop& loop_;
  std::shared_ptr<const Classes> classes_;
  Events events_;
  Options options_;
  async::Loop::TimerHandle watch_;
  SteadyTime away_since_{};
  async::Loop::TimerHandle client_patience_, mail_patience_;
  bool again_ = false;  // there was an anvil before
  std::unordered_map<Lease, Held> leases_;
  std::vector<std::uint32_t> own_;  // by class, of either direction
  // outgoing sessions of these classes were refused: by anvil in its class of this mask, by ourselves if that is empty
  std::map<std::uint32_t, std::string> refused_;
  Lease next_ = 1;
  bool full_ = false;
  Link link_;
};

}  // namespace pen::sessions
