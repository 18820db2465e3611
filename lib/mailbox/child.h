#pragma once
/// One delivery in a short-lived process that runs as the recipient.
///
/// Use:     from a handler thread (it blocks):  Answer a = deliver_in_child(work, body, time_limit);
/// Process: fork; the child drops every descriptor but two, takes the recipient's groups, gid and uid, looks for a
///          forward file (if asked), else stores the message or runs a command (command.h), and reports. It gets the
///          content through a socket, never a descriptor of the spool. It ends itself after the time limit even if this program dies; a child
///          whose answer does not come in time is killed and reaped later: a hanging file system holds up nobody else.
/// Ending:  of the conversation that the delivery is for: its command is killed with its group, nothing more is stored,
///          the answer is "deferred" at once. A mailbox that is being written to is completed.
/// Death:   of this program: a child that already has the whole content finishes (a mailbox is never cut in the
///          middle); one that has not gives up without effect.
/// Thread:  any number at once.
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/ipc/content.h"
#include "lib/mailbox/command.h"
#include "lib/mailbox/ending.h"
#include "lib/mailbox/store.h"

namespace pen::mailbox {

inline constexpr std::size_t kMaxForward = 64 * 1024;
inline constexpr std::size_t kMaxInclude = 8 * 1024 * 1024;  // that root is told to read
inline constexpr std::size_t kMaxUserInclude = 1024 * 1024;  // that somebody else is

struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // supplementary
};

struct Work {
  std::optional<Identity> become;  // nullopt: stay who we are (an instance of an ordinary user)
  std::string root;       // the child's root directory (chroot), absolute; "": ours. Needs root
  std::string read_path;  // not empty: this file is read as `become`, and that is all
  std::size_t read_limit = kMaxInclude;  // bytes of it
  std::string home;  // require_home_directory: must be there; empty: not looked at
  // absolute, the first that is there counts, even if it is not one to obey; none: do not look
  std::vector<std::string> forward_files;
  // nothing is stored and no command run: the status is "delivered" and says what would be done
  bool only_look = false;
  std::optional<Command> command;  // to be run instead of storing into the target
  Target target;
  Message message;  // size and from_line are filled in
};

struct Answer {
  bool file_found = false;  // then nothing was delivered: it is in the next three
  std::string file_path;    // which of forward_files
  std::string file_text;    // at most kMaxForward bytes; read_limit of read_path
  uid_t file_owner = 0;     // of read_path
  // why one of forward_files that is there was not obeyed; the delivery was made as if there were none
  std::string file_ignored;
  mail::DeliveryStatus status;
  PEN_FIELDS(file_found, file_path, file_text, file_owner, file_ignored, status)
};

/// ending: nullptr where there is none.
Answer deliver_in_child(Work work, const ipc::Content& body, std::chrono::seconds time_limit,
                        const Ending* ending = nullptr);

}  // namespace pen::mailbox
