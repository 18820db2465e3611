#pragma once
/// Badges: how the programs of an instance, which share an account, prove to each other which program they are.
///
/// Use:     wear(std::move(badges));     // once, before the first connection: service::run() does it
///          The rest is connect_channel()'s and greet()'s (channel.h): a client's hello has its name and its badge for
///          that socket, and the server learns from them which program it is.
/// Made:    by master (master/badge_maker.h): one for each pair of a program and a service that it may talk to
///          (who_may_talk.h). Only these two have it: an attacker in a program has that program's badges and can pose
///          as no other.
/// Secret:  they travel by a descriptor that is closed when it was read, never by an environment or a command line.
/// Thread:  wear() before there are others.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/codec.h"
#include "lib/base/fd.h"
#include "lib/base/result.h"

namespace pen::ipc {

/// Bytes of a badge.
inline constexpr std::size_t kBadgeSize = 32;

struct Badges {
  struct Worn {
    std::string socket;  // path
    std::string badge;
    PEN_FIELDS(socket, badge)
  };
  struct Known {
    std::string program, badge;
    PEN_FIELDS(program, badge)
  };

  std::string program = {};       // the program that has them
  bool demanded = false;          // a client without one is not a program of ours
  std::vector<Worn> worn = {};    // for the services that the program may talk to
  std::vector<Known> known = {};  // of the programs that may talk to it
  PEN_FIELDS(program, demanded, worn, known)

  /// What to show at a socket; empty: nothing.
  std::string_view for_socket(std::string_view path) const;
  /// Whether this is the badge of that program. Takes as long wherever the two differ.
  bool shows(std::string_view whose, std::string_view badge) const;
};

/// Those of this process. Nobody has any before.
void wear(Badges badges);
const Badges& badges();

/// Memory that a program inherits; its reader starts at the beginning. Errors: errno; malformed (EBADMSG).
Result<Fd> to_memory(const Badges& badges);
Result<Badges> from_memory(int fd);

}  // namespace pen::ipc
