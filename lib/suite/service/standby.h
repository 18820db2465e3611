#pragma once
/// How the tools of this host find a master that waits as a standby, or that runs with a lease, and the keeper that is
/// between two masters: by a socket without a file, because the queue's directories may belong to another host at the
/// moment, or not be there.
///
/// Use:     master:  PEN_TRY_ASSIGN(Fd door, open_standby_door(config.directory()));  answer_at_door(door, text);
///          tools:   if (auto standby = running_standby(config.directory())) … standby->process, standby->text
/// Trust:   an abstract socket may be anybody's: what root or this user listens at counts. Its name ends at random and
///          is looked up in the kernel's list, so that nobody can take it first, and hide the master from its tools.
/// Thread:  any.
#include <optional>
#include <string>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/suite/service/lock.h"

namespace pen::service {

/// Non-blocking. Errors: errno.
Result<Fd> open_standby_door(const std::string& config_directory);
Result<Fd> open_keeper_door(const std::string& config_directory);
/// Sends the text to clients that wait there, some at once: for the others the door stays readable.
void answer_at_door(int door, const std::string& text);

struct Answering {
  Process process;
  std::string text;  // empty: it does not answer
};
/// It may wait for a few seconds where the doors are crowded or the master is busy.
/// text: JSON: {"state": "standby" or "active", "why": …}.
std::optional<Answering> running_standby(const std::string& config_directory);
/// text: what it waits for, between two masters; else empty.
std::optional<Answering> running_keeper(const std::string& config_directory);

}  // namespace pen::service
