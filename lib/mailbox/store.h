#pragma once
/// Writes one message into a Maildir or an mbox: blocking, as the current user. Runs in a worker (worker.h).
///
/// Safety:  a path is a trusted base directory plus a relative part. Below the base no symbolic link is followed,
///          mailboxes must be regular files with one link that belong to the current user: links planted in a shared
///          spool directory have no effect. In the recipient's own home (follow_links) one to a directory is, if it is
///          his or root's and the directory his; a mailbox file is never a link (as Postfix's safe_open has it).
/// Maildir: tmp/ → write → fsync → link into new/ → fsync of new/. A crash leaves at most a file in tmp/.
/// mbox:    locked, appended, fsynced; on any failure cut back to its former length. Locks belong to the open file,
///          so that they hold among threads too.
/// Result:  success only when the message is on stable storage.
/// Source:  Maildir (D. J. Bernstein's manual page), mailbox_delivery_lock, deliver_lock_attempts,
///          deliver_lock_delay, stale_lock_time, mailbox_size_limit, virtual_mailbox_limit.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/codec.h"
#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/mail/delivery_status.h"

namespace pen::mailbox {

enum class Form : std::uint8_t { maildir, mbox };

struct LockRules {
  bool fcntl = true;
  bool flock = false;
  bool dotlock = true;
  unsigned attempts = 20;
  seconds delay{1};
  seconds stale{500};
  PEN_FIELDS(fcntl, flock, dotlock, attempts, delay, stale)
};
/// "fcntl, dotlock"; errors name the word that is no method.
Result<LockRules> parse_lock_rules(std::string_view methods);

struct Target {
  Form form = Form::maildir;
  std::string base;           // trusted directory, absolute; must exist
  std::string path;           // below base, no "..", empty only for a Maildir that is the base itself
  bool follow_links = false;  // below base, to directories of the current user
  // an mbox of somebody else that the current user may write; with follow_links a Maildir too
  bool any_owner = false;
  std::string shown;             // for the status in place of the form's name: "file: /x/y"
  std::uint64_t size_limit = 0;  // of the mailbox file (mbox) or of the message (Maildir); 0: none
  LockRules lock;
  PEN_FIELDS(form, base, path, follow_links, any_owner, shown, size_limit, lock)
};

struct Message {
  std::string sender;
  std::string from_line;   // mbox_from_line(): local time, so made before a fork (a lock of the C library)
  std::string fields;      // prepended_fields()
  std::uint64_t size = 0;  // bytes of content to come
  WallTime now{};
  std::string hostname;
  unsigned long long unique = 0, random = 0;
  PEN_FIELDS(sender, from_line, fields, size, now, hostname, unique, random)
};
/// Gives the next chunk of the content; empty view: end. Fewer bytes than Message::size is a failure.
using Content = std::function<Result<std::string_view>()>;
/// Asked while a lock is waited for and before anything shows in the mailbox: true, and there is no delivery.
using CalledOff = std::function<bool()>;

/// One of several messages for the same mbox.
struct MboxDelivery {
  const Message* message = nullptr;
  const Content* content = nullptr;
  const CalledOff* called_off = nullptr;
  mail::DeliveryStatus status = {};  // filled in
};
/// One after the other, under one lock and one sync; each fails for itself. target: an mbox.
void store_mbox(const Target& target, std::span<MboxDelivery* const> deliveries);

using SyncDirectory = std::function<Result<void>(int fd)>;
/// sync: brings what was done in the directory before the call onto stable storage.
mail::DeliveryStatus store_maildir(const Target& target, const Message& message, const Content& content,
                                   const CalledOff& called_off, const SyncDirectory& sync);

/// Either of these, for one message alone.
/// Permanent failure only for what will not get better by itself (full mailbox); the rest is deferred.
mail::DeliveryStatus store(
    const Target& target, const Message& message, const Content& content,
    const CalledOff& called_off = [] { return false; });

}  // namespace pen::mailbox
