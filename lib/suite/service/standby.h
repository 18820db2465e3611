#pragma once
/// How the tools of this host find a master that waits as a standby, or that runs with a lease, and the keeper that is
/// between two masters: by a socket without a file, because the queue's directories may belong to another host at the
/// moment, or not be there.
///
/// Use:     master:  PEN_TRY_ASSIGN(Fd door, open_standby_door(config.directory()));  answer_at_door(door, text);
///          tools:   PEN_TRY_ASSIGN(auto standby, running_standby(config.directory()));
///                   if (standby) … standby->process, standby->text
/// Trust:   an abstract socket may be anybody's: what root or this user listens at counts. Its name ends at random and
///          is looked up in the kernel's list, so that nobody can take it first, and hide the master from its tools.
/// Thread:  any.
#include <optional>
#include <string>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/suite/service/lock.h"

namespace pen::service {

/// Non-blocking. Errors: errno.
Result<Fd> open_standby_door(const std::string& config_directory);
Result<Fd> open_keeper_door(const std::string& config_directory);
/// Sends the text to clients that wait there, some at once: for the others the door stays readable.
void answer_at_door(int door, const std::string& text);
/// What a keeper without a master answers. text: one line; due: until the next master starts.
std::string keeper_answer(const std::string& text, milliseconds due);

struct Answering {
  Process process;
  std::string text;  // empty: it does not answer
};
/// It may wait for a few seconds where the doors are crowded or the master is busy. nullopt: there is none.
/// text: JSON: {"state": "standby" or "active", "why": …}. Errors: errno, the kernel does not tell which sockets there
/// are, so that it may be there unseen.
Result<std::optional<Answering>> running_standby(const std::string& config_directory);

struct Keeping {
  Process process;
  std::string text;                 // what it waits for, between two masters; else empty
  std::optional<milliseconds> due;  // until the next master starts; nullopt: there is one, or it is not said
};
/// As running_standby().
Result<std::optional<Keeping>> running_keeper(const std::string& config_directory);

}  // namespace pen::service
