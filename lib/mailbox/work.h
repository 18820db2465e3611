#pragma once
/// What one delivery asks of the process that makes it, and what that answers. Sent between processes of one program.
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/codec.h"
#include "lib/mailbox/command.h"
#include "lib/mailbox/store.h"

namespace pen::mailbox {

inline constexpr std::size_t kMaxForward = 64 * 1024;
inline constexpr std::size_t kMaxInclude = 8 * 1024 * 1024;  // that root is told to read
inline constexpr std::size_t kMaxUserInclude = 1024 * 1024;  // that somebody else is

struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // supplementary
  PEN_FIELDS(uid, gid, groups)
};

/// What a process that goes from account to account (postman.h) may touch.
struct Round {
  std::string base;  // no file outside this directory
  uid_t lowest = 1;  // no uid below this one; root's is refused whatever this is
  PEN_FIELDS(base, lowest)
};

struct Work {
  std::optional<Identity> become;        // nullopt: stay who we are (an instance of an ordinary user)
  std::string root;                      // the process's root directory (chroot), absolute; "": ours. Needs root
  std::string read_path;                 // not empty: this file is read as `become`, and that is all
  std::size_t read_limit = kMaxInclude;  // bytes of it
  std::string home;                      // require_home_directory: must be there; empty: not looked at
  // absolute, the first that is there counts, even if it is not one to obey; none: do not look
  std::vector<std::string> forward_files;
  // nothing is stored and no command run: the status is "delivered" and says what would be done
  bool only_look = false;
  std::optional<Command> command;  // to be run instead of storing into the target
  Target target;
  Message message;  // size and from_line are filled in
  // a process that goes from account to account may do it; not sent: that is settled by then
  std::optional<Round> round = {};
  PEN_FIELDS(become, root, read_path, read_limit, home, forward_files, only_look, command, target, message)
};

struct Answer {
  bool file_found = false;  // then nothing was delivered: it is in the next three
  std::string file_path;    // which of forward_files
  std::string file_text;    // at most kMaxForward bytes; read_limit of read_path
  uid_t file_owner = 0;     // of read_path
  // why one of forward_files that is there was not obeyed; the delivery was made as if there were none
  std::string file_ignored;
  mail::DeliveryStatus status;
  bool unfit = false;  // of a postman: it does none at all; the status says why
  PEN_FIELDS(file_found, file_path, file_text, file_owner, file_ignored, status, unfit)
};

/// Deferred.
inline Answer trouble(std::string dsn, std::string text) {
  Answer a;
  a.status = mail::make_status(mail::Action::deferred, std::move(dsn), std::move(text));
  return a;
}

/// How a job goes to a worker: its length in four bytes, least first, and this; then the content. The answer comes
/// back the same way.
struct Job {
  seconds limit{0};
  Work work;
  PEN_FIELDS(limit, work)
};
inline constexpr std::size_t kLengthBytes = 4;
std::string with_length(std::string_view bytes);
std::uint32_t length_of(std::string_view four);

}  // namespace pen::mailbox
