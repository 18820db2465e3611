#pragma once
/// How the hosts of a cluster keep a rate together (destdb_backend = redis), and tell each other what they learned of
/// it. The core, without I/O.
///
/// A host asks the server for the right to send a few messages (tokens), and sends no more than it got. The server
/// deals tokens at the rate, to one host after the other (kRateScript), so that the limit holds for all hosts together,
/// however many they are: a host that asks when there are none gets the next one, with the time from which it counts.
/// Tokens are for a fraction of a second's work, one at least: what a host that dies had left is not missed, and what
/// another kept for a connection that took long to open is one message too many in the time in which it comes to use
/// it. Without the server each host keeps to its share, the rate divided by the hosts that were last known: nothing
/// is asked, and together they send no more.
///
/// Use:     set_time() before each batch of events; then the events. For each message under the rate of `key`:
///          if (rates.ready(key)) { rates.take(key); … } else rates.want(key, how many wait);
///          an effect Ready says when to try again. take_requests() goes to the server, take_effects() to the
///          scheduler; call tick() at next_wake(). Every request is answered by answered() or lost by down().
/// Learned: what a host learned about a key is an opaque text with the age of its change; the newest counts. learned()
///          sends it to the others, an effect Heard comes from another. A host that sends hears of it when it asks for
///          tokens, and every Options::look where there is no limit: then available() is called for that. All hosts
///          that know tell a server that has lost its memory. Ages are sent, never times: the hosts' clocks need
///          not agree.
/// Bounds:  Options::entries keys, of which the longest unused go first; Options::under_way requests.
/// Thread:  one. Same events: same effects.
/// Source:  GCRA (ITU-T I.371); docs/shaping.md.
#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "lib/base/time.h"
#include "lib/queue/shaping/rate.h"

namespace pen::shaping {

class SharedRates {
 public:
  struct Options {
    milliseconds token_life{60'000};  // a connection may take so long to open; what is not used by then is given up
    milliseconds batch{200};          // tokens are asked for this much work
    milliseconds burst{250};          // how far the server deals ahead
    milliseconds patience{200};       // a server that takes longer counts as away until it answers
    milliseconds look{5000};          // how often a host that sends asks what others learned
    std::size_t entries = 20'000;
    std::size_t under_way = 256;
  };

  // --- to the server ---
  struct Ask {
    std::uint64_t id = 0;
    std::string key;
    std::uint32_t wanted = 0;  // 0: only what was learned
    Rate rate;
    std::uint32_t hosts = 1;    // none waits longer than for one message of each
    std::uint64_t version = 0;  // of what was learned, as known here
  };
  struct Tell {
    std::uint64_t id = 0;
    std::string key;
    std::string learned;
    milliseconds age{0};  // of the change
  };
  using Request = std::variant<Ask, Tell>;

  // --- to the scheduler ---
  struct Ready {  // ready() may have become true
    std::string key;
  };
  struct Heard {  // another host learned this
    std::string key, learned;
    milliseconds age{0};  // of the change
  };
  using Effect = std::variant<Ready, Heard>;

  explicit SharedRates(Options options) : options_(options) {}
  ~SharedRates();
  SharedRates(const SharedRates&) = delete;
  SharedRates& operator=(const SharedRates&) = delete;

  /// An earlier one than it knows changes nothing.
  void set_time(SteadyTime now) { now_ = std::max(now_, now); }

  // --- from the scheduler ---
  /// The rate of all hosts together; without a limit everything is ready.
  void set_rate(std::string_view key, Rate rate);
  bool ready(std::string_view key) { return available(key) > 0; }
  /// How many may go now.
  std::uint32_t available(std::string_view key);
  /// From when one more than `before` may go; kNever: an effect Ready says so.
  SteadyTime next(std::string_view key, std::uint64_t before = 0);
  /// One message goes. ready() was true.
  void take(std::string_view key);
  /// Not ready: so many wait. 0: none any more.
  void want(std::string_view key, std::uint32_t waiting);
  /// age: of the change, where it is not of now.
  void learned(std::string_view key, std::string text, milliseconds age = {});

  // --- from the server ---
  void up(std::uint32_t hosts);
  void down();
  /// How many hosts the cluster has, this one included, as last heard.
  void set_hosts(std::uint32_t hosts);
  bool is_up() const { return up_; }
  std::uint32_t hosts() const { return hosts_; }
  struct Answer {
    std::uint32_t granted = 0;  // tokens; at least one, if any was wanted
    microseconds wait{0};       // from when they count
    std::uint64_t version = 0;  // of what was learned
    std::string learned;        // empty: the known version is the last
    milliseconds age{0};        // of what was learned
  };
  void answered(std::uint64_t id, const Answer& answer);
  void told(std::uint64_t id, std::uint64_t version, bool newest);

  void tick();
  SteadyTime next_wake() const;
  std::vector<Request> take_requests();
  std::vector<Effect> take_effects() { return std::exchange(effects_, {}); }
  std::size_t entries() const { return entries_.size(); }

 private:
  struct Entry {
    std::string key;
    Rate rate;
    Bucket own;  // without the server
    std::uint32_t tokens = 0;
    SteadyTime tokens_from{}, tokens_until{};
    std::uint32_t waiting = 0;
    SteadyTime look{};         // when to ask what was learned
    std::uint64_t asking = 0;  // the open request; 0: none
    SteadyTime asked{};
    std::uint64_t telling = 0;
    std::uint64_t version = 0;
    std::string known;     // what was learned last, here or elsewhere
    SteadyTime changed{};  // when
    bool untold = false;
    bool queued = false;
    SteadyTime wake = kNever;  // its place in wakes_
    std::list<Entry*>::iterator used;
  };

  Entry& entry(std::string_view key);
  bool by_server() const { return up_ && !slow_; }
  Rate part(Rate whole) const;
  void set_own(Entry& e);
  void ask_if_needed(Entry& e);
  bool wants_tokens(const Entry& e) const;
  void queue(Entry& e);
  void wake_at(Entry& e, SteadyTime at);
  void drop_oldest();
  void fall_back();
  SteadyTime out_of_patience() const;

  Options options_;
  SteadyTime now_{};
  bool up_ = false, slow_ = false;
  std::uint32_t hosts_ = 1;
  std::uint64_t next_id_ = 1;
  std::unordered_map<std::string, std::unique_ptr<Entry>> entries_;
  std::map<std::uint64_t, Entry*> requests_;  // the first is the oldest
  std::deque<Entry*> queue_;
  std::set<std::pair<SteadyTime, Entry*>> wakes_;
  std::list<Entry*> used_;  // longest unused first
  std::vector<Effect> effects_;
};

/// KEYS: the rate. ARGV: wanted, microseconds between two messages, of the burst, the number of hosts, the known
/// version, the milliseconds to keep the record. Reply: granted, microseconds until they count, version, what was
/// learned ("" where the version is known), the milliseconds since it changed.
extern const std::string_view kRateScript;
/// KEYS: the rate. ARGV: what was learned, the milliseconds since it changed, the milliseconds to keep the record.
/// Reply: version, 1 if that was the newest.
extern const std::string_view kLearnedScript;

}  // namespace pen::shaping
