#pragma once
/// The locks of mailbox files, as other mail programs take them: fcntl(), flock(), and a file NAME.lock beside it.
///
/// Use:     PEN_TRY_ASSIGN(const LockRules rules, lock_rules(settings, "fcntl, dotlock"));
///          Dotlock dotlock;
///          if (rules.dotlock) PEN_TRY(dotlock.take(directory, name, rules, called_off));
///          PEN_TRY(lock_file_for_mail(file, rules, called_off));
/// Owns:    a Dotlock its file; the other locks belong to the open file, so that they work between threads too.
/// Errors:  EAGAIN, another process had the lock during all tries; EACCES, no file may be made there; ECANCELED,
///          called off; errno.
/// Thread:  any; waits between tries.
/// Source:  mailbox_delivery_lock, deliver_lock_attempts, deliver_lock_delay, stale_lock_time; postlock(1).
#include <functional>
#include <string>
#include <string_view>

#include "lib/base/codec.h"
#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/config/settings.h"

namespace pen::mailbox {

struct LockRules {
  bool fcntl = true;
  bool flock = false;
  bool dotlock = true;
  unsigned attempts = 20;
  seconds delay{1};
  seconds stale{500};
  PEN_FIELDS(fcntl, flock, dotlock, attempts, delay, stale)
};
/// "fcntl, dotlock"; errors name the unknown word.
/// setting: for the error.
Result<LockRules> parse_lock_rules(std::string_view methods, std::string_view setting = "mailbox_delivery_lock");
/// The same with the numbers of the settings. methods: empty, those of mailbox_delivery_lock.
Result<LockRules> lock_rules(const config::Settings& settings, std::string_view methods = {});

/// Asked while waiting for a lock; true: it is not wanted any more.
using CalledOff = std::function<bool()>;
Error called_off_error();

/// FILE.lock beside the mailbox, made with O_EXCL; removed when the object dies. The directory must live as long.
class Dotlock {
 public:
  Dotlock() = default;
  ~Dotlock() { release(); }
  Dotlock(const Dotlock&) = delete;
  Dotlock& operator=(const Dotlock&) = delete;
  void release();
  /// EACCES: not allowed to make files there; the caller decides whether another lock is enough.
  Result<void> take(int directory, const std::string& mailbox, const LockRules& rules, const CalledOff& called_off);

 private:
  int directory_ = -1;
  std::string name_;
};

/// Takes the locks of the rules on the open file itself.
Result<void> lock_file_for_mail(int fd, const LockRules& rules, const CalledOff& called_off);

}  // namespace pen::mailbox
