#pragma once
/// What logins and senders have sent in this hour and this day, against limits that come with each question. No I/O, no
/// clock.
///
/// Window:  an hour, or a day, begins with the first message in it; when it is over, the next begins with nothing.
/// Rules:   a question is about several users at once, and is counted for all of them or for none.
/// Use:     as Greylist: take() stored records, ask(), take_changes(), collect_some().
/// Cluster: learn() takes what all hosts together have counted. Of a window's two counts the larger one counts.
/// Bounds:  kMostUsers with names of kMostName bytes (some 20 MB). A full table replaces, of a few, the user who has
///          sent least: strangers who invent senders do not make a busy user's count begin anew.
/// Lost:    records are hints: without them counting begins from nothing.
/// Source:  docs/quotas.md.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "anvil/record.h"
#include "lib/base/time.h"
#include "lib/suite/ipc/sender_memory.h"

namespace pen::anvil {

class Quotas {
 public:
  using Question = ipc::sender_memory::AskQuota;
  using Answer = ipc::sender_memory::QuotaAnswer;
  static constexpr std::size_t kMostUsers = 100'000;
  static constexpr std::size_t kMostName = 400;
  /// What was sent in a window that has begun so long ago.
  struct Sent {
    seconds since{0};
    std::uint32_t messages = 0, recipients = 0;
  };

  /// Of names of other lengths nothing is counted.
  static bool counts(std::string_view name) { return !name.empty() && name.size() <= kMostName; }

  void take(std::string_view key, std::string_view value);
  Answer ask(const Question& question, WallTime now);
  void learn(const std::string& name, const Sent& hour, const Sent& day, WallTime now);
  void collect_some(WallTime now, std::size_t most);
  std::vector<Change> take_changes(std::size_t most);
  bool changed() const { return !changed_.empty(); }
  std::size_t users() const { return users_.size(); }
  /// For tests: another bound.
  void limit(std::size_t users) { most_ = users; }

 private:
  struct Window {
    std::int64_t begin = 0;  // seconds since 1970
    std::uint32_t messages = 0, recipients = 0;
  };
  struct Used {
    Window hour, day;
  };
  /// Begins windows anew that are over.
  static void renew(Used& used, std::int64_t now);
  static bool stale(const Used& used, std::int64_t now);
  /// The user's record, a new one if there is none.
  Used& used_of(const std::string& name);
  void make_room();

  std::unordered_map<std::string, Used> users_;
  std::unordered_set<std::string> changed_;
  std::size_t most_ = kMostUsers;
  std::size_t place_ = 0;  // of collect_some()
};

}  // namespace pen::anvil
