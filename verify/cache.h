#pragma once
/// What is known of addresses: the last result of a probe of each, and for how long it holds. No I/O, no clock.
///
/// Rules:   a result holds for its expire time, and is to be refreshed after its refresh time. A failed probe does not
///          take the place of a good result that still holds: hosts refuse for many reasons. Two probes of one address
///          are kProbeTime apart, since the first may still be under way.
/// Use:     Cache cache(rules);  cache.take(key, value) for each stored record;  cache.find(address, now);
///          cache.result(address, state, text, now);  cache.take_changes(most) are to be written.
/// Keys:    addresses in lower case (key_of()).
/// Bounds:  kMost entries and kMostBytes, each with at most kMostText bytes of text. A full table drops the oldest
///          failure, else the oldest good result.
/// Time:    a clock that was set back makes results of the future: they count as of now.
/// Source:  Postfix verify(8).
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "lib/base/lmdb/change.h"
#include "lib/base/time.h"
#include "lib/suite/ipc/verify.h"

namespace pen::verify {

using ipc::verify::State;

struct CacheRules {
  seconds good_expires{31 * 86400}, good_refresh{7 * 86400};
  seconds failed_expires{3 * 86400}, failed_refresh{3 * 3600};
  bool keep_failed = true;  // address_verify_negative_cache
};

class Cache {
 public:
  static constexpr std::size_t kMost = 200'000;
  /// Strangers choose addresses, which may be as long as a command line.
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  /// How long a probe may take: its host may be slow, and its program be started again.
  static constexpr seconds kProbeTime{1000};
  struct Known {
    State state = State::good;
    std::string text;
    bool refresh = false;  // a new probe is wanted
  };

  explicit Cache(CacheRules rules, std::size_t most = kMost) : rules_(rules), most_(most) {}
  static std::string key_of(std::string_view address);

  /// nullopt: a probe must find out.
  std::optional<Known> find(const std::string& key, WallTime now);
  /// A probe begins.
  void probed(const std::string& key, WallTime now);
  /// The end of a probe. Returns what holds now: the result, or a good one that it does not replace.
  Known result(const std::string& key, State state, std::string_view text, WallTime now);
  bool forget(const std::string& key);

  /// A stored record, or one of another host: kept if it is newer than what is here. One that cannot be read is a lost
  /// hint. stored: the file has it already.
  void take(std::string_view key, std::string_view value, WallTime now, bool stored);
  /// The record of this address for other hosts; nullopt: there is none.
  std::optional<std::string> record(const std::string& key) const;
  /// How long what is known of it holds.
  seconds holds_for(const std::string& key, WallTime now) const;
  /// The changes since the last call, at most `most`.
  std::vector<lmdb::Change> take_changes(std::size_t most);
  bool changed() const { return !changed_.empty(); }
  /// Drops what has expired, at most `most`. Returns how many.
  std::size_t drop_expired(WallTime now, std::size_t most);
  /// The entries behind this key, at most `most`.
  std::vector<ipc::verify::Entry> list(const std::string& after, std::size_t most) const;
  std::optional<ipc::verify::Entry> entry(const std::string& key) const;
  std::size_t size() const { return entries_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    State state = State::good;
    std::string text;
    std::int64_t updated = 0, probed = 0;
    std::multimap<std::int64_t, std::string>::iterator place{};  // in its line
  };
  using Entries = std::map<std::string, Entry, std::less<>>;
  using Line = std::multimap<std::int64_t, std::string>;  // the keys by their last result
  Line& line_of(State state) { return state == State::good ? good_ : failed_; }
  bool expired(const Entry& e, std::int64_t now) const;
  void put(const std::string& key, Entry entry);
  /// About what it takes: the key is in the table and in its line.
  static std::size_t cost(const std::string& key, const Entry& e) { return 2 * key.size() + e.text.size() + 250; }
  /// Takes it out of the table and its line.
  void unlink(Entries::iterator at);
  void erase(Entries::iterator at);
  static ipc::verify::Entry shown(const std::string& key, const Entry& e);

  CacheRules rules_;
  std::size_t most_;
  std::size_t bytes_ = 0;
  Entries entries_;
  Line good_, failed_;
  std::unordered_set<std::string> changed_;
};

}  // namespace pen::verify
