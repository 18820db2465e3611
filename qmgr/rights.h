#pragma once
/// What the user behind a tool may do over public/qmgr.
///
/// Use:     auto rights = Rights::open(s.authorized_mailq_users, s.authorized_flush_users);
///          const Right right = co_await pool.run([&] { return rights->of(uid); });
/// Rules:   authorized_mailq_users may look at the queue, authorized_flush_users have mail tried now. Orders that
///          change or show mail are for root, ourselves and the programs of docs/who-may-talk.md: the caller checks
///          that.
/// Thread:  of() reads the user database and may block: a handler thread. Any thread; immutable.
/// Source:  Postfix: authorized_mailq_users, authorized_flush_users.
#include <sys/types.h>

#include <string>
#include <vector>

#include "lib/map/match_list.h"

namespace pen::qmgr {

struct Right {
  bool all = false;  // whatever there is
  bool list = false;
  bool flush = false;
};

/// Of a program of the mail system's. orders: its account may give them.
inline Right right_of(std::string_view program, bool orders) {
  if (program == "smtpd") return {.flush = true};  // what ETRN asks for
  return {orders, true, true};
}

/// What the others hear.
inline constexpr const char* kMayNotList = "you may not look at the queue (authorized_mailq_users)";
inline constexpr const char* kMayNotFlush = "you may not have mail tried now (authorized_flush_users)";
inline constexpr const char* kMayNotChange = "only root may do that, and the owner of a mail system without root";

class Rights {
 public:
  /// Everyone may look and flush.
  Rights() = default;
  /// Errors: those of MatchList::open, with the name of the setting.
  static Result<Rights> open(const std::vector<std::string>& mailq_users, const std::vector<std::string>& flush_users,
                             const map::OpenOptions& options);
  /// A user without name is "unknown". What cannot be looked up now is refused, with a warning in the log.
  Right of(uid_t uid) const;
  /// of() needs no look-up: everyone may.
  bool open_to_all() const { return everyone_lists_ && everyone_flushes_; }

 private:
  bool everyone_lists_ = true;
  bool everyone_flushes_ = true;
  map::MatchList list_;
  map::MatchList flush_;
};

}  // namespace pen::qmgr
