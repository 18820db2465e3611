#pragma once
/// The greylist: which triplets of client network, sender and recipient were seen when, and which clients came back so
/// often that they are known. No I/O, no clock.
///
/// Rules:   an unknown triplet is put off for `delay`. A triplet that comes back after that, and within `window` of the
///          first try, passes, and passes from then on. A triplet that was not used for `keep` is forgotten, and one
///          that has not passed after `window`. A network that has passed `passes` times is known: it passes whatever
///          it sends.
/// Use:     Greylist list;  list.take(key, value) for each stored record;  list.ask(question, now) → answer;
///          list.take_changes(most) to be written;  list.collect_some(now, 1000) now and then.
/// Bounds:  kMostTriplets and kMostClients, as hashes of fixed size (some 30 MB). A network has at most kMostPending
///          triplets that have not passed: further ones are put off and not remembered. A full table replaces, of a
///          few, the triplet that waits longest, so that a flood of first tries costs other first tries and nothing
///          that has passed.
/// Cluster: other hosts' records are learnt before a question, unless knows() says that own knowledge suffices; what
///          they should know is in take_told(). Of two records of a triplet the one that passed counts, else the
///          earlier try.
/// Lost:    records are hints: without them a client is put off once more.
/// Source:  docs/greylisting.md; E. Harris, "The next step in the spam control war: greylisting" (2003).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "anvil/record.h"
#include "lib/base/time.h"
#include "lib/suite/ipc/sender_memory.h"

namespace pen::anvil {

class Greylist {
 public:
  using Question = ipc::sender_memory::AskGreylist;
  struct Answer {
    std::uint32_t wait = 0, delayed = 0;  // seconds; as in Greylisted
  };
  static constexpr std::size_t kMostTriplets = 300'000;
  static constexpr std::size_t kMostClients = 100'000;
  static constexpr std::size_t kMostPending = 1000;

  /// A stored record; one that cannot be read is a lost hint. A record that is known already stays as it is.
  void take(std::string_view key, std::string_view value);
  Answer ask(const Question& question, WallTime now);
  /// The stored keys that the answer depends on.
  struct Keys {
    std::string triplet, client;
  };
  static Keys keys_of(const Question& question);
  /// Whether it passes by what is known here.
  bool knows(const Question& question, WallTime now) const;
  /// A record of another host.
  void learn(std::string_view key, std::string_view value, WallTime now);
  /// Records for other hosts, since the last call; seconds: for which they hold. Nothing is sent before tell_others().
  struct Told {
    std::string key, value;
    std::int64_t seconds = 0;
  };
  void tell_others() { tells_ = true; }
  std::vector<Told> take_told() { return std::exchange(told_, {}); }
  /// Forgets what is stale in the next `most` places of the tables, in turn.
  void collect_some(WallTime now, std::size_t most);
  /// The changes since the last call, at most `most`.
  std::vector<Change> take_changes(std::size_t most);
  bool changed() const { return !changed_.empty(); }

  std::size_t triplets() const { return triplets_.size(); }
  std::size_t clients() const { return clients_.size(); }
  /// For tests: other bounds.
  void limit(std::size_t triplets, std::size_t clients) {
    most_triplets_ = triplets;
    most_clients_ = clients;
  }

 private:
  struct Key {
    std::uint64_t high = 0, low = 0;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const { return key.low; }
  };
  struct Triplet {
    std::int64_t first = 0, last = 0;  // seconds since 1970
    std::uint32_t window = 0, keep = 0;
    bool passed = false;
    Key client;
  };
  struct Client {
    std::int64_t last = 0;
    std::uint32_t keep = 0, passes = 0;
    std::uint32_t pending = 0;  // triplets that have not passed; not stored
  };
  using Triplets = std::unordered_map<Key, Triplet, Hash>;
  using Clients = std::unordered_map<Key, Client, Hash>;
  static Key key_of(std::string_view text);
  static std::string stored(char kind, const Key& key);
  static bool stale(const Triplet& t, std::int64_t now);
  void remove(Triplets::iterator at);
  /// Drops the client if there is nothing to remember of it.
  void settle(const Key& key);
  void make_room();
  void passed(Triplet& triplet, const Question& question, std::int64_t now);
  void tell(const Key& key, const Triplet& triplet, std::int64_t now);
  void tell(const Key& key, const Client& client);

  Triplets triplets_;
  Clients clients_;
  std::unordered_set<std::string> changed_;  // stored keys
  std::size_t most_triplets_ = kMostTriplets, most_clients_ = kMostClients;
  std::size_t place_ = 0, client_place_ = 0;  // of collect_some()
  bool tells_ = false;
  std::vector<Told> told_;
};

}  // namespace pen::anvil
