#pragma once
/// The order for one delivery and the delivering process's answer. Sent between processes of one program.
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/codec.h"
#include "lib/send/mailbox/command.h"
#include "lib/send/mailbox/store.h"

namespace pen::mailbox {

inline constexpr std::size_t kMaxForward = 64 * 1024;
inline constexpr std::size_t kMaxInclude = 8 * 1024 * 1024;  // read as root
inline constexpr std::size_t kMaxUserInclude = 1024 * 1024;  // read as another user

struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // supplementary
  std::string name = {};      // of the account, if it has one: several may share a uid
  PEN_FIELDS(uid, gid, groups, name)
};

/// The bounds of a process that delivers for several accounts (postman.h).
struct Round {
  std::string base;                   // no files outside this directory
  uid_t lowest = 1;                   // no uid below this one; root's is always refused
  std::vector<uid_t> kept_uids = {};  // nor these, nor these gids: accounts of the mail system
  std::vector<gid_t> kept_gids = {};
  PEN_FIELDS(base, lowest, kept_uids, kept_gids)
};

struct Work {
  std::optional<Identity> become;        // nullopt: keep our identity (an ordinary user's instance)
  std::string root;                      // the process's root directory (chroot), absolute; "": ours. Needs root
  std::string read_path;                 // if not empty: read this file as `become`, and do nothing else
  std::size_t read_limit = kMaxInclude;  // bytes of it
  std::string home;                      // require_home_directory: must exist; empty: not checked
  // Absolute; the first that exists counts, even if it must not be obeyed. None: do not look for one.
  std::vector<std::string> forward_files;
  // Store nothing and run no command: the status is "delivered" and says what would be done.
  bool only_look = false;
  std::optional<Command> command;  // run it instead of storing into the target
  Target target;
  Message message;  // size and from_line are set later
  // A postman may make the delivery. Not sent: decided before.
  std::optional<Round> round = {};
  PEN_FIELDS(become, root, read_path, read_limit, home, forward_files, only_look, command, target, message)
};

struct Answer {
  bool file_found = false;  // then nothing was delivered; the file is in the next three fields
  std::string file_path;    // the one of forward_files
  std::string file_text;    // at most kMaxForward bytes; of read_path, read_limit
  uid_t file_owner = 0;     // of read_path
  // Why an existing file of forward_files was not obeyed; the delivery was made as if there were none.
  std::string file_ignored;
  mail::DeliveryStatus status;
  bool unfit = false;  // from a postman that cannot deliver at all; the status has the reason
  PEN_FIELDS(file_found, file_path, file_text, file_owner, file_ignored, status, unfit)
};

/// A deferred delivery.
inline Answer trouble(std::string dsn, std::string text) {
  Answer a;
  a.status = mail::make_status(mail::Action::deferred, std::move(dsn), std::move(text));
  return a;
}

/// The form of a job on a worker's socket: its length in four bytes, least significant first, this struct, then the
/// content. The answer has the same form.
struct Job {
  seconds limit{0};
  Work work;
  PEN_FIELDS(limit, work)
};
inline constexpr std::size_t kLengthBytes = 4;
std::string with_length(std::string_view bytes);
std::uint32_t length_of(std::string_view four);

}  // namespace pen::mailbox
